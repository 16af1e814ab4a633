//! The screen of `gpumap top`, drawn for saved and made-up nodes and read back by a
//! terminal emulator. Expected screens lie in `fixtures/top`.

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::analyse::{self, CallerAllocation, CommandAnswer};
use gpumap::audit::{self, Config};
use gpumap::model::{CellState, GpuKey, MatrixOrder, Membership, Owner, OwnerKind};
use gpumap::observation::Observation;
use gpumap::render::{self, Cells, Colors, Theme};
use gpumap::report::{Finding, Gpu, Matrix, MatrixCell, MatrixProcess, MatrixRow};
use gpumap::top::{Content, Effect, Key, Keys, Moment, Origin, State};
use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

const PLAIN: Theme = Theme { ascii: false, colors: Colors::Many };

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// What the screen shows of a saved node.
fn saved(name: &str) -> Moment {
    let text = fs::read(fixtures().join(name)).unwrap();
    let observation: Observation = serde_json::from_slice(&text).unwrap();
    let (audit, node) = audit::audit_and_node(
        &observation,
        &CallerAllocation::default(),
        &Config::default(),
        &gpumap::analyse::TimeLimit::default(),
    )
    .unwrap();
    let findings = audit.findings;
    Moment {
        origin: Origin::Saved { number: 1, of: 1 },
        failure: None,
        host: observation.host.name.clone(),
        taken_at: observation.taken_at.clone(),
        matrix: analyse::matrix(&node, &findings, false),
        complete: !node.has_unknown() && observation.errors.is_empty(),
        gpus: node.gpus,
        findings,
        events: Vec::new(),
    }
}

/// A terminal of this size after drawing, and the bytes that it got.
fn drawn(state: &mut State, (width, height): (u16, u16), theme: Theme) -> (vt100::Parser, Vec<u8>) {
    let mut bytes = Vec::new();
    for _ in 0..2 {
        let mut cells = Cells::new((width, height));
        let extent = render::top(&mut cells, state, theme);
        bytes.extend(cells.changes(&Cells::new((width, height))));
        state.drawn(extent);
    }
    let size = |size: u16| size.try_into().unwrap();
    let mut parser = vt100::Parser::new(size(height), size(width), 0);
    parser.process(&bytes);
    (parser, bytes)
}

