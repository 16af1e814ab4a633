//! Every view of a policy says the same as the kernel, also where the policy is
//! too long or too irregular to be listed, and for the one device that the
//! kernel never asks about.

use std::process::{Command, Output};

use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bpf::{self, MULTI};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::law::{self, Asked, Scratch, Views};
use crate::support::node::{self, Sleeper, gpumap, relative};
use crate::support::oracle::Oracle;
use crate::support::source::{MapKind, MapSpec};
use gpumap::model::{Device, DeviceType, Request};
use serde_json::Value;

/// A major of "local/experimental use" (devices.txt) without GPUs.
const OTHER: i32 = 240;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn all(output: &Output) -> String {
    text(output) + &String::from_utf8_lossy(&output.stderr)
}

/// Loads r2 = type, r3 = major, r4 = minor, and denies c 195:3.
fn begin(asm: &mut Asm) {
    let other = asm.label();
    asm.ldx(size::H, 2, 1, 0);
    asm.ldx(size::W, 3, 1, 4);
    asm.ldx(size::W, 4, 1, 8);
    asm.jump_if(cond::NE, 2, 2, other);
    asm.jump_if(cond::NE, 3, 195, other);
    asm.jump_if(cond::NE, 4, 3, other);
    asm.verdict(0);
    asm.bind(other);
}

/// Attaches a program to a new cgroup.
fn attached(asm: Asm, name: &str) -> Cgroup {
    let cgroup = Cgroup::new().expect("a scratch cgroup");
    let program = bpf::load(&asm.finish(name)).expect("a program").program;
    bpf::attach(cgroup.dir(), &program, MULTI, None).expect("attached");
    cgroup
}

/// 300 devices are denied one by one.
fn listed() -> Cgroup {
    let mut asm = Asm::new();
    begin(&mut asm);
    for minor in 0..300 {
        let next = asm.label();
        asm.jump_if(cond::NE, 3, OTHER, next);
        // Far from each other and in no pattern.
        asm.jump_if(cond::NE, 4, minor * 7 + minor * minor % 5, next);
        asm.verdict(0);
        asm.bind(next);
    }
    asm.verdict(1);
    attached(asm, "listed")
}

/// Minors with an odd number of bits are denied: half a million rules.
fn parity() -> Cgroup {
    let mut asm = Asm::new();
    begin(&mut asm);
    let (even, other) = (asm.label(), asm.label());
    asm.jump_if(cond::NE, 3, OTHER, other);
    for shift in [16, 8, 4, 2, 1] {
        asm.movr(5, 4);
        asm.op64(alu::RSH, 5, shift);
        asm.op64r(alu::XOR, 4, 5);
    }
    asm.op64(alu::AND, 4, 1);
    asm.jump_if(cond::EQ, 4, 0, even);
    asm.verdict(0);
    asm.bind(even);
    asm.bind(other);
    asm.verdict(1);
    attached(asm, "parity")
}

/// A hash decides: too complex to be drawn.
fn hashed() -> Cgroup {
    let mut asm = Asm::new();
    begin(&mut asm);
    let (other, even) = (asm.label(), asm.label());
    asm.jump_if(cond::NE, 3, OTHER, other);
    asm.op64(alu::LSH, 3, 20);
    asm.op64r(alu::OR, 3, 4);
    asm.op64(alu::MUL, 3, 0x4651);
    asm.op64(alu::XOR, 3, 0x5bd1);
    asm.op64(alu::MOD, 3, 5);
    asm.jump_if(cond::NE, 3, 0, even);
    asm.verdict(0);
    asm.bind(even);
    asm.bind(other);
    asm.verdict(1);
    attached(asm, "hashed")
}

/// Make sure that a policy of hundreds of rules, or of more than can be listed,
/// shows what it says about GPUs in every view, and is called by no name that
/// leaves that out.
#[test]
fn long_policies() {
    let Some(_host) = host::shared() else { return };
    for (name, cgroup, is_listed) in
        [("listed", listed(), true), ("parity", parity(), false), ("hashed", hashed(), false)]
    {
        let sleeper = Sleeper::in_cgroup(&cgroup);
        let path = relative(cgroup.path());
        screens(name, &path, sleeper.pid());
        documents(name, &path, is_listed);
        verdicts(name, &cgroup, &path);
    }
}

