//! What gpumap reads of programs as people save them, compared with this kernel:
//! listings of a bpftool that is older than the program, and logs of the verifier. And
//! what it compiles of rules, and where it says that a program is attached.

use std::process::Command;

use gpumap::analyse;
use gpumap::bytecode::{Insn, read};
use gpumap::model::{Device, DeviceType, Request, RequestSet, Verdict};
use gpumap::observation::{Answer, Program};
use gpumap::policy::{Combination, Context, Decoder};

use crate::support::bench::Bench;
use crate::support::bpf::{self, Loaded, OVERRIDE};
use crate::support::cgroup::Cgroup;
use crate::support::rng::Rng;
use crate::support::{host, inspect, kernel, node};

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// A program that leaves in r0 whether r3 is above -2 as a signed number of 32 bits,
/// after `middle` made r3 of the minor number in r2.
fn program(middle: &[Insn]) -> Vec<Insn> {
    let before = [insn(0x61, 2, 1, 8, 0), insn(0xbf, 3, 2, 0, 0)];
    let after =
        [insn(0xb7, 0, 0, 0, 1), insn(0x66, 3, 0, 1, -2), insn(0xb7, 0, 0, 0, 0), insn(0x95, 0, 0, 0, 0)];
    [&before, middle, &after].concat()
}

fn load(insns: &[Insn]) -> Loaded {
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let program = bpf::load_bytes("", &bytes, true, true).unwrap_or_else(|log| panic!("{insns:?}: {log}"));
    Loaded { program, maps: Vec::new() }
}

/// How many verdicts about `program` are unknown; none may differ from the kernel's.
fn unknown(program: &Program, devices: &[Device], allowed: &[RequestSet], what: &str) -> usize {
    let context = Context { combination: Combination::Retval, ..Context::default() };
    let mut decoder = Decoder::new();
    let policy = decoder.policy(&[program], &context);
    let mut unknown = 0;
    for (device, allowed) in devices.iter().zip(allowed) {
        for request in Request::ALL {
            let kernel = if allowed.contains(request) { Verdict::Allow } else { Verdict::Deny };
            match decoder.verdict(policy, *device, request) {
                Verdict::Unknown => unknown += 1,
                verdict => assert_eq!(verdict, kernel, "{what}: {device} {request:?}"),
            }
        }
    }
    unknown
}

fn minors() -> Vec<Device> {
    let minors = [0, 1, 2, 5, 6, 127, 128, 200, 253, 254, 255, 256, 32_767, 32_768, 65_534, 1_048_575];
    minors.map(|minor| Device { kind: DeviceType::Char, major: 195, minor }).to_vec()
}

/// Make sure that the listing of whatever bpftool is here gives no wrong verdict of
/// programs with instructions that it may print as others, and no unknown one where it
/// has opcodes.
#[test]
fn listings_of_newer_programs() {
    let Some(_host) = host::shared() else { return };
    if !kernel::needs(6, 6, "an instruction that an older bpftool prints as another") {
        return;
    }
    let middles: [&[Insn]; 5] = [
        &[insn(0xbf, 3, 2, 8, 0)],
        &[insn(0xbc, 3, 2, 16, 0)],
        &[insn(0xbf, 3, 2, 32, 0)],
        &[insn(0x37, 3, 0, 1, -3)],
        &[insn(0x7b, 10, 2, -8, 0), insn(0x91, 3, 10, -8, 0)],
    ];
    for middle in middles {
        let loaded = load(&program(middle));
        let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &minors());
        let id = inspect::program(&loaded.program).expect("info").id.to_string();
        for opcodes in [&["opcodes"][..], &[]] {
            let command = ["prog", "dump", "xlated", "id", &id];
            let Ok(output) = Command::new("bpftool").args(command).args(opcodes).output() else { return };
            let listing = String::from_utf8(output.stdout).expect("text");
            match read(listing.as_bytes()) {
                Ok(mut programs) => {
                    let read = programs.remove(0).into_program(0);
                    let count = unknown(&read, &facts.devices, &facts.allowed, &listing);
                    assert!(opcodes.is_empty() || count == 0, "{listing}");
                }
                Err(error) => assert!(
                    opcodes.is_empty() && error.to_string().contains("`opcodes`"),
                    "{error}\n{listing}"
                ),
            }
        }
    }
}

