//! Capabilities: which gpumap has, and giving them up.

use std::fmt;
use std::fs::File;
use std::io::Read;

use libc::{c_int, c_long, c_ulong};
use nix::errno::Errno;

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

/// `_LINUX_CAPABILITY_VERSION_3` of `linux/capability.h`: two words for each set.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

/// `struct __user_cap_data_struct`; the second one has the upper 32 bits.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up every capability but these in all five sets, the right to gain any by
/// executing a file (`PR_SET_NO_NEW_PRIVS`), and forbids others of the same user to
/// look into this process (`PR_SET_DUMPABLE`).
///
/// Each thread has capabilities of its own, so call it before there is a second
/// thread.
///
/// # Errors
///
/// capset(2) or prctl(2) failed. Without `CAP_SETPCAP` the bounding set stays as it
/// is, which is no error, because nothing can be gained by it then.
pub fn keep_only(kept: &[Capability]) -> Result<(), Errno> {
    let kept = kept.iter().fold(0, |set: u64, capability| set | 1 << *capability as u8);
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    // Before Linux 4.3 there is no ambient set.
    match prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong, 0) {
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    for capability in (0..64).filter(|capability| kept >> capability & 1 == 0) {
        match prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Ok(()) => {}
            // The kernel knows no more of them, or this thread may not.
            Err(Errno::EINVAL | Errno::EPERM) => break,
            Err(errno) => return Err(errno),
        }
    }
    narrow(kept)?;
    // Last: it makes /proc/self root's, which those who gave up root need not be.
    prctl(libc::PR_SET_DUMPABLE, 0, 0)
}

/// Removes from the permitted and the effective set all that is not in `kept`;
/// inherits nothing.
fn narrow(kept: u64) -> Result<(), Errno> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: both outlive the call, and version 3 means an array of two.
    let got: c_long = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    Errno::result(got)?;
    let words = [kept & 0xffff_ffff, kept >> 32].map(|word| u32::try_from(word).unwrap_or_default());
    for (data, word) in data.iter_mut().zip(words) {
        let permitted = data.permitted & word;
        *data = Data { effective: data.effective & permitted, permitted, inheritable: 0 };
    }
    // SAFETY: as above; the kernel only reads.
    let set: c_long = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    Errno::result(set).map(drop)
}

fn prctl(option: c_int, first: c_ulong, second: c_ulong) -> Result<(), Errno> {
    let none: c_ulong = 0;
    // SAFETY: the options used here take numbers and touch no memory.
    let done = unsafe { libc::prctl(option, first, second, none, none) };
    Errno::result(done).map(drop)
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

    /// Make sure that a thread keeps the capabilities it asked for, and that no
    /// other thread loses any.
    #[test]
    fn thread() {
        let before = Capabilities::effective();
        let after = std::thread::spawn(|| {
            keep_only(&[Capability::SysPtrace]).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            (Capabilities::effective().unwrap(), status)
        });
        let (set, status) = after.join().unwrap();
        assert!(!set.has(Capability::SysAdmin) && !set.has(Capability::Bpf));
        assert!(status.contains("CapInh:\t0000000000000000") && status.contains("NoNewPrivs:\t1"));
        assert_eq!(Capabilities::effective(), before);
        // The flag is the whole process's: give it back to the other tests.
        prctl(libc::PR_SET_DUMPABLE, 1, 0).unwrap();
    }
}
