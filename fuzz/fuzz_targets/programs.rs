//! Feeds any bytes as a program file to the commands that read one: the first byte
//! chooses the command line, the rest is standard input.

#![no_main]

use std::sync::LazyLock;

use clap::Parser as _;
use gpumap::cli::Cli;
use gpumap::commands::{Streams, run_on};
use gpumap::render::Style;
use libfuzzer_sys::fuzz_target;

const LINES: [&[&str]; 6] = [
    &["prog", "-"],
    &["prog", "-", "--json"],
    &["check", "--prog", "-", "c 195:0 rw", "a *:* rwm", "b 8:* m"],
    &["check", "--prog", "-", "c 195:0 rw", "a *:* rwm", "b 8:* m", "--json"],
    &["explain", "--prog", "-", "c 195:0 rw"],
    &["explain", "--prog", "-", "c 195:0 rw", "--json"],
];

static COMMANDS: LazyLock<Vec<Cli>> = LazyLock::new(|| {
    let parse = |line: &[&str]| Cli::try_parse_from([&["gpumap"], line].concat()).expect("a command line");
    LINES.into_iter().map(parse).collect()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, file)) = bytes.split_first() else { return };
    let cli = &COMMANDS[usize::from(*choice) % COMMANDS.len()];
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let style = Style { all: true, ..Style::default() };
    run_on(cli, style, Streams { input: &mut &*file, out: &mut out, err: &mut err });
    if cli.global.json && !out.is_empty() {
        serde_json::from_slice::<serde_json::Value>(&out).expect("one document");
    }
});
