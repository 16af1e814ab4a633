//! Turns a panic into a failure: a bug of gpumap ends a command as any other
//! failure does, with exit code 2, one line, and with --json a document.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Mutex;

use super::Failure;
use crate::model::ProblemCode;

/// The most characters of a panic's message that are printed.
const MESSAGE: usize = 300;

/// The place and message of the first panic, which may be of another thread.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps the report of a panic for [`caught`] instead of printing it.
pub(crate) fn install() {
    panic::set_hook(Box::new(|info| {
        if let Ok(mut first) = FIRST.lock() {
            first.get_or_insert_with(|| described(info));
        }
    }));
}

/// Does `work`; a panic in it becomes a failure.
///
/// What `work` borrows may be half changed afterwards. Callers only tell of the
/// failure and end.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_panic| Err(bug()))
}

fn bug() -> Failure {
    let first = FIRST.lock().ok().and_then(|mut first| first.take());
    let place = first.unwrap_or_else(|| "at an unknown place".to_owned());
    let needs = "this is a bug in gpumap: please report this line, the command and its input";
    Failure::new(ProblemCode::Bug, "gpumap", format!("broke off {place}"), needs)
}

/// `at src/file.rs:LINE: message`, on one line.
fn described(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let message =
        text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let message: String =
        message.chars().take(MESSAGE).map(|c| if c.is_control() { ' ' } else { c }).collect();
    match info.location() {
        Some(at) => format!("at {}:{}: {message}", at.file(), at.line()),
        None => format!("at an unknown place: {message}"),
    }
}
