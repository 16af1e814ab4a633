//! Tests of commands that fail or panic half-way.

use clap::Parser as _;
use serde_json::{Value, json};

use super::*;
use crate::model::ProblemCode;
use crate::render::json::StreamedDocument;

/// Panics are caught in one static place, so these tests run one after the other.
static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Exit code, standard output and standard error of a command that does `work`.
fn outcome(
    args: &[&str],
    work: impl FnOnce(&mut Invocation<'_>, &Command) -> Result<Exit, Failure>,
) -> (u8, Vec<u8>, String) {
    let cli = Cli::try_parse_from([&["gpumap"], args].concat()).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let streams = Streams { input: &mut [].as_slice(), out: &mut out, err: &mut err };
    let exit = attempt(&cli, Style::default(), streams, work);
    (exit.code(), out, String::from_utf8(err).unwrap())
}

fn bug(document: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(document).unwrap();
    assert_eq!((&document["schema"], &document["complete"]), (&json!("gpumap/1"), &json!(false)));
    assert_eq!(document["errors"][0]["code"], "bug");
    document
}

/// Make sure that a panic is a failure like any other, that it names its place,
/// and that half of a document is taken back. A panic of another thread comes
/// through the same door.
#[test]
fn a_panic_is_a_failure() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let hook = std::panic::take_hook();
    failure::install();
    let (exit, out, err) = outcome(&["--json", "node"], |invocation, _| {
        invocation.out.write_all(b"{\"half\":")?;
        let thread = std::thread::spawn(|| panic!("the\nreason"));
        thread.join().map_err(|panic| std::panic::resume_unwind(panic))
    });
    let (text_exit, text, _) = outcome(&["node"], |_, _| panic!("again"));
    std::panic::set_hook(hook);
    let document = bug(&out);
    assert_eq!((exit, document["command"].as_str()), (2, Some("node")));
    let why = document["errors"][0]["why"].as_str().unwrap();
    assert!(why.contains("commands/tests.rs:") && why.ends_with(": the reason"), "{why}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains(why) && err.contains("please report"), "{err}");
    assert_eq!((text_exit, text.len()), (2, 0));
}

/// Make sure that nothing follows a document of which a part is out.
#[test]
fn a_document_that_is_out_stays_as_it_is() {
    let half = [b"{\"a\":\"".as_slice(), &[b'x'; 1 << 17]].concat();
    let (exit, out, err) = outcome(&["--json", "node"], |invocation, _| {
        invocation.out.write_all(&half)?;
        invocation.out.flush()?;
        Err(Failure::new(ProblemCode::Usage, "y", "z", ""))
    });
    assert_eq!((exit, out == half, err.as_str()), (2, true, "gpumap: y: z\n"));
}

/// Make sure that a list that was begun is ended.
#[test]
fn a_list_is_ended() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (exit, out, _) = outcome(&["--json", "check", "c 1:3"], |invocation, _| {
        let mut stream = StreamedDocument::default();
        stream.begin(invocation.out, &json!({"schema": "gpumap/1"}), "checks")?;
        invocation.is_open = true;
        stream.element(invocation.out, &json!({"n": 1}))?;
        invocation.out.flush()?;
        panic!("in the middle")
    });
    assert_eq!((exit, &bug(&out)["checks"]), (2, &json!([{"n": 1}])));
}

/// Make sure that an audit that breaks off does not drain a node where the
/// caller said so, and keeps to the plugin's protocol.
#[test]
fn an_audit_fails_as_its_caller_can_bear() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (exit, out, _) = outcome(&["audit", "--nagios"], |_, _| panic!("x"));
    assert_eq!(exit, 3);
    assert!(out.starts_with(b"GPUMAP UNKNOWN"), "{}", String::from_utf8_lossy(&out));
    assert_eq!(outcome(&["audit", "--from-env"], |_, _| panic!("x")).0, 0);
}
