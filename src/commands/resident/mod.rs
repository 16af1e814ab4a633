//! Shared by the commands that run until a signal ends them: `watch`,
//! `activity`, `export` and `top`.

pub(super) mod budget;
pub(super) mod look;
pub(super) mod output;
pub(super) mod scope;
pub(super) mod service_manager;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::invocation::Failure;
use crate::model::ProblemCode;
use crate::sys::caps::{Capability, keep_only};
use crate::sys::{locked_memory, seccomp};

/// What they need as long as they run: programs are read by id with
/// `CAP_SYS_ADMIN` alone, libraries that appear get their probes with it or with
/// `CAP_BPF` and `CAP_PERFMON`, processes of all users are looked into, and files
/// of their libraries read.
const KEPT: [Capability; 7] = [
    Capability::SysAdmin,
    Capability::SysPtrace,
    Capability::DacReadSearch,
    Capability::Syslog,
    Capability::NetAdmin,
    Capability::Perfmon,
    Capability::Bpf,
];

/// Gives up what such a command does not need. Before the first thread: each has
/// rights of its own.
pub(super) fn give_up_rights(code: ProblemCode) -> Result<(), Failure> {
    // Takes CAP_SYS_RESOURCE, which is given up too.
    locked_memory::raised();
    let given_up = keep_only(&KEPT).map_err(|errno| errno.desc().to_owned());
    let given_up = given_up.and_then(|()| seccomp::forbid().map_err(|error| error.to_string()));
    let fix = "a sandbox that allows capset(2), prctl(2) and seccomp(2)";
    given_up.map_err(|why| Failure::new(code, "giving up rights", why, fix))
}

/// The signals that end such a command, as a descriptor. Blocked before anything
/// else is begun: threads inherit that.
pub(super) fn signals(code: ProblemCode) -> Result<SignalFd, Failure> {
    signals_and(code, &[])
}

/// The same with further signals.
pub(super) fn signals_and(code: ProblemCode, further: &[Signal]) -> Result<SignalFd, Failure> {
    let ending = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let set: SigSet = ending.iter().chain(further).copied().collect();
    let fd = set
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK));
    fd.map_err(|errno| Failure::new(code, "signals", errno.desc(), ""))
}
