//! `gpumap prog --compile` from outside: rules that gpumap prints become a program
//! of which it prints the same rules.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::generate::writers::{self, CgroupIds};
use crate::support::rng::Rng;

/// Generated programs whose rules are compiled.
const CASES: u64 = 40;

fn gpumap(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    let mut child = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gpumap");
    // It ends before it has read all where the command line is wrong.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("gpumap")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compile-{}-{name}", std::process::id()))
}

/// The rules in what `gpumap prog` prints.
fn rules(output: &Output) -> String {
    let text = text(&output.stdout);
    let (_, rest) = text.split_once("Rules, if it were the only program\n").expect("rules");
    let (rules, _) = rest.split_once("\n\nInstructions").expect("instructions");
    // Nothing is said of what a program says of c 0:0.
    let rules = rules.lines().filter(|line| !line.contains("never asks"));
    rules.collect::<Vec<_>>().join("\n")
}

/// Compiles rules into a file and makes sure that its rules are these.
fn round_trip(printed: &str, what: &str) {
    let file = scratch(what);
    let name = file.to_str().expect("text");
    let compiled = gpumap(&["prog", "--compile", "-", "-o", name], printed.as_bytes());
    assert_eq!(compiled.status.code(), Some(0), "{what}: {}\n{printed}", text(&compiled.stderr));
    assert_eq!(rules(&compiled), printed, "{what}");
    let read = gpumap(&["prog", name], b"");
    assert_eq!(rules(&read), printed, "{what}");
    assert_eq!(read.stdout, compiled.stdout, "{what}");
    let bytes = gpumap(&["prog", "--compile", "-", "-o", "-"], printed.as_bytes());
    assert_eq!(bytes.stdout, std::fs::read(&file).expect("a file"), "{what}");
    std::fs::remove_file(&file).expect("a file");
}

/// Make sure that what is printed of programs of every writer can be compiled.
#[test]
fn printed_rules_are_compiled() {
    for seed in 0..CASES {
        let source = writers::any(&mut Rng::new(seed), CgroupIds { cgroup_id: 1 });
        if !source.maps.is_empty() {
            continue;
        }
        let bytes: Vec<u8> = source.insns.iter().flat_map(|insn| insn.bytes()).collect();
        let file = scratch(&format!("source-{seed}"));
        std::fs::write(&file, bytes).expect("a file");
        let printed = gpumap(&["prog", file.to_str().expect("text")], b"");
        std::fs::remove_file(&file).expect("a file");
        round_trip(&rules(&printed), &format!("seed-{seed}"));
    }
}

/// Make sure that the rules of a real job's program are compiled, and that the
/// result, which another program made, has no writer.
#[test]
fn rules_of_a_job() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/slurm/users-post.txt");
    let printed = gpumap(&["prog", capture.to_str().expect("text")], b"");
    let printed = rules(&printed);
    assert!(printed.contains("deny     c 195:0-2 rwm"), "{printed}");
    round_trip(&printed, "job");
    let document = gpumap(&["--json", "prog", "--compile", "-"], printed.as_bytes());
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).expect("JSON");
    let program = &document["programs"]["0"];
    assert_eq!(program["writer"], serde_json::Value::Null, "{program}");
    assert_eq!(document["policies"][program["policy"].as_str().expect("an id")]["default"], "allow");
}

/// Make sure that bad rules are refused with their line, and nothing is written.
#[test]
fn refusals() {
    let file = scratch("refused");
    for (rules, needle) in [
        (&b"deny a *:* rwm\nallow c 195:0 rw\ndeny c 195:* r\n"[..], "line 3: it contradicts line 2"),
        (b"allow c 195:0 rw\n", "line 1: the first rule is the default"),
        (b"", "no rules"),
        (b"deny a *:* rwm\nallow c 195:0 rw\xff\n", "not text"),
    ] {
        let output = gpumap(&["prog", "--compile", "-", "-o", file.to_str().expect("text")], rules);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(needle), "{}", text(&output.stderr));
        assert!(!file.exists());
    }
    for args in [
        &["prog", "--compile", "x", "7"][..],
        &["prog", "7", "-o", "x"],
        &["prog", "--compile", "x", "--maps", "y"],
        &["prog"],
    ] {
        assert_eq!(gpumap(args, b"").status.code(), Some(2), "{args:?}");
    }
}