/// Make sure that the verifier's own log of a program is read as that program, with and
/// without the states between, and that a log which breaks off gives nothing wrong.
#[test]
fn logs_of_the_verifier() {
    let Some(_host) = host::shared() else { return };
    let mut insns = program(&[insn(0x97, 3, 0, 0, 7), insn(0x17, 3, 0, 0, 4)]);
    // r9 was never set: the load fails here, and the log ends.
    insns.splice(5..5, [insn(0xbf, 4, 9, 0, 0)]);
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let refusal = bpf::load_bytes("", &bytes, true, true).expect_err("a refusal");
    // What the call answered stands before it.
    let (_, log) = refusal.split_once("): ").expect("a log");
    let read = read(log.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{log}")).remove(0);
    assert_eq!(read.insns[..6], insns[..6], "{log}");
    let program = read.into_program(0);
    let nothing: Vec<RequestSet> = minors().iter().map(|_| RequestSet::default()).collect();
    assert_eq!(unknown(&program, &minors(), &nothing, log), minors().len() * Request::ALL.len());
}

/// Make sure that a program which is compiled of rules without a pattern is one that
/// the kernel loads, and that it decides as they say.
#[test]
fn compiled_rules() {
    let Some(_host) = host::shared() else { return };
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let (mut text, mut devices) = ("deny a *:* rwm\n".to_owned(), Vec::new());
        let mut used = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let kind = rng.pick(&[DeviceType::Block, DeviceType::Char]);
            let (major, first) = (1 + rng.below(500), rng.below(256) * 4096);
            if !used.insert((kind.letter(), major, first)) {
                continue;
            }
            let last = first + rng.below(4096);
            let requests = rng.pick(&["r", "w", "rw", "rwm", "m"]);
            text += &format!("allow {} {major}:{first}-{last} {requests}\n", kind.letter());
            devices.extend([first, last, last + 1].map(|minor| Device {
                kind,
                major,
                minor: minor.min(1_048_575),
            }));
        }
        devices.truncate(200);
        let decoder = &mut Decoder::new();
        let policy = decoder.policy_of_text(&text).expect("rules");
        let program = analyse::compiled(decoder, policy).expect("a program");
        let Answer::Known(bytes) = &program.xlated else { panic!("no instructions") };
        let loaded = load(&Insn::parse_all(&bytes.0).expect("whole slots"));
        let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &devices);
        for program in [&program, &facts.programs[0]] {
            assert_eq!(unknown(program, &facts.devices, &facts.allowed, &format!("seed {seed}")), 0);
        }
    }
}

/// Make sure that `prog` says where a program is attached and how, in both forms.
#[test]
fn places_of_a_program() {
    let Some(_host) = host::shared() else { return };
    let cgroup = Cgroup::new().expect("a scratch cgroup");
    let id = node::attach_deny(&cgroup, 195, 7, OVERRIDE).to_string();
    let (document, _) = node::json(&["prog", id.as_str()]);
    let expected = serde_json::json!([{ "cgroup": node::relative(cgroup.path()), "flags": ["override"] }]);
    assert_eq!(document["programs"][&id]["attached"], expected);
    let text = node::gpumap(&["prog", id.as_str()]).stdout;
    let line = format!("  attached at {} (override)", node::relative(cgroup.path()));
    assert!(String::from_utf8_lossy(&text).contains(&line));
    let loaded = load(&program(&[]));
    let id = inspect::program(&loaded.program).expect("info").id.to_string();
    let (document, _) = node::json(&["prog", id.as_str()]);
    assert_eq!(document["programs"][&id]["attached"], serde_json::json!([]));
}
