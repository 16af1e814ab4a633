//! Answers made by hand, rendered, and compared with the text beside them.
//! `SNAPSHOTS=overwrite` accepts new text.

use snapbox::assert_data_eq;
use snapbox::data::DataFormat;

use super::*;
use crate::report::{AuditAnswer, ExplainAnswer, LeftoversAnswer, NodeAnswer};

type View<T> = fn(&mut dyn std::io::Write, Style, &T) -> std::io::Result<()>;

fn render<T: serde::de::DeserializeOwned>(name: &str, view: View<T>, style: Style) -> String {
    let path = format!("{}/fixtures/cli/render/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let answer: T = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut out = Vec::new();
    view(&mut out, style, &answer).unwrap();
    String::from_utf8(out).unwrap()
}

fn golden<T: serde::de::DeserializeOwned>(name: &str, view: View<T>) {
    golden_in(name, name, view, Style::default());
}

/// Compares the view of one answer in one style with a text.
fn golden_in<T: serde::de::DeserializeOwned>(name: &str, answer: &str, view: View<T>, style: Style) {
    let text = render(answer, view, style);
    let path = format!("{}/fixtures/cli/render/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    assert_data_eq!(text, snapbox::Data::read_from(path.as_ref(), Some(DataFormat::Text)).raw());
}

/// Make sure that one cgroup reads GPUs, rules, programs, processes.
#[test]
fn cgroup() {
    golden("cgroup", cgroups);
}

/// Make sure that unknown verdicts, masks and omitted rules are shown.
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
    golden("explain", |out, style, answer: &ExplainAnswer| explain(out, style, &answer.proof));
}

/// Make sure that differences read like diff(1).
#[test]
fn difference() {
    golden("diff", diff);
    golden("equal", diff);
}

/// Make sure that the node shows every numbering, orders owners, and folds
/// those that hold nothing.
#[test]
fn whole_node() {
    golden("node", node);
    golden_in("node-all", "node", node, Style { all: true, ..Style::default() });
    golden("node-mixed", node);
    golden("node-empty", node);
    golden("node-unknown", node);
}

/// Make sure that a job shows its sets, its processes and what changed.
#[test]
fn one_job() {
    golden("job", jobs);
    golden("nothing-job", jobs);
}

/// Make sure that a process is shown in full.
#[test]
fn one_process() {
    golden("pid", pids);
    golden("pid-unknown", pids);
}

/// Make sure that processes in a cgroup show what they ask for and hold.
#[test]
fn cgroup_with_details() {
    golden("cgroup-details", cgroups);
}

/// Make sure that leftovers are printed for people and for scripts, and that "none"
/// is not printed if some could not be seen.
#[test]
fn left_over() {
    golden("leftovers", |out, style, answer| leftovers(out, style, answer, "job 4711"));
    golden_in("porcelain", "leftovers", porcelain, Style::default());
    let none = |all_seen: bool| {
        let mut out = Vec::new();
        let style = Style { all_seen, ..Style::default() };
        leftovers(&mut out, style, &LeftoversAnswer::default(), "job 4711").unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(none(true), "No process of job 4711 holds a GPU.\n");
    assert_eq!(none(false), "No process of job 4711 was seen to hold a GPU, but not all could be seen.\n");
}

/// Make sure that values of users reach the output escaped and short.
#[test]
fn hostile_processes() {
    golden("hostile-join", jobs);
    let people: View<LeftoversAnswer> = |out, style, answer| leftovers(out, style, answer, "job \x1b[2J");
    let mut texts = vec![render("hostile-join", people, Style::default())];
    texts.extend([jobs, node, pids, cgroups].map(|view| render("hostile-join", view, Style::default())));
    for text in texts {
        assert!(!text.chars().any(|c| c != '\n' && sanitize::is_hostile(c)), "{text:?}");
    }
    let lines = render("hostile-join", porcelain, Style::default());
    assert_eq!(lines, "7\t123\t1000\tcgroup\\t\\n\tGPU\\x2c\\t\\u{202e}\n");
}

/// Make sure that two megabytes in a variable cost one cell.
#[test]
fn huge_values() {
    let raw = "9,".repeat(1 << 20);
    let asked = crate::report::Asked {
        raw: Some(raw.clone()),
        state: crate::model::ValueState::Value,
        ..Default::default()
    };
    assert_eq!(process::value(&asked, 20), "9,9,9,9,9,9,9,9,9,9…");
    let asked = crate::report::Asked { raw_hex: Some("ff".repeat(1 << 21)), ..asked };
    assert_eq!(process::value(&asked, 20), "\\xff\\xff\\xff\\xff\\xf…");
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

fn findings(out: &mut dyn std::io::Write, style: Style, payload: &AuditAnswer) -> std::io::Result<()> {
    audit(out, style, payload, true)
}

/// Make sure that a finding begins with the problem and ends with the advice, in 80
/// columns and escaped, and that a clean node is one line.
#[test]
fn audits() {
    golden("audit", findings);
    golden_in("audit-all", "audit", findings, Style { all: true, ..Style::default() });
    golden("audit-clean", findings);
    let text = render("audit", findings, Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.chars().any(|c| c != '\n' && sanitize::is_hostile(c)), "{text:?}");
    let color = render("audit", findings, Style { color: true, ..Style::default() });
    assert_eq!(anstream::adapter::strip_str(&color).to_string(), text);
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
    let all: [(&str, View<NodeAnswer>); 9] = [
        ("cgroup", cgroups),
        ("unknown", cgroups),
        ("nothing", cgroups),
        ("cgroup-details", cgroups),
        ("node", node),
        ("node-mixed", node),
        ("node-unknown", node),
        ("job", jobs),
        ("pid", pids),
    ];
    for (name, view) in all {
        let text = render(name, view, Style::default());
        let is_path = |line: &&str| !line.contains("attached at /") && !line.contains("cgroup   /");
        for line in text.lines().filter(is_path).filter(|line| !line.trim_start().starts_with(['/', 'i'])) {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}
