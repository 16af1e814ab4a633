//! Feeds any bytes to every command that reads `--from`: the first byte chooses the
//! command line, the rest is standard input. The command must answer, and with
//! `--json` it must print exactly one JSON document.

#![no_main]

use std::sync::LazyLock;

use clap::Parser as _;
use gpumap::cli::{Cli, Exit};
use gpumap::commands::{Streams, run_on};
use gpumap::render::Style;
use libfuzzer_sys::fuzz_target;

/// Command lines that together reach every part of the analysis; each is run with
/// `--json` too.
const LINES: [&str; 28] = [
    "node",
    "node -v --allocated 0,1",
    "cgroup -r /",
    "cgroup /system.slice",
    "job 1",
    "job 2 -v",
    "pid 1",
    "pid 1000 1001",
    "prog 1",
    "prog 2 3",
    "check --cgroup / a",
    "check --pid 1000 /dev/nvidia0",
    "check --prog 1 --prog 2 a",
    "check --job 1 a",
    "explain --cgroup / a",
    "explain --prog 1 a",
    "explain --pid 1000 /dev/nvidia0",
    "diff / /system.slice",
    "diff 1 2",
    "audit",
    "audit -v --fail-on note",
    "audit --nagios",
    "audit /",
    "leftovers --job 1",
    "leftovers --job 1 --porcelain",
    "snapshot",
    "vgpu",
    "vgpu --pid 1000 -v",
];

static COMMANDS: LazyLock<Vec<Cli>> = LazyLock::new(|| {
    let lines = LINES.iter().flat_map(|line| [(*line, None), (*line, Some("--json"))]);
    // Its output is one line for Nagios, whatever else is asked for.
    let lines = lines.filter(|(line, json)| json.is_none() || !line.contains("--nagios"));
    let words = |(line, json): (&'static str, Option<&'static str>)| {
        let device = |word| if word == "a" { "c 195:0 rw" } else { word };
        let words = ["gpumap", "--from", "-"].into_iter().chain(line.split(' ').map(device)).chain(json);
        // Options that exclude each other are refused, as for a user.
        Cli::try_parse_from(words).ok()
    };
    lines.filter_map(words).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, document)) = bytes.split_first() else { return };
    let cli = &COMMANDS[usize::from(*choice) % COMMANDS.len()];
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let style = Style { all: cli.global.verbose > 0, ..Style::default() };
    let streams = Streams { input: &mut &*document, out: &mut out, err: &mut err };
    let exit = run_on(cli, style, streams);
    if cli.global.json && !out.is_empty() {
        let answer: serde_json::Value = serde_json::from_slice(&out).expect("one document");
        assert!(exit != Exit::Failed || !answer["errors"].as_array().expect("a list").is_empty());
    }
});
