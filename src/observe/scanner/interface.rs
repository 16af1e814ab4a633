//! What every way to list processes has in common.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::loader::LoadError;
use crate::observation::{Answer, Environment, HeldDevice, Text};

/// The way in which processes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMethod {
    /// BPF iterators over processes and their files. Needs root and Linux 5.8
    /// with BTF.
    Iterators,
    /// `/proc`.
    Proc,
}

impl ScanMethod {
    /// Its name in answers: `iterators` or `proc`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iterators => "iterators",
            Self::Proc => "proc",
        }
    }
}

/// What a scan reads of a process besides who it is and its open devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanContents {
    /// The environment at its last execve, which takes most of the time of a first
    /// scan.
    Environments,
    /// Nothing. The scanner by `/proc` may read environments all the same.
    DevicesOnly,
}

/// A process at one moment, without its memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSummary {
    /// Pid in gpumap's own pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/PID/stat` field 22): pid
    /// and start time together name one process for ever.
    pub start_time: u64,
    /// Another value means that it has executed another program: where code
    /// and stack begin, which is random. Where randomisation is switched off,
    /// programs can look alike.
    pub program: (u64, u64),
    /// Effective uid.
    pub uid: u32,
    /// Command name, at most 15 bytes, chosen by the process itself.
    pub comm: Text,
    /// Id of its cgroup: the inode number of the directory. `None` if it is not
    /// known: there is no cgroup2, the cgroup is outside of the mount, or `/proc`
    /// shows it as removed.
    pub cgroup: Option<u64>,
    /// The environment at the last execve; missing where it was not asked for.
    pub at_exec: Answer<Environment>,
    /// Distinct devices of its open descriptors, from every descriptor table that
    /// its threads have, each table once. Mappings are not included, nor are
    /// descriptors that only name a file (`O_PATH`).
    pub devices: Answer<Vec<HeldDevice>>,
    /// Why it may have more devices open than are listed.
    pub devices_cut: Option<String>,
}

/// Lists all processes.
pub trait Scanner: Send {
    /// The way it uses.
    fn engine(&self) -> ScanMethod;
    /// The processes that may be there and that the last scan could not read, by pid: they
    /// are not in its list.
    fn unread(&self) -> &[u32];
    /// Every process in the order of pids, without kernel threads and without
    /// processes that are ending or have ended. A process that comes or goes during
    /// the scan may be in the list or not.
    ///
    /// # Errors
    ///
    /// The processes cannot be listed at all.
    fn scan(&mut self) -> Result<Vec<ProcessSummary>, ScanError>;
}

/// Its name alone: what lies behind it would bring the text of all its facts into the program.
impl std::fmt::Debug for dyn Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scanner")
    }
}

/// Why processes cannot be listed this way.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The iterators cannot be loaded.
    #[error("{}", of_load(.0))]
    Load(#[from] LoadError),
    /// The kernel does not run a program that it has loaded.
    #[error("the iterators cannot be read ({0})")]
    Read(String),
    /// The iterators do not show the same processes as `/proc`.
    #[error("the iterators do not show gpumap as {0} does: another pid or time namespace")]
    OtherNamespace(String),
    /// The proc file system cannot be listed.
    #[error("{0} cannot be listed ({1})")]
    Proc(String, Errno),
}

fn of_load(error: &LoadError) -> String {
    match error {
        LoadError::NoTypes(_) | LoadError::Missing(_) => error.to_string(),
        LoadError::Refused(_) | LoadError::Forbidden(_) | LoadError::Scope(_) | LoadError::NoEngine => {
            format!("the kernel refuses to load the iterators ({error})")
        }
    }
}
