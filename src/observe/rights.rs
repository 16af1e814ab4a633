//! Explains refusals: names the right that is missing or, where none is missing,
//! what refuses all the same.

use std::fs;

use nix::sys::stat::stat;

use crate::sys::caps::{Capabilities, Capability};

/// The capabilities for looking into other users' processes.
const READING: [Capability; 2] = [Capability::SysPtrace, Capability::DacReadSearch];
/// Either suffices to follow `/proc/PID/map_files`.
const MAPPED: [Capability; 2] = [Capability::CheckpointRestore, Capability::SysAdmin];
const MAPPED_TEXT: &str = "CAP_CHECKPOINT_RESTORE (CAP_SYS_ADMIN before Linux 5.9)";
/// Inode number of the initial user namespace, `PROC_USER_INIT_INO` of
/// `linux/proc_ns.h`: the same on every kernel since Linux 3.8.
const INITIAL: u64 = 0xEFFF_FFFD;

/// The part of a process that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessPart {
    /// Its environment, descriptors, executable.
    Facts,
    /// Its memory, which takes the right of a debugger
    /// (`PTRACE_MODE_ATTACH`).
    Memory,
    /// The files that it has mapped.
    Mapped,
}

/// The rights of gpumap that decide what it may read of processes.
#[derive(Clone, Debug)]
pub(super) struct Rights {
    reading: String,
    mapped: bool,
    is_initial: bool,
    no_debugging: bool,
    modules: String,
}

impl Rights {
    /// The current rights of this process.
    pub(super) fn own() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            reading: missing(&READING),
            mapped: has_one_of(&MAPPED),
            is_initial: is_initial_namespace(),
            no_debugging: text("/proc/sys/kernel/yama/ptrace_scope") == "3",
            modules: text("/sys/kernel/security/lsm"),
        }
    }

    /// The capabilities that are missing for this part of a process; empty if gpumap
    /// has them all, so that no further right would help.
    pub(super) fn missing(&self, part: ProcessPart) -> String {
        if part == ProcessPart::Mapped && !self.mapped {
            MAPPED_TEXT.to_owned()
        } else {
            self.reading.clone()
        }
    }

    /// What refuses if no capability is missing: ` although …`.
    pub(super) fn refuser(&self, part: ProcessPart) -> String {
        let has = " although gpumap has CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
        if part == ProcessPart::Memory && self.no_debugging {
            return format!("{has}: kernel.yama.ptrace_scope is 3, and so nobody may read memory");
        }
        let modules = match self.modules.as_str() {
            "" => String::new(),
            names => format!(" (this kernel runs {})", names.replace(',', ", ")),
        };
        match self.is_initial {
            true => format!(
                "{has} in the initial user namespace: a security module of the kernel{modules}, or a change to \
                 this kernel, forbids it; no capability would help"
            ),
            false => format!(
                "{has} in its user namespace: processes of others cannot be read from there, nor those that a \
                 security module protects{modules}"
            ),
        }
    }
}

/// Whether gpumap is in the initial user namespace, where capabilities hold for the
/// whole node.
pub(super) fn is_initial_namespace() -> bool {
    // Not known is not the node's own: then no more is promised than holds in another.
    stat("/proc/self/ns/user").is_ok_and(|space| space.st_ino == INITIAL)
}

/// Which of these capabilities are missing, in words; empty where none is.
pub(super) fn missing(all: &[Capability]) -> String {
    let held = Capabilities::effective().unwrap_or_default();
    let missing = all.iter().filter(|one| !held.has(**one)).map(Capability::to_string);
    missing.collect::<Vec<_>>().join(" and ")
}

/// The right to ask for where any one of `sufficient` is enough: `needs`, or nothing
/// if gpumap has one of them already.
pub(super) fn unless_held(sufficient: &[Capability], needs: &str) -> String {
    if has_one_of(sufficient) { String::new() } else { needs.to_owned() }
}

/// Why something that was refused is not known: it `needs` a right, or the kernel
/// refuses it although gpumap has one of `sufficient`.
pub(super) fn refused(sufficient: &[Capability], needs: &str, to: &str) -> String {
    match has_one_of(sufficient) {
        false => format!("needs {needs} to {to}"),
        true => format!(
            "the kernel refuses to {to} although gpumap has the capability: it does not count in a user \
             namespace, and a security module or seccomp filter may refuse"
        ),
    }
}

fn has_one_of(sufficient: &[Capability]) -> bool {
    Capabilities::effective().is_some_and(|held| sufficient.iter().any(|one| held.has(*one)))
}

/// Whether gpumap runs as root. Without root most of a node cannot be seen.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether gpumap is in a user namespace other than the initial one, as in many
/// containers. Root there has no rights over the node.
pub fn is_in_user_namespace() -> bool {
    !is_initial_namespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(is_initial: bool, modules: &str) -> Rights {
        let (reading, modules) = (String::new(), modules.to_owned());
        Rights { reading, mapped: true, is_initial, no_debugging: false, modules }
    }

    /// Make sure that no right is asked for that is there, and that what refuses
    /// is named as exactly as it is known.
    #[test]
    fn who_refuses() {
        for part in [ProcessPart::Facts, ProcessPart::Memory, ProcessPart::Mapped] {
            assert_eq!(root(true, "").missing(part), "");
        }
        let outside = root(true, "capability,apparmor").refuser(ProcessPart::Facts);
        assert!(outside.contains("security module") && outside.contains("capability, apparmor"), "{outside}");
        assert!(!outside.contains("processes of others"), "{outside}");
        assert!(root(false, "").refuser(ProcessPart::Facts).contains("in its user namespace"));
        let yama = Rights { no_debugging: true, ..root(true, "yama") };
        assert!(yama.refuser(ProcessPart::Memory).contains("ptrace_scope is 3"));
        assert!(!yama.refuser(ProcessPart::Facts).contains("ptrace_scope"));
        let user = Rights { reading: "CAP_SYS_PTRACE".to_owned(), mapped: false, ..root(true, "") };
        assert_eq!(user.missing(ProcessPart::Facts), "CAP_SYS_PTRACE");
        assert_eq!(user.missing(ProcessPart::Mapped), MAPPED_TEXT);
    }
}
