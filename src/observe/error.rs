//! Reasons why an observation cannot be taken at all.

use std::path::PathBuf;

use nix::errno::Errno;
use thiserror::Error;

use crate::owner::JobName;

/// A question that has no answer on this node; the message names the way out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The mount table cannot be read.
    #[error("cannot read {path}: {errno}; is /proc mounted? (--proc DIR names another place)")]
    Mounts {
        /// The file.
        path: PathBuf,
        /// The error.
        errno: Errno,
    },
    /// No cgroup2 mount and no v1 devices mount.
    #[error(
        "no cgroup2 file system and no v1 devices controller is mounted; mount cgroup2 or name its place with --cgroup-root DIR"
    )]
    NoCgroupMount,
    /// Every cgroup mount is covered by a later mount.
    #[error(
        "a cgroup file system is mounted at {path}, but a later mount hides it; name a place where it can be reached with --cgroup-root DIR"
    )]
    HiddenMount {
        /// The mount point of the first one.
        path: PathBuf,
    },
    /// A relative path without a place to start from.
    #[error("the working directory is a cgroup that has been removed; name the cgroup by its whole path")]
    WorkingDirectoryGone,
    /// A v1 directory where a cgroup2 one is needed.
    #[error("{path} belongs to a cgroup v1 hierarchy, which has no device programs; {}", instead(.cgroup2.as_ref()))]
    V1Directory {
        /// The directory as asked.
        path: PathBuf,
        /// The mount point of cgroup2.
        cgroup2: Option<PathBuf>,
    },
    /// A directory on another file system.
    #[error("{path} is not a cgroup directory; {}", instead(.cgroup2.as_ref()))]
    NotACgroup {
        /// The directory as asked.
        path: PathBuf,
        /// The mount point of cgroup2.
        cgroup2: Option<PathBuf>,
    },
    /// A cgroup2 directory, but not below the root in use.
    #[error("{path} is a cgroup, but not below {root}; choose its mount with --cgroup-root DIR")]
    OutsideRoot {
        /// The directory as asked.
        path: PathBuf,
        /// The cgroup root.
        root: PathBuf,
    },
    /// Nothing there.
    #[error("no such cgroup: {path} (looked under {root}); it may have ended already")]
    NoSuchCgroup {
        /// The cgroup as asked.
        path: PathBuf,
        /// The cgroup root.
        root: PathBuf,
    },
    /// A file.
    #[error("{path} is not a directory; name the cgroup's directory")]
    NotADirectory {
        /// The path as asked.
        path: PathBuf,
    },
    /// Any other failure to open.
    #[error("cannot open {path}: {errno}{}", hint(*.errno))]
    Open {
        /// The path as asked.
        path: PathBuf,
        /// The error.
        errno: Errno,
    },
    /// No program with this id.
    #[error("no BPF program with id {id}; `bpftool prog list` shows those that are loaded")]
    NoSuchProgram {
        /// The id as asked.
        id: u32,
    },
    /// A program of another type.
    #[error("BPF program {id} (type number {kind}) is not a cgroup_device program (type number 15)")]
    NotADeviceProgram {
        /// The id as asked.
        id: u32,
        /// `BPF_PROG_TYPE_*`.
        kind: u32,
    },
    /// Not allowed to look at a program.
    #[error("not allowed to open BPF program {id}: {why}{}", needed(needs))]
    NoRight {
        /// The id as asked.
        id: u32,
        /// The error in words.
        why: String,
        /// The right or setting that would make it work; empty if none would.
        needs: String,
    },
    /// Any other failure to read a program.
    #[error("cannot read BPF program {id}: {why}")]
    Program {
        /// The id as asked.
        id: u32,
        /// The error in words.
        why: String,
    },
    /// No such process.
    #[error("no process {pid} under {proc}; it may have ended already")]
    NoSuchProcess {
        /// The pid as asked.
        pid: u32,
        /// The proc file system.
        proc: PathBuf,
    },
    /// A process that may be there and cannot be read.
    #[error("process {pid}: {why}")]
    Process {
        /// The pid as asked.
        pid: u32,
        /// Why, one clause.
        why: String,
    },
    /// A process whose memory or files block every reader.
    #[error("process {pid} does not answer: not even its descriptors can be read without waiting for it")]
    SilentProcess {
        /// The pid as asked.
        pid: u32,
    },
    /// A job without a cgroup here.
    #[error("no cgroup of job {job} under {root}; it may have ended, or run elsewhere{}; `gpumap node` shows the jobs of this node", doubts(*.unnamed, *.incomplete))]
    NoSuchJob {
        /// The job as asked.
        job: JobName,
        /// The cgroup root.
        root: PathBuf,
        /// Jobs here that are known by their SLUID only, so that this number
        /// may be theirs.
        unnamed: usize,
        /// Whether some cgroups could not be looked into.
        incomplete: bool,
    },
    /// A process that is in no cgroup that can be seen.
    #[error(
        "process {pid} is in cgroup {path}, which is outside the cgroup namespace or mount gpumap runs in; run gpumap in the host's cgroup namespace"
    )]
    OutsideNamespace {
        /// The pid as asked.
        pid: u32,
        /// The path as `/proc/PID/cgroup` has it.
        path: PathBuf,
    },
    /// `/proc/PID/cgroup` has no usable line.
    #[error("/proc/{pid}/cgroup names no cgroup of the hierarchy at {root}")]
    NoCgroup {
        /// The pid as asked.
        pid: u32,
        /// The cgroup root.
        root: PathBuf,
    },
    /// The process went to another cgroup while it was asked about.
    #[error("process {pid} moved to cgroup {path} while it was asked about; ask again")]
    Moved {
        /// The pid as asked.
        pid: u32,
        /// The cgroup it is in now.
        path: PathBuf,
    },
    /// Threads of the process may open different devices.
    #[error("process {pid} has no one policy: {why}; ask about each cgroup (--cgroup)")]
    SeveralPolicies {
        /// The pid as asked.
        pid: u32,
        /// Why, one clause.
        why: String,
    },
    /// Nobody says which cgroup it is in.
    #[error(
        "process {pid} is in a cgroup whose path is longer than the 4095 bytes that the kernel shows; gpumap node finds it"
    )]
    LongPath {
        /// The pid as asked.
        pid: u32,
    },
    /// The process outlives its cgroup.
    #[error("process {pid} is in cgroup {path}, which has been removed; it is exiting")]
    CgroupRemoved {
        /// The pid as asked.
        pid: u32,
        /// The cgroup that it was in.
        path: PathBuf,
    },
}

impl ObserveError {
    /// Whether what was asked about may be there, and could not be read.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self, Self::Process { .. } | Self::SilentProcess { .. } | Self::LongPath { .. })
    }
}

fn instead(cgroup2: Option<&PathBuf>) -> String {
    match cgroup2 {
        Some(path) => format!("cgroup2 is mounted at {}", path.display()),
        None => "no cgroup2 is mounted here".to_owned(),
    }
}

fn doubts(unnamed: usize, incomplete: bool) -> String {
    let unnamed = match unnamed {
        0 => String::new(),
        1 => "; 1 job here shows no number, ask for it by its SLUID".to_owned(),
        count => format!("; {count} jobs here show no number, ask for them by their SLUIDs"),
    };
    let incomplete = if incomplete { "; some cgroups could not be looked into" } else { "" };
    unnamed + incomplete
}

fn needed(needs: &str) -> String {
    if needs.is_empty() { String::new() } else { format!("; needs {needs}") }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => " (needs search permission on every directory above, or CAP_DAC_READ_SEARCH)",
        Errno::EMFILE => " (raise the limit of open files: ulimit -n)",
        _ => "",
    }
}
