//! Every process of the node, as far as it can be seen without looking into
//! its memory: who it is, its environment at exec, the devices it has open.
//!
//! The kernel gives that in two ways with one answer: `/proc`, some twenty
//! system calls for each process, and BPF iterators (root, Linux 5.8), a
//! system call for a hundred of them. Which works is found out by trying.

mod choose;
mod error;
mod iterators;
mod known;
mod look;
mod open_files;
mod proc;
mod reader;
mod record;

use serde::{Deserialize, Serialize};

use crate::observation::{Answer, Environment, HeldDevice, Text};

pub use choose::{Choice, Engine, start};
pub use error::ScanError;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glimpse {
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
    /// Id of its cgroup: the inode number of the directory. `None` where it is
    /// not known: there is no cgroup2, or the cgroup is outside of what is
    /// mounted, or `/proc` shows it as removed.
    pub cgroup: Option<u64>,
    /// The environment at the last execve.
    pub at_exec: Answer<Environment>,
    /// Distinct devices behind its open descriptors, those of every table of
    /// descriptors that its threads have, each table once. Mappings are not
    /// looked at, and descriptors that only name a file (`O_PATH`) are none.
    pub devices: Answer<Vec<HeldDevice>>,
    /// Why it may have more devices open than are listed.
    pub devices_cut: Option<String>,
}

/// A way to see all processes.
pub trait Scanner: std::fmt::Debug + Send {
    /// Which way it is.
    fn engine(&self) -> Engine;
    /// Every process in the order of pids, without kernel threads and without
    /// those that are ending or have ended. One that comes or goes
    /// meanwhile may be there or not.
    ///
    /// # Errors
    ///
    /// Why the processes cannot be listed at all.
    fn scan(&mut self) -> Result<Vec<Glimpse>, ScanError>;
}

/// Reads bytes as the records of the iterators, for the fuzz targets.
#[cfg(fuzzing)]
pub(super) fn fuzzing(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((_, size)) = record::task(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
    let mut rest = bytes;
    while let Some((_, size)) = record::open(rest) {
        rest = rest.get(size.max(1)..).unwrap_or_default();
    }
}
