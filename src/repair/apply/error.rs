//! Errors of a change: why nothing was changed, or what was put back.

use nix::errno::Errno;

use crate::observe::ObserveError;
use crate::sys::bpf::BpfError;

/// Why a change was not made, or not kept. The message says which of the two.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nothing was changed: the reason, a sentence, and what would help, or nothing.
    #[error("nothing was changed: {why}")]
    Refused {
        /// The reason.
        why: String,
        /// What would help; empty if nothing would.
        needs: &'static str,
    },
    /// It was changed, the proof failed, and the old program is back.
    #[error("the change was taken back: {0}")]
    PutBack(String),
    /// It was changed, the proof failed, others had attached a program meanwhile, and
    /// gpumap's is taken away again: the old one is not put back beside theirs.
    #[error("the change was taken back, but the old program is not back: {0}")]
    TakenAway(String),
    /// It was changed, the proof failed, and somebody else has replaced gpumap's program
    /// meanwhile: nothing is left to take back.
    #[error("the change did not last, another was faster: {0}")]
    Replaced(String),
    /// An undo was made, its proof failed, and gpumap's program is in force again.
    #[error("the undo was taken back, the change is in force: {0}")]
    NotUndone(String),
    /// An undo was made, its proof failed, and gpumap's program is not back.
    #[error("it is undone, but that everything decides as before is not proved: {0}")]
    Unproved(String),
    /// It was changed, the proof failed, and the change is still there.
    #[error("the change is in force and could not be taken back: {0}")]
    Left(String),
}

impl ApplyError {
    /// Nothing was changed, and nothing but another look helps.
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into(), needs: "" }
    }

    /// A file or directory of gpumap's own cannot be used.
    pub(super) fn file(path: &str, errno: Errno) -> Self {
        let needs = if errno == Errno::EACCES || errno == Errno::EPERM { "run as root" } else { "" };
        Self::Refused { why: format!("{path}: {}", errno.desc()), needs }
    }

    /// A call of bpf(2) failed before anything was changed.
    pub(super) fn bpf(what: &str, error: BpfError) -> Self {
        let needs =
            if error.is_refused() { "run as root (CAP_SYS_ADMIN, CAP_BPF and CAP_NET_ADMIN)" } else { "" };
        Self::Refused { why: format!("{what}: {error}"), needs }
    }
}

impl From<ObserveError> for ApplyError {
    fn from(error: ObserveError) -> Self {
        Self::refused(error.to_string())
    }
}
