//! Why a command gave no answer; a panic, which is a bug of gpumap, ends a command as any
//! other failure does.

use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::path::Path;
use std::sync::Mutex;
use std::{io, panic};

use crate::analyse::AnalyseError;
use crate::bytecode::ReadError;
use crate::cli::device::{BadDevice, GRAMMAR};
use crate::model::ProblemCode;
use crate::observation::Problem;
use crate::observe::{ObserveError, is_root};
use crate::repair::apply::ApplyError;

/// Why a command gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The question or its sources are bad.
    #[error("{}", crate::render::problem(.0))]
    Problem(Box<Problem>),
    /// Standard output cannot be written. A reader that went away is not a
    /// failure.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A problem with a thing, and what would help.
    pub fn new(code: ProblemCode, what: impl Into<String>, why: impl Into<String>, needs: &str) -> Self {
        let needs = needs.to_owned();
        Self::Problem(Box::new(Problem { code, what: what.into(), why: why.into(), needs }))
    }

    /// A file that cannot be read or written.
    pub fn file(path: &Path, error: &io::Error) -> Self {
        let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
        let needs =
            if is_refused && !is_root() { "run as root, or name a file that you may use" } else { "" };
        Self::new(ProblemCode::File, path.to_string_lossy(), reason(error), needs)
    }

    /// A device that is not in the grammar.
    pub fn device(asked: &[u8], why: BadDevice) -> Self {
        Self::new(
            ProblemCode::BadDevice,
            format!("'{}'", String::from_utf8_lossy(asked)),
            why.to_string(),
            GRAMMAR,
        )
    }

    /// A program file that cannot be read.
    pub fn program_file(name: &str, error: &ReadError) -> Self {
        Self::new(ProblemCode::BadProgram, name, error.to_string(), "")
    }
}

impl From<AnalyseError> for Failure {
    fn from(error: AnalyseError) -> Self {
        match error {
            AnalyseError::NoCgroup(path) => {
                Self::new(ProblemCode::NoCgroup, path.lossy(), "not in the observation", "")
            }
            AnalyseError::NoProgram(id) => {
                Self::new(ProblemCode::NoProgram, format!("program {id}"), "not in the observation", "")
            }
            AnalyseError::Allocated(why) => Self::new(ProblemCode::Usage, "--allocated", why, ""),
        }
    }
}

impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        let needs = if let ApplyError::Refused { needs, .. } = &error { needs } else { "" };
        Self::new(ProblemCode::Repair, "", error.to_string(), needs)
    }
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        let code = match &error {
            ObserveError::NoRight { id, why, needs } => {
                let why = format!("not allowed to open it: {why}");
                return Self::new(ProblemCode::NoRight, format!("BPF program {id}"), why, needs);
            }
            ObserveError::NoSuchCgroup { .. } => ProblemCode::NoCgroup,
            ObserveError::CgroupRemoved { .. } => ProblemCode::CgroupGone,
            ObserveError::V1Directory { .. } | ObserveError::NotACgroup { .. } => ProblemCode::NotACgroup,
            ObserveError::NoSuchProgram { .. } => ProblemCode::NoProgram,
            ObserveError::NoSuchProcess { .. } => ProblemCode::NoProcess,
            ObserveError::NoSuchJob { .. } => ProblemCode::NoJob,
            _ => ProblemCode::Observe,
        };
        Self::new(code, "", error.to_string(), "")
    }
}

/// An operating system error without its number, in lower case.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

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
