//! Why a file was not written.

use std::io;

use nix::errno::Errno;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The name leads where gpumap does not write.
    #[error("{why}")]
    Refused {
        /// The reason.
        why: String,
        /// The advice.
        needs: &'static str,
    },
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for OutputError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl OutputError {
    pub(super) fn refused(why: impl Into<String>, needs: &'static str) -> Self {
        Self::Refused { why: why.into(), needs }
    }
}
