//! STUB of the branch h-cli, replaced whole by the observe branch: the
//! signatures that `commands` is written against.

use std::path::PathBuf;
use std::time::Instant;

use crate::observation::Observation;

/// Where to look, and until when.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The cgroup2 mount; `None` finds the first.
    pub cgroup_root: Option<PathBuf>,
    /// The proc file system.
    pub proc: PathBuf,
    /// Prefix of the files the GPU inventory reads.
    pub gpu_root: PathBuf,
    /// When to stop.
    pub deadline: Option<Instant>,
}

/// One cgroup asked for.
#[derive(Clone, Debug)]
pub struct Target {
    /// File-system path, or path relative to the cgroup root.
    pub path: PathBuf,
    /// Whether everything below is asked for too.
    pub recursive: bool,
}

/// Why nothing could be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The stub's only answer.
    #[error("this build observes nothing")]
    Stub,
    /// Variants that `commands` tells apart; the real ones have fields.
    #[error("")]
    NoSuchCgroup {},
    /// See above.
    #[error("")]
    CgroupRemoved {},
    /// See above.
    #[error("")]
    V1Directory {},
    /// See above.
    #[error("")]
    NotACgroup {},
    /// See above.
    #[error("")]
    NoSuchProgram {},
    /// See above.
    #[error("")]
    NoSuchProcess {},
    /// See above.
    #[error("")]
    NoRight {},
}

/// Observes cgroups.
pub fn cgroups(_options: &Options, _targets: &[Target]) -> Result<Observation, ObserveError> {
    Err(ObserveError::Stub)
}

/// Observes one program.
pub fn program(_options: &Options, _id: u32) -> Result<Observation, ObserveError> {
    Err(ObserveError::Stub)
}

/// The cgroup of a process.
pub fn pid_cgroup(_options: &Options, _pid: u32) -> Result<PathBuf, ObserveError> {
    Err(ObserveError::Stub)
}

/// Observes the GPUs alone.
pub fn gpus(_options: &Options) -> Observation {
    Observation::default()
}