/// What people see.
fn screens(name: &str, path: &str, pid: u32) {
    let (pid, root) = (pid.to_string(), node::four_gpus());
    let root = root.to_str().expect("text");
    for args in
        [&["cgroup", path][..], &["cgroup", "-r", path], &["pid", &pid], &["cgroup", "-v", "-r", path]]
    {
        let output = gpumap(&[&["--gpu-root", root][..], args].concat());
        let shown = all(&output);
        let context = format!("{name} {args:?}: {shown}");
        assert!(shown.contains("c 195:3 rwm"), "{context}");
        assert!(!shown.contains("allow everything") && !shown.contains("(everything)"), "{context}");
        assert!(!shown.contains("allow all\n") && !shown.contains("4 of 4"), "{context}");
        let is_yes = output.status.code() == Some(0);
        assert_eq!(is_yes, name == "listed", "{context}");
    }
    let shown = text(&gpumap(&["--gpu-root", root, "cgroup", path]));
    assert!(shown.contains("GPUs: 3 of 4 allowed"), "{name}: {shown}");
    let denied = shown.lines().find(|line| line.contains("/dev/nvidia3")).expect("the GPU");
    assert!(denied.trim_start().starts_with("deny "), "{name}: {denied}");
    let brief = text(&gpumap(&["--gpu-root", root, "cgroup", "-r", path]));
    assert!(brief.contains("3/4 nvidia0-2"), "{name}: {brief}");
    let differ = text(&gpumap(&["diff", "/", path]));
    assert!(differ.contains("+ deny     c 195:3 rwm"), "{name}: {differ}");
}

/// What programs read.
fn documents(name: &str, path: &str, is_listed: bool) {
    for args in [&["cgroup", path][..], &["cgroup", "-r", path]] {
        let (document, code) = node::json(args);
        let policy = document["cgroups"][0]["policy"].as_str().expect("a policy");
        let policy = &document["policies"][policy];
        let rules = policy["rules"].as_array().expect("rules");
        let denies = |rule: &&Value| {
            rule["verdict"] == "deny"
                && rule["major"] == Value::from([195, 195])
                && rule["minor"] == Value::from([3, 3])
        };
        assert!(rules.iter().any(|rule| denies(&rule)), "{name}: {policy}");
        assert_eq!(policy["exact"], is_listed, "{name}: {policy}");
        assert_eq!(document["complete"], is_listed, "{name}: {}", document["errors"]);
        assert_eq!(code, if is_listed { 0 } else { 3 }, "{name} {args:?}");
        if is_listed {
            assert!(rules.len() > 300, "{name}: {} rules", rules.len());
        } else {
            assert_eq!(document["errors"][0]["code"], "rules-left-out", "{name}: {}", document["errors"]);
        }
    }
}

/// What is asked one by one, beside the kernel.
fn verdicts(name: &str, cgroup: &Cgroup, path: &str) {
    let mut numbers = vec![(195, 3), (240, 0), (240, 1)];
    if name != "hashed" {
        numbers.extend([(195, 2), (240, 2), (240, 3), (240, 255), (240, 1_048_575)]);
    }
    let device = |(major, minor)| Device { kind: DeviceType::Char, major, minor };
    let devices: Vec<Device> = numbers.into_iter().map(device).collect();
    let scratch = Scratch::new();
    let snapshot = scratch.path().join("snapshot.json");
    law::snapshot(cgroup.path(), &snapshot);
    let mut oracle = Oracle::start(cgroup).expect("an oracle");
    let allowed = oracle.ask(&devices).expect("answers");
    let asked = Asked { snapshot, cgroup: cgroup.path().to_string_lossy().into_owned(), devices, allowed };
    assert_eq!(law::agree(&asked, Views::All), Ok(()), "{name}");
    for (device, allowed) in asked.devices.iter().zip(&asked.allowed) {
        let question = format!("c {}:{} rw", device.major, device.minor);
        let expected = if allowed.contains(Request::ReadWrite) { "allow" } else { "deny" };
        let check = gpumap(&["check", "--cgroup", path, &question]);
        assert_eq!(text(&check), format!("{expected}\t{question}\n"), "{name}");
        let proof = text(&gpumap(&["explain", "--cgroup", path, &question]));
        assert!(proof.ends_with(&format!("Verdict: {expected}\n")), "{name} {question}: {proof}");
    }
}

