//! Drops capabilities: a program that runs for days keeps only those that it uses,
//! so that an attacker who takes it over gets no more.

use libc::{c_int, c_long, c_ulong};
use nix::errno::Errno;

use super::caps::Capability;

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
    use crate::sys::caps::Capabilities;

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
