//! What the running kernel has: tests also run under kernels of other releases
//! (`tests/machines.sh`), and say what these lack.

use std::os::fd::AsFd as _;

use gpumap::sys::bpf::{ListKind, query};
use nix::sys::utsname::uname;

use super::cgroup::Cgroup;

/// The first two numbers of the running kernel's release.
pub fn release() -> (u32, u32) {
    let names = uname().unwrap();
    let release = names.release().to_str().unwrap();
    let mut numbers =
        release.split(|byte: char| !byte.is_ascii_digit()).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Whether the running kernel is at least this one; else a line says what the test would
/// have needed. That is no failure, but on a machine with a kernel that has it.
pub fn needs(major: u32, minor: u32, what: &str) -> bool {
    let has = release() >= (major, minor);
    if !has {
        super::skips::too_old(&format!("{what} needs Linux {major}.{minor}"));
    }
    has
}

/// The kernel for which the compiled programs of these tests are written. Older ones refuse
/// some of them, for want of a function or of patience.
const WRITTEN_FOR: (u32, u32) = (6, 18);

/// Whether the running kernel is to take the compiled programs of these tests.
pub fn takes_all_programs() -> bool {
    release() >= WRITTEN_FOR
}

/// Whether the running kernel counts the changes of a cgroup's programs (Linux 6.17, and
/// those to which it was given back); else a line says so.
pub fn counts_changes() -> bool {
    let cgroup = Cgroup::new().unwrap();
    let counts = query(cgroup.dir().as_fd(), ListKind::Own).unwrap().revision != 0;
    if !counts {
        super::skips::too_old("a comparison with what is replaced needs Linux 6.17");
    }
    counts
}

/// Whether programs may throw here (`bpf_throw`). Ubuntu's 7.0 for arm64 itself fails in the
/// process that asks, on processors that sign return addresses; 6.12 and 7.2 do not.
pub fn survives_exceptions() -> bool {
    !(cfg!(target_arch = "aarch64") && release() == (7, 0))
}

/// Whether the running kernel is built with kprobes, as those of distributions are.
pub fn has_kprobes() -> bool {
    std::fs::read_to_string("/proc/kallsyms").unwrap().contains(" register_kretprobe")
}
