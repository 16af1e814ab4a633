//! Labels of programs: every captured program, and changes of it, by who wrote it.

use gpumap::analyse::{self, TimeLimit};
use gpumap::bytecode::Insn;
use gpumap::observation::{Answer, HexBytes, Observation, Program, Text};

use crate::support::captures::{Capture, all, directory};

/// The label of a program; empty if it has none.
fn label(program: &Program) -> String {
    let program = Program { id: 7, ..program.clone() };
    let observation = Observation { programs: vec![program], ..Observation::default() };
    let payload = analyse::programs(&observation, &[7], &TimeLimit::default()).expect("the program is there");
    let programs = payload.programs;
    programs[&7].writer.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn named(program: &Program, name: &str) -> Program {
    Program { name: Text::from(name), ..program.clone() }
}

fn insns(program: &Program) -> Vec<Insn> {
    Insn::parse_all(&program.xlated.known().expect("instructions").0).expect("whole slots")
}

fn with(program: &Program, insns: &[Insn]) -> Program {
    let xlated = insns.iter().flat_map(|insn| insn.bytes()).collect();
    Program { xlated: Answer::Known(HexBytes(xlated)), ..program.clone() }
}

/// Who wrote a capture, by the beginning of its name there.
fn truth(name: &str) -> &'static str {
    const CRUN: [&str; 3] = ["1.8.1", "1.21", "5.4.2-gpu"];
    match name {
        _ if name.starts_with("22.05.8") => "Slurm",
        _ if name.starts_with("9.0.0-lv") => "libvirt",
        _ if name.starts_with("5.0.2") => "LXC",
        _ if name.starts_with("1.0.0-rc93") => "runc before 1.0.0-rc94",
        _ if name.starts_with("0.17") => "crun before 0.19",
        "5.4.2-gpu-up1" => "systemd",
        _ if CRUN.iter().any(|crun| name.starts_with(crun)) => "crun",
        _ if name.contains("runc") && !name.ends_with("-2") || name.starts_with("1.1.5") => "runc or youki",
        _ => "systemd",
    }
}

fn captures() -> Vec<Capture> {
    let captures = all(&directory());
    assert!(captures.len() >= 40, "the captures are gone: {}", captures.len());
    captures
}

/// Make sure that every program has the label of who wrote it, whether its constants
/// are blinded or not.
#[test]
fn captures_have_their_writers() {
    for Capture { name, program, .. } in captures() {
        assert_eq!(label(&program), truth(&name), "{name}");
    }
}

/// Make sure that without its name a program has the same label or none: Slurm's shape
/// is also LXC's, and systemd's empty program anybody's.
#[test]
fn shapes_alone() {
    for Capture { name, program, .. } in captures() {
        let expected = match truth(&name) {
            "Slurm" => "",
            "systemd" if insns(&program).len() < 8 => "",
            writer => writer,
        };
        assert_eq!(label(&named(&program, "")), expected, "{name}");
    }
}

/// Make sure that a name of one writer on a program of another says nothing.
#[test]
fn borrowed_names() {
    for Capture { name, program, .. } in captures() {
        for (borrowed, writer) in [
            ("Slurm_Cgroup_v2", "Slurm"),
            ("sd_devices", "systemd"),
            ("my_program", ""),
            ("gpumap_repair", ""),
            ("craned_device_a", ""),
            ("oarcgdev", ""),
        ] {
            let found = label(&named(&program, borrowed));
            assert!(found.is_empty() || found == writer && writer == truth(&name), "{name}: {found}");
        }
    }
}

/// `w1 = w3; w1 &= MASK; if r1 != r3`, or `if r1 == 0`.
fn is_access_test(insns: &[Insn]) -> bool {
    let codes: Vec<u8> = insns.iter().map(|insn| insn.code).collect();
    matches!(codes[..], [0xbc, 0x54, 0x5d | 0x15]) && insns[0].src == 3
}

/// Make sure that a program that its writer would not have written has no label of
/// his: with another default, another test, one rule cut short, another instruction.
#[test]
fn changed_programs() {
    for Capture { name, program, .. } in captures() {
        let (insns, truth) = (insns(&program), truth(&name));
        let is_plain = insns.iter().all(|insn| insn.dst != 11 && insn.src != 11) && insns.len() > 8;
        // libvirt's rules are in its map, and what is tested is what was found there.
        if !is_plain || truth == "libvirt" {
            continue;
        }
        let branch = insns.iter().position(|insn| insn.code == 0x55).expect("a test");
        let verdict = insns.iter().position(|insn| matches!((insn.code, insn.dst), (0xb7 | 0xb4, 0)));
        let verdict = verdict.expect("a verdict");
        let edits: [(&str, usize, Insn); 4] = [
            ("a jump that goes too far", branch, Insn { off: insns[branch].off + 1, ..insns[branch] }),
            ("another comparison", branch, Insn { code: 0x15, ..insns[branch] }),
            ("another register", branch, Insn { dst: 7, ..insns[branch] }),
            ("a verdict of another width", verdict, Insn { code: insns[verdict].code ^ 3, ..insns[verdict] }),
        ];
        for (what, at, insn) in edits {
            let mut changed = insns.clone();
            changed[at] = insn;
            assert_eq!(label(&with(&program, &changed)), "", "{name}: {what}");
        }
        // One rule tests its access as others test it: as another writer would.
        let tests: Vec<usize> = (2..insns.len()).filter(|at| is_access_test(&insns[at - 2..=*at])).collect();
        if let [.., _, last] = tests[..] {
            let (mut mixed, test) = (insns.clone(), insns[last]);
            mixed[last] = match test.code {
                0x5d => Insn { code: 0x15, src: 0, ..test },
                _ => Insn { code: 0x5d, src: 3, ..test },
            };
            assert_eq!(label(&with(&program, &mixed)), "", "{name}: two kinds of rules");
        }
        if truth == "Slurm" {
            let mut other_default = insns.clone();
            let last = other_default.len() - 2;
            other_default[last].imm = 0;
            assert_eq!(label(&with(&program, &other_default)), "", "{name}: denies by default");
        }
    }
}

/// Make sure that a program of a compiler, which reads a map, is not libvirt's.
#[test]
fn any_program_with_a_map() {
    let [keep, load] = [(0xbf, 6, 1, 0, 0), (0x18, 1, 1, 0, 9)];
    let rest = [(0, 0, 0, 0, 0), (0xb7, 0, 0, 0, 1), (0x95, 0, 0, 0, 0)];
    let insns: Vec<Insn> = [keep, load]
        .into_iter()
        .chain(rest)
        .map(|(code, dst, src, off, imm)| Insn { code, dst, src, off, imm })
        .collect();
    assert_eq!(label(&with(&Program::default(), &insns)), "");
}
