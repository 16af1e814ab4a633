//! Reads the capabilities of this thread, to name the one that is missing.

use std::fmt;
use std::fs::File;
use std::io::Read;

/// The capabilities that reading device policies can need, numbered as in
/// `linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// `CAP_DAC_READ_SEARCH`.
    DacReadSearch = 2,
    /// `CAP_NET_ADMIN`.
    NetAdmin = 12,
    /// `CAP_SYS_PTRACE`.
    SysPtrace = 19,
    /// `CAP_SYS_ADMIN`.
    SysAdmin = 21,
    /// `CAP_SYSLOG`.
    Syslog = 34,
    /// `CAP_PERFMON`, since Linux 5.8.
    Perfmon = 38,
    /// `CAP_BPF`, since Linux 5.8.
    Bpf = 39,
    /// `CAP_CHECKPOINT_RESTORE`, since Linux 5.9.
    CheckpointRestore = 40,
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The effective set of this thread, from `/proc/thread-self/status`; `None` if
    /// that cannot be read.
    pub fn effective() -> Option<Self> {
        let mut text = String::new();
        File::open("/proc/thread-self/status").ok()?.take(1 << 16).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }

    /// Whether `capability` is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 >> capability as u8 & 1 == 1
    }

    fn parse(status: &str) -> Option<Self> {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Self)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Syslog => "CAP_SYSLOG",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
            Self::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the mask is read as the kernel writes it.
    #[test]
    fn masks() {
        let set = Capabilities::parse("Name:\tx\nCapEff:\t0000008000001000\n").unwrap();
        assert!(set.has(Capability::Bpf) && set.has(Capability::NetAdmin));
        assert!(!set.has(Capability::SysAdmin));
        assert_eq!(Capabilities::parse("CapEff:\tx\n"), None);
        assert!(Capabilities::effective().is_some());
    }
}