fn text(parser: &vt100::Parser, width: u16) -> String {
    let lines = parser.screen().rows(0, width).map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The screen after these keys.
fn screen(moment: Moment, keys: &str, size: (u16, u16), theme: Theme) -> String {
    let mut state = State::new(moment, String::new(), MatrixOrder::Owner);
    drawn(&mut state, size, theme);
    for key in Keys::default().read(keys.as_bytes()) {
        assert!(matches!(state.key(key), Effect::None | Effect::Explain(_)), "{key:?}");
    }
    text(&drawn(&mut state, size, theme).0, size.0)
}

fn golden(actual: &str, name: &str) {
    let path = fixtures().join("top").join(name);
    assert_data_eq!(actual.to_owned(), Data::read_from(&path, Some(DataFormat::Text)).raw());
}

/// Make sure that the screen of every saved node is as committed.
#[test]
fn saved_nodes() {
    let mut nodes: Vec<String> = fs::read_dir(fixtures().join("nodes"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".json"))
        .collect();
    nodes.sort();
    assert!(nodes.len() > 5);
    for name in nodes {
        let shown = screen(saved(&format!("nodes/{name}")), "", (80, 24), PLAIN);
        golden(&shown, &format!("{}.txt", name.trim_end_matches(".json")));
    }
}

/// Make sure that each part of the screen is as committed: rows that are open, help,
/// the menu, the filter, a wide and a narrow terminal, ASCII, MIG instances, a GPU that
/// is held although denied.
#[test]
fn views() {
    let node = || saved("nodes/slurm-activity.json");
    let ascii = Theme { ascii: true, colors: Colors::None };
    golden(&screen(node(), "*jjl", (80, 24), PLAIN), "open.txt");
    golden(&screen(node(), "*jjl", (80, 24), ascii), "ascii.txt");
    golden(&screen(node(), "*G", (132, 40), PLAIN), "wide.txt");
    golden(&screen(node(), "ll", (40, 12), PLAIN), "narrow.txt");
    golden(&screen(node(), "?", (80, 24), PLAIN), "help.txt");
    golden(&screen(node(), "?", (132, 40), PLAIN), "help-wide.txt");
    golden(&screen(node(), "sjj", (80, 24), PLAIN), "sort.txt");
    golden(&screen(node(), "/user:bob", (80, 24), PLAIN), "filter.txt");
    golden(&screen(node(), "\tj", (80, 24), PLAIN), "findings.txt");
    golden(&screen(node(), "\tj\r", (80, 24), PLAIN), "finding.txt");
    golden(&screen(saved("scenarios/13-mig.json"), "*", (80, 24), PLAIN), "mig.txt");
    golden(&screen(saved("scenarios/11-held-but-denied.json"), "*l", (80, 24), PLAIN), "held-denied.txt");
}

/// Make sure that a cell says which limit its owner has on that GPU, and no other's, and
/// whether it holds.
#[test]
fn limits_of_a_cell() {
    let mut state = State::new(saved("nodes/hami-containers.json"), String::new(), MatrixOrder::Owner);
    let size = (120, 30);
    drawn(&mut state, size, PLAIN);
    let at = |state: &mut State, column: usize| {
        for _ in 0..8 {
            state.key(Key::Left);
        }
        for _ in 0..column {
            state.key(Key::Right);
        }
        let words = text(&drawn(state, size, PLAIN).0, size.0);
        let Effect::Explain(cell) = state.key(Key::Enter) else { panic!("no cell") };
        state.explained(cell, Content::Message(String::new()));
        let detail = text(&drawn(state, size, PLAIN).0, size.0);
        state.key(Key::Esc);
        (words, detail)
    };
    // How many limits it names, and of how many of them nobody knows the GPU.
    let limits = |detail: &str| {
        let words = detail.split_whitespace().collect::<Vec<_>>().join(" ");
        (words.matches(" limit ").count(), words.matches("on which GPU is not known").count())
    };
    // It may open nvidia1 alone. Its regions name another GPU as well, which it may not
    // open: a process can write any UUID there, so nobody knows which GPU that is.
    let (words, detail) = at(&mut state, 2);
    assert!(words.contains("; limit ") && words.contains("GiB"), "{words}");
    assert!(detail.contains("limit      2.0 GiB of its memory (in force), 30 % of"), "{detail}");
    assert!(limits(&detail).0 > limits(&detail).1, "{detail}");
    for column in [1, 3, 4] {
        let (_, detail) = at(&mut state, column);
        let (all, unknown) = limits(&detail);
        assert!(all == unknown && all > 0, "{detail}");
    }
}

fn job(id: u64, name: Option<&str>, cells: usize) -> MatrixRow {
    let owner = match name {
        Some(name) => Owner { kind: OwnerKind::Unit, name: Some(name.to_owned()), ..Owner::default() },
        None => Owner { kind: OwnerKind::Slurm, job_id: Some(id), ..Owner::default() },
    };
    let cell = MatrixCell { state: CellState::Held, held: Membership::Yes, ..MatrixCell::default() };
    MatrixRow {
        owner: Some(owner),
        users: vec!["alice".to_owned()],
        processes: 3,
        cells: vec![cell; cells],
        ..MatrixRow::default()
    }
}

fn made_up(rows: Vec<MatrixRow>, gpus: usize) -> Moment {
    let columns: Vec<GpuKey> = (0..gpus).map(|index| format!("GPU-{index}").into()).collect();
    let gpus = columns.iter().map(|key| Gpu { key: key.clone(), ..Gpu::default() }).collect();
    let matrix = Matrix { columns, rows, ..Matrix::default() };
    Moment { matrix, gpus, host: "made-up".into(), complete: true, ..Moment::default() }
}

/// Make sure that a screen without GPUs, without owners and one that is too small is
/// drawn.
#[test]
fn nothing() {
    let unseen = screen(Moment::default(), "", (80, 24), PLAIN);
    assert!(unseen.contains("Nobody was seen, but not all could be seen."), "{unseen}");
    let empty = screen(Moment { complete: true, ..Moment::default() }, "*jl\r\t", (80, 24), PLAIN);
    assert!(empty.contains("0 GPUs, 0 held") && empty.contains("Nobody is here."), "{empty}");
    let no_gpu = screen(made_up(vec![job(7, None, 0)], 0), "ll\r", (80, 24), PLAIN);
    assert!(no_gpu.contains("slurm job 7"), "{no_gpu}");
    for size in [(1, 1), (23, 30), (200, 7), (24, 8)] {
        for keys in ["", "?", "s", "/abc", "\t"] {
            screen(made_up(vec![job(7, None, 2)], 2), keys, size, PLAIN);
        }
    }
    assert!(screen(made_up(Vec::new(), 1), "", (10, 3), PLAIN).starts_with("too small"));
}

/// Make sure that nothing known is shown as such and in no other way.
#[test]
fn unknown() {
    let unknown = MatrixCell { state: CellState::Unknown, ..MatrixCell::default() };
    let row = MatrixRow { cells: vec![unknown; 2], users: Vec::new(), ..job(9, None, 2) };
    let shown = screen(made_up(vec![row], 2), "l", (80, 24), PLAIN);
    assert!(shown.contains("whether it may open it is not known"), "{shown}");
    let line = shown.lines().nth(2).unwrap();
    assert!(line.contains("slurm job 9") && line.matches('?').count() == 2, "{shown}");
    assert!(!line.contains(['●', '○', '·', '◐']), "{shown}");
}

/// Make sure that text of users moves no cursor, hides nothing, turns no direction and
/// shifts no column, wherever it stands and however long it is.
#[test]
fn hostile_names() {
    let long = "x".repeat(1 << 20);
    let names = [
        "\x1b[2J\x1b[H\x1b]0;owned\x07",
        "\u{202e}gnp.exe\u{2066}\u{200f}",
        "line\nfeed\r\ttab",
        "wide名前名前名前名前名前名前名前名前",
        "combining a\u{301}\u{301}\u{301}\u{301}",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} family",
        "\u{9b}31m\u{0}nul",
        &long,
    ];
    let mut rows: Vec<MatrixRow> = Vec::new();
    for name in names {
        rows.push(MatrixRow {
            users: vec![name.to_owned()],
            cgroup: name.to_owned(),
            ..job(0, Some(name), 2)
        });
        let process = MatrixProcess { pid: 4, comm: name.to_owned(), ..MatrixProcess::default() };
        rows.push(MatrixRow {
            depth: 1,
            process: Some(process),
            owner: None,
            cgroup: name.into(),
            ..job(0, None, 2)
        });
    }
    let finding = |name: &str| Finding { id: name.into(), summary: name.into(), ..Finding::default() };
    let findings = names.map(finding).to_vec();
    let moment =
        Moment { host: names[0].to_owned(), taken_at: names[1].into(), findings, ..made_up(rows, 2) };
    for theme in [PLAIN, Theme { ascii: true, colors: Colors::None }] {
        for keys in ["*", "*G", "*Gl", "\tGk", "\tGkk\r", "/\u{202e}x"] {
            let mut state = State::new(moment.clone(), String::new(), MatrixOrder::Owner);
            drawn(&mut state, (80, 24), theme);
            for key in Keys::default().read(keys.as_bytes()) {
                state.key(key);
            }
            let (parser, bytes) = drawn(&mut state, (80, 24), theme);
            let sent = String::from_utf8(bytes).unwrap();
            let own = |c: char| c == '\x1b' || !c.is_control();
            assert!(sent.chars().all(own), "{keys:?}");
            assert!(!sent.contains("\x1b]") && !sent.contains("\x1b[2J\x1b[H\x1b]"), "{keys:?}");
            let hides = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!sent.contains(hides), "{keys:?}");
            let shown = text(&parser, 80);
            assert_eq!(shown.lines().count(), 24);
            // Every row has its glyphs in the same column.
            if keys.starts_with('*') {
                let glyph = if theme.ascii { "h" } else { "●" };
                let columns: Vec<Vec<u16>> = (2..12)
                    .map(|row| {
                        (0..80)
                            .filter(|x| {
                                parser.screen().cell(row, *x).is_some_and(|cell| cell.contents() == glyph)
                            })
                            .collect()
                    })
                    .collect();
                let last_two = |all: &Vec<u16>| all.iter().rev().take(2).copied().collect::<Vec<_>>();
                assert!(
                    columns.windows(2).all(|pair| last_two(&pair[0]) == last_two(&pair[1])),
                    "{columns:?}\n{shown}"
                );
            }
        }
    }
}

