//! Programs that are replaced while gpumap asks.

use crate::support::asm::Asm;
use crate::support::cgroup::Cgroup;
use crate::support::meanwhile::meanwhile;
use crate::support::{bpf, host, node};

/// Runs of the command beside the updates.
const RUNS: usize = 12;

/// Make sure that no answer mixes two programs where a link is updated from one
/// that allows everything to one that denies everything and back.
#[test]
fn a_link_that_is_updated() {
    let Some(_host) = host::shared() else { return };
    let program = |verdict| {
        let mut asm = Asm::new();
        asm.verdict(verdict);
        bpf::load(&asm.finish("all or nothing")).expect("a program").program
    };
    let (allows, denies, cgroup) = (program(1), program(0), Cgroup::new().expect("a cgroup"));
    let link = bpf::link(cgroup.dir(), &allows, 0).expect("a link");
    let path = cgroup.path().to_string_lossy().into_owned();
    let ((), answers) = meanwhile(
        |going| {
            while going.is_on() {
                for program in [&denies, &allows] {
                    bpf::update_link(&link, program).expect("an update");
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
            }
        },
        || (0..RUNS).map(|_| answers(&path)).collect::<Vec<_>>(),
    );
    for answer in answers {
        let mut lines = answer.lines().map(|line| line.split_whitespace().next().unwrap_or_default());
        let first = lines.next().expect("an answer");
        assert!(["allow", "deny", "unknown"].contains(&first), "{answer}");
        assert!(lines.all(|line| line == first), "{answer}");
    }
}

fn answers(cgroup: &str) -> String {
    let output =
        node::gpumap(&["check", "--cgroup", cgroup, "c 195:0 r", "b 8:1 w", "c 1:3 rw", "c 226:128 rw"]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
