//! Attacks on labels: captured programs with one instruction changed.

use std::path::Path;

use super::of;
use crate::bytecode::Insn;
use crate::observation::Text;

/// A captured program of each shape, with its name.
const CAPTURES: [(&str, &str); 11] = [
    ("slurm/22.05.8-job_1", "Slurm_Cgroup_v2"),
    ("systemd/252-closed-gpu", "sd_devices"),
    ("systemd/247-closed", ""),
    ("libvirt/9.0.0-lvplain-libvirt", ""),
    ("lxc/5.0.2-denylist", ""),
    ("crun/0.17-default", ""),
    ("crun/1.8.1-default", ""),
    ("crun/1.21-default", ""),
    ("runc/1.0.0-rc93-each-access", ""),
    ("runc/1.1.5-each-access", ""),
    ("runc/1.1.5-docker-gpu", ""),
];

fn insns(capture: &str) -> Vec<Insn> {
    let file = format!("fixtures/programs/{capture}.xlated");
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    Insn::parse_all(&bytes).unwrap()
}

/// Ways to change one instruction but for the number in it, which may be a rule's.
fn edits(insn: Insn) -> impl Iterator<Item = Insn> {
    // Accesses of the modes 0x20 and 0xa0 are the kernel's own, and read the same; so is
    // `r0 ^= r0`, which it writes for `r0 = 0`.
    let reads_same = move |code: u8| {
        let is_access = matches!(code & 7, 1 | 3) && code & 0x1f == insn.code & 0x1f;
        is_access && matches!(code & 0xe0, 0x20 | 0xa0) || code == 0xaf
    };
    let codes = (0..=u8::MAX).filter(move |code| *code != insn.code && !reads_same(*code));
    let codes = codes.map(move |code| Insn { code, ..insn });
    // A register that holds nothing of the question.
    let registers = [Insn { dst: 9, ..insn }, Insn { src: 9, ..insn }];
    let offsets = [-1, 1].map(|by| Insn { off: insn.off.wrapping_add(by), ..insn });
    codes.chain(registers).chain(offsets)
}

/// Make sure that each instruction counts: with another operation, register or jump
/// anywhere, a program is not what its writer writes.
#[test]
fn every_instruction_counts() {
    for (capture, name) in CAPTURES {
        let (insns, name) = (insns(capture), Text::from(name));
        let writer = of(&insns, &name);
        assert!(writer.is_some(), "{capture} has no label");
        let mut survivors = Vec::new();
        for at in 0..insns.len() {
            // The second half of a constant of 64 bits has nothing but a number.
            let is_half = at > 0 && insns[at - 1].code == 0x18;
            for insn in edits(insns[at]).filter(|_| !is_half) {
                let mut changed = insns.clone();
                changed[at] = insn;
                if let Some(found) = of(&changed, &name) {
                    survivors.push(format!("{at}: {:?} is {insn:?}: {found}", insns[at]));
                }
            }
        }
        assert!(survivors.is_empty(), "{capture}:\n{}", survivors.join("\n"));
    }
}