/// Make sure that many owners are drawn as quickly as few, and that the last one can be
/// reached.
#[test]
fn many_owners() {
    let rows = (0..10_000).map(|id| job(id, None, 8)).collect();
    let mut state = State::new(made_up(rows, 8), String::new(), MatrixOrder::Owner);
    drawn(&mut state, (132, 40), PLAIN);
    state.key(Key::End);
    let shown = text(&drawn(&mut state, (132, 40), PLAIN).0, 132);
    assert!(shown.contains("slurm job 9999") && shown.contains("10000 owners"), "{shown}");
}

/// Make sure that a node with more GPUs than there is room for shows the one that the
/// cursor is at.
#[test]
fn many_gpus() {
    let mut state = State::new(made_up(vec![job(1, None, 64)], 64), String::new(), MatrixOrder::Owner);
    for _ in 0..64 {
        drawn(&mut state, (80, 24), PLAIN);
        state.key(Key::Right);
    }
    let shown = text(&drawn(&mut state, (80, 24), PLAIN).0, 80);
    assert!(
        shown.contains("GPU-63") && shown.lines().nth(1).is_some_and(|head| head.contains('<')),
        "{shown}"
    );
}

/// Make sure that no colour is sent where none is wanted, and that glyphs tell the same
/// without.
#[test]
fn no_color() {
    let theme = Theme { ascii: false, colors: Colors::None };
    let mut state = State::new(saved("nodes/slurm-activity.json"), String::new(), MatrixOrder::Owner);
    let (parser, _) = drawn(&mut state, (80, 24), theme);
    for (row, column) in (0..24).flat_map(|row| (0..80).map(move |column| (row, column))) {
        let cell = parser.screen().cell(row, column).unwrap();
        let colors = (cell.fgcolor(), cell.bgcolor());
        assert_eq!(colors, (vt100::Color::Default, vt100::Color::Default), "{row} {column}");
    }
    let colored = text(&drawn(&mut state, (80, 24), PLAIN).0, 80);
    assert_eq!(text(&parser, 80), colored);
}

