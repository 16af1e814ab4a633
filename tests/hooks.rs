//! The examples, run: Slurm's hooks by a real Slurm, with the gpumap under test
//! and with ones that are broken in every way.
//!
//! Needs what `slurm` needs.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is test code: a surprise ends the test"
)]

mod support;

use std::fs;

use support::slurm::Cluster;
use support::slurm::hooks::script;
use support::slurm::job::WAIT;
use support::slurm::spec::Spec;
use support::slurm::with_cluster;

/// What may be in gpumap's place, by name: an exit status without a word, a
/// crash, a finding that is none, one that hangs whatever it is told, nothing.
const BROKEN: [(&str, Option<&str>); 5] = [
    ("exit 2", Some("#!/bin/sh\nexit 2\n")),
    ("crash", Some("#!/bin/sh\nkill -SEGV $$\n")),
    ("exit 1", Some("#!/bin/sh\necho usage: gpumap; exit 1\n")),
    ("hang", Some("#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 1000\n")),
    ("nothing", None),
];

/// Runs something with each of the broken ones, then puts the right one back.
fn with_broken(cluster: &Cluster, test: impl Fn(&str)) {
    let gpumap = cluster.hooks_gpumap();
    let right = fs::read_to_string(&gpumap).expect("a script");
    for (name, text) in BROKEN {
        match text {
            Some(text) => script(&gpumap, text),
            None => fs::remove_file(&gpumap).expect("a file"),
        }
        test(name);
    }
    script(&gpumap, &right);
}

/// A process of nobody's that holds these devices; returns its pid inside.
fn stranger(cluster: &Cluster, name: &str, devices: &[&str]) -> u32 {
    let mut command = cluster.command("setsid");
    let ready = cluster.work().join("out").join(name);
    command.arg("-f").arg(cluster.work().join("actor"));
    command.args(devices.iter().flat_map(|device| ["open", device]));
    let status = command.arg("ready").arg(&ready).status().expect("setsid");
    assert!(status.success());
    cluster.wait_until(name, || ready.exists());
    fs::read_to_string(ready).expect("a file").trim().parse().expect("a pid")
}

/// Make sure that the Prolog says nothing on a clean node, names a stranger on
/// the GPU that a job is about to get and no other, and never is in the way.
#[test]
fn prolog() {
    let spec = Spec::openable().with_hooks("Prolog=@WORK@/hooks/prolog.sh\n");
    with_cluster(&spec, |cluster| {
        let job = cluster.submit(&["--gres=gpu:1"], WAIT);
        job.pid("pid");
        assert_eq!(cluster.logged(), "");
        let foreign = stranger(cluster, "stranger", &["/dev/hl1", "/dev/hl3"]);
        let second = cluster.submit(&["--gres=gpu:1"], WAIT);
        second.pid("pid");
        let logged = cluster.logged();
        assert!(logged.contains(&format!("pid {foreign}")), "{logged}");
        assert!(logged.contains("held-by-foreign") && logged.contains("hl1"), "{logged}");
        assert!(!logged.contains("hl3"), "{logged}");
        second.cancel();
        with_broken(cluster, |how| {
            let job = cluster.submit(&["--gres=gpu:1"], WAIT);
            job.pid("pid");
            job.cancel();
            cluster.assert_up();
            eprintln!("{how}: the job ran");
        });
        assert!(cluster.logged().contains("gpumap-prolog: usage: gpumap"), "{}", cluster.logged());
    });
}