/// A hash map with so many entries decides.
fn looked_up(entries: u32) -> Cgroup {
    let bytes = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let entry = |minor: u32| (bytes(&[OTHER as u32, minor * 7]), bytes(&[minor % 2]));
    let spec = MapSpec {
        kind: MapKind::Hash,
        key_size: 8,
        value_size: 4,
        max_entries: entries,
        flags: 0,
        freeze: false,
        entries: (0..entries).map(entry).collect(),
    };
    let mut asm = Asm::new();
    let (map, none) = (asm.map(spec), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.stx(size::W, 10, -8, 2);
    asm.ldx(size::W, 2, 1, 8);
    asm.stx(size::W, 10, -4, 2);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, none);
    asm.ldx(size::W, 0, 0, 0);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    asm.bind(none);
    asm.verdict(1);
    attached(asm, "looked up")
}

/// Make sure that a question is followed to its end where the program looks it up in a
/// map too large to be followed for all questions.
#[test]
fn large_maps() {
    let Some(_host) = host::shared() else { return };
    let cgroup = looked_up(20_000);
    let path = relative(cgroup.path());
    let device = |minor| Device { kind: DeviceType::Char, major: OTHER as u32, minor };
    let devices: Vec<Device> = [14, 21, 22].map(device).into();
    let allowed = Oracle::start(&cgroup).expect("an oracle").ask(&devices).expect("answers");
    for (device, allowed) in devices.iter().zip(&allowed) {
        let question = format!("{device} rw");
        let expected = if allowed.contains(Request::ReadWrite) { "allow" } else { "deny" };
        let proof = text(&gpumap(&["explain", "--cgroup", &path, &question]));
        let is_followed = proof.contains(&format!("   returns {expected}: "));
        assert!(is_followed && proof.ends_with(&format!("Verdict: {expected}\n")), "{question}: {proof}");
    }
}

/// Make sure that a character device 0:0, which the kernel asks no program
/// about, is allowed in every view, whatever the programs say.
#[test]
fn whiteouts() {
    let Some(_host) = host::shared() else { return };
    let mut asm = Asm::new();
    asm.verdict(0);
    let nothing = attached(asm, "deny all");
    let one = Cgroup::new().expect("a scratch cgroup");
    node::attach_deny(&one, 0, 0, MULTI);
    for cgroup in [&nothing, &one] {
        let path = relative(cgroup.path());
        assert!(kernel_allows_whiteouts(cgroup), "the kernel asks about it");
        for request in ["r", "w", "rw", "m", "rwm"] {
            let question = format!("c 0:0 {request}");
            let check = gpumap(&["check", "--cgroup", &path, &question]);
            assert_eq!((text(&check), check.status.code()), (format!("allow\t{question}\n"), Some(0)));
        }
        let proof = text(&gpumap(&["explain", "--cgroup", &path, "c 0:0 rw"]));
        assert!(
            proof.contains("The kernel never asks about c 0:0") && proof.ends_with("Verdict: allow\n"),
            "{proof}"
        );
    }
    // A program that denies it alone denies nothing that is ever asked.
    let path = relative(one.path());
    let shown = text(&gpumap(&["cgroup", &path]));
    let never = "  allow    a *:* rwm  (everything)\n  c 0:0 is always allowed: the kernel never asks the programs about it\n";
    assert!(shown.contains(never) && !shown.contains("deny"), "{shown}");
    let brief = text(&gpumap(&["cgroup", "-r", &path]));
    assert!(brief.contains("Policy: allow everything\n"), "{brief}");
    let block = gpumap(&["check", "--cgroup", &relative(nothing.path()), "b 0:0"]);
    assert_eq!(text(&block), "deny\tb 0:0\n");
}

/// Whether a process in the cgroup may make a device 0:0, read and write it.
fn kernel_allows_whiteouts(cgroup: &Cgroup) -> bool {
    // An overlay, on which a working directory may lie, makes no such node.
    let directory = std::env::temp_dir().join(format!("gpumap-whiteout-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let script =
        "echo $$ > \"$1/cgroup.procs\" && mknod \"$2/node\" c 0 0 && test -r \"$2/node\" -a -w \"$2/node\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(cgroup.path()).arg(&directory);
    let status = command.status().expect("bash");
    std::fs::remove_dir_all(&directory).expect("its end");
    status.success()
}