fn gpumap(args: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(args).current_dir(fixtures().join("nodes")).stdin(std::process::Stdio::null());
    command.env_remove("CLICOLOR_FORCE").output().unwrap()
}

/// Make sure that what is no terminal is refused with the way to a table, and several
/// moments where one is printed, with and without --json.
#[test]
fn refusals() {
    for (args, said) in [
        (&["top"][..], "gpumap top --once prints the matrix as a table"),
        (&["top", "slurm-jobs.json"], "gpumap top --once prints the matrix as a table"),
        (&["top", "--once", "slurm-jobs.json", "slurm-4gpu.json"], "name one FILE"),
    ] {
        let plain = gpumap(args);
        let error = String::from_utf8(plain.stderr).unwrap();
        assert_eq!((plain.status.code(), plain.stdout.is_empty()), (Some(2), true), "{error}");
        assert!(error.contains(said) && error.lines().count() == 1, "{error}");
        let json = gpumap(&[&["--json"], args].concat());
        let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((json.status.code(), &document["complete"]), (Some(2), &false.into()));
    }
}

/// Make sure that the table has the rows and the order that are asked for, and that the
/// document has the same.
#[test]
fn once() {
    let owners = |args: &[&str]| -> Vec<String> {
        let output = gpumap(&[&["--from", "slurm-jobs.json", "top", "--once"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let table = String::from_utf8(output.stdout).unwrap();
        let jobs = table.lines().filter_map(|line| line.trim().strip_prefix("slurm job "));
        jobs.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    assert_eq!(owners(&[]), ["4711", "4712", "4713", "4714"]);
    assert_eq!(owners(&["--sort", "processes"]), ["4712", "4711", "4714", "4713"]);
    assert_eq!(owners(&["--filter", "user:bob"]), ["4712", "4714"]);
    assert_eq!(owners(&["--filter", "gpu:nvidia0"]), ["4711"]);
    assert_eq!(owners(&["--filter", "infer"]), ["4712"]);
    let json = gpumap(&["--from", "slurm-jobs.json", "top", "--once", "--json", "--filter", "job:4712"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = document["matrix"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["cells"].as_array().unwrap().len() == 4) && !rows.is_empty());
    assert_eq!(rows[0]["owner"]["job_id"], 4712);
    let ascii = gpumap(&["--from", "slurm-jobs.json", "top", "--once", "--ascii"]);
    let ascii = String::from_utf8(ascii.stdout).unwrap();
    assert!(ascii.contains("\n  a may open it and asks for it\n") && ascii.is_ascii(), "{ascii}");
}
