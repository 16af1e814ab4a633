//! Feeds any bytes to `gpumap fleet -`. It must answer whatever comes, its answer must
//! be one JSON document, and no control character may reach a screen. The first byte
//! chooses between text and JSON.

#![no_main]

use clap::Parser as _;
use gpumap::cli::{Cli, Exit};
use gpumap::commands::{Streams, run_on};
use gpumap::render::Style;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, input)) = bytes.split_first() else { return };
    let words = ["gpumap", "fleet", "-", "--expect", "n[1-3]"].into_iter();
    let json = (choice % 2 == 1).then_some("--json");
    let Ok(cli) = Cli::try_parse_from(words.chain(json)) else { return };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let style = Style { all: choice % 4 > 1, ..Style::default() };
    let exit = run_on(&cli, style, Streams { input: &mut &*input, out: &mut out, err: &mut err });
    assert!(exit != Exit::Failed, "{}", String::from_utf8_lossy(&err));
    if cli.global.json {
        serde_json::from_slice::<serde_json::Value>(&out).expect("one document");
    }
    let said = String::from_utf8([out, err].concat()).expect("text");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'));
});