/// Make sure that a denial of a part of the requests says what it leaves open, in text
/// and JSON, and that one of all of them says nothing.
#[test]
fn a_part_that_is_denied() {
    let note = |rules: &str| {
        let compiled = gpumap(&["prog", "--compile", "-"], rules.as_bytes());
        assert_eq!(compiled.status.code(), Some(0), "{}", text(&compiled.stderr));
        text(&compiled.stderr).to_owned()
    };
    let part = "allow a *:* rwm\ndeny c 195:0 w\n";
    let left = "`c 195:0 w` leaves r and rw open: each is a request of its own";
    assert_eq!(note(part), format!("gpumap: note: {left}\n"));
    let json = gpumap(&["--json", "prog", "--compile", "-"], part.as_bytes());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["notes"], serde_json::json!([{ "code": "part-denied", "text": left }]));
    assert_eq!(note("allow a *:* rwm\ndeny c 195:0 rw\ndeny c 195:0 m\n"), "");
    assert_eq!(note("deny a *:* rwm\nallow c 195:0 r\n"), "");
}

/// Rules about numbers without a pattern (Knuth's multiplicative hash).
fn scattered(count: u32) -> String {
    let mut minors: Vec<u32> = (0..count).map(|number| number.wrapping_mul(0x9e37_79b1) >> 12).collect();
    minors.sort_unstable();
    let rules = minors.iter().map(|minor| format!("deny c 195:{minor} rwm\n"));
    format!("allow a *:* rwm\n{}", rules.collect::<String>())
}

/// Rules about ranges of minors of random types and majors, for random requests.
fn typed(count: u32) -> String {
    let mut rng = Rng::new(7);
    let mut used = std::collections::BTreeSet::new();
    let mut text = "deny a *:* rwm\n".to_owned();
    for _ in 0..count {
        let (kind, major) = (["b", "c"][rng.below(2) as usize], rng.below(4096));
        let (first, requests) = (rng.below(256) * 4096, ["r", "w", "rw", "rwm", "m"][rng.below(5) as usize]);
        if used.insert((kind, major, first)) {
            let (from, to) = (first + rng.below(100), first + 100 + rng.below(3996));
            text += &format!("allow {kind} {major}:{from}-{to} {requests}\n");
        }
    }
    text
}

/// Make sure that thousands of rules without a pattern become a program that is read
/// again as the same rules: numbers, and ranges of many types.
#[test]
fn many_rules() {
    let file = scratch("many");
    for rules in [scattered(1_000), scattered(10_000), scattered(14_000), typed(2_000), typed(4_000)] {
        let args = ["prog", "--compile", "-", "-o", file.to_str().expect("text")];
        let many = gpumap(&args, rules.as_bytes());
        assert_eq!(many.status.code(), Some(0), "{}", text(&many.stderr));
        assert_eq!(std::fs::metadata(&file).expect("a file").len() % 8, 0);
        std::fs::remove_file(&file).expect("a file");
    }
}

/// Make sure that rules may be as many as the kernel takes, though not all are listed:
/// the verifier of Linux 6.18 was given 50,000 of random types and numbers, and went
/// through 804,081 instructions of a million.
#[test]
fn as_many_rules_as_the_kernel_takes() {
    let file = scratch("most");
    let args = ["prog", "--compile", "-", "-o", file.to_str().expect("text")];
    let mut rng = Rng::new(7);
    let rule = |_| {
        let (kind, major) = (["b", "c"][rng.below(2) as usize], rng.between(1, 4095));
        format!("allow {kind} {major}:{} {}\n", rng.below(1 << 20), ["rwm", "rw", "r"][rng.below(3) as usize])
    };
    let rules: std::collections::BTreeSet<String> = (0..40_000).map(rule).collect();
    let rules = format!("deny a *:* rwm\n{}", rules.into_iter().collect::<String>());
    let most = gpumap(&args, rules.as_bytes());
    assert_eq!(most.status.code(), Some(3), "{}", text(&most.stderr));
    assert!(text(&most.stderr).contains("not all of their rules are shown"), "{}", text(&most.stderr));
    assert!(std::fs::metadata(&file).expect("a program").len() > 8 * 300_000);
    std::fs::remove_file(&file).expect("a file");
}
