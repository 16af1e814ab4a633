//! Answers made by hand, rendered, and compared with the text beside them.
//! `SNAPSHOTS=overwrite` accepts new text.

use snapbox::assert_data_eq;
use snapbox::data::DataFormat;

use super::*;
use crate::report::Payload;

type View = fn(&mut dyn std::io::Write, Style, &Payload) -> std::io::Result<()>;

fn render(name: &str, view: View, style: Style) -> String {
    let path = format!("{}/fixtures/cli/render/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let payload: Payload = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut out = Vec::new();
    view(&mut out, style, &payload).unwrap();
    String::from_utf8(out).unwrap()
}

fn golden(name: &str, view: View) {
    let text = render(name, view, Style::default());
    let path = format!("{}/fixtures/cli/render/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    assert_data_eq!(text, snapbox::Data::read_from(path.as_ref(), Some(DataFormat::Text)).raw());
}

/// Make sure that one cgroup reads GPUs, rules, programs, processes.
#[test]
fn cgroup() {
    golden("cgroup", cgroups);
}

/// Make sure that unknown verdicts, masks and omitted rules are told.
#[test]
fn unknown() {
    golden("unknown", cgroups);
}

/// Make sure that a node without GPUs or programs says so.
#[test]
fn nothing() {
    golden("nothing", cgroups);
}

/// Make sure that a subtree is gathered by policy.
#[test]
fn subtree() {
    golden("summary", summary);
}

/// Make sure that a program's rules and instructions are shown.
#[test]
fn program() {
    golden("prog", prog);
}

/// Make sure that a proof reads like an argument.
#[test]
fn proof() {
    golden("explain", explain);
}

/// Make sure that differences read like diff(1).
#[test]
fn difference() {
    golden("diff", diff);
    golden("equal", diff);
}

/// Make sure that no text from the system reaches the output unescaped.
#[test]
fn hostile() {
    golden("hostile", cgroups);
    for view in [cgroups, summary] {
        let text = render("hostile", view, Style::default());
        assert!(!text.chars().any(|c| c != '\n' && sanitize::is_hostile(c)), "{text:?}");
    }
}

/// Make sure that colour touches verdicts only and moves no column.
#[test]
fn color() {
    let plain = render("cgroup", cgroups, Style::default());
    let color = render("cgroup", cgroups, Style { color: true, ..Style::default() });
    assert!(color.contains("\x1b[32mallow") && color.contains("\x1b[31mdeny"), "{color:?}");
    assert_eq!(anstream::adapter::strip_str(&color).to_string(), plain);
}

/// Make sure that only paths and rules, which must stay whole, leave 80 columns.
#[test]
fn width() {
    for name in ["cgroup", "unknown", "nothing"] {
        let text = render(name, cgroups, Style::default());
        for line in text.lines().filter(|line| !line.contains("attached at /")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
