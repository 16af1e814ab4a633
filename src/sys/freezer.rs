//! Lets the processes of a cgroup stand still, or ends them all: `cgroup.freeze` (Linux 5.2)
//! and `cgroup.kill` (Linux 5.14). The only writes into cgroups besides those of helpers
//! that gpumap puts there; `leftovers --kill` alone makes them.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::stat::Mode;
use nix::unistd::write;

use super::dir::Dir;
use super::retry::again;

/// Bytes of `cgroup.events` and `cgroup.freeze`.
const LIMIT: usize = 4096;
/// Time between two looks whether all stand still.
const PAUSE: Duration = Duration::from_millis(1);
/// Signals that would end gpumap while others wait for it.
const PUT_OFF: [Signal; 5] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGALRM];

/// A cgroup whose processes stand still until the value is dropped, those of the cgroups
/// below it too. Signals that would end this thread's process wait so long.
#[derive(Debug)]
pub struct Frozen {
    cgroup: Dir,
    /// Whether it was frozen before, and stays so.
    stays: bool,
    mask: SigSet,
}

impl Frozen {
    /// Freezes a cgroup and waits, not longer than `patience`, until all of its processes
    /// stand still; one that the kernel cannot stop keeps the others waiting no longer.
    ///
    /// # Errors
    ///
    /// `cgroup.freeze` cannot be written: the kernel has none, or a right is missing.
    pub fn new(cgroup: Dir, patience: Duration) -> Result<Self, Errno> {
        let stays = read(&cgroup, c"cgroup.freeze")?.starts_with(b"1");
        let put_off: SigSet = PUT_OFF.into_iter().collect();
        let mask = put_off.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // From here on dropping it lets them go on.
        let frozen = Self { cgroup, stays, mask };
        order(&frozen.cgroup, c"cgroup.freeze", b"1")?;
        let end = Instant::now() + patience;
        while !frozen.stands_still()? && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
        Ok(frozen)
    }

    fn stands_still(&self) -> Result<bool, Errno> {
        let events = read(&self.cgroup, c"cgroup.events")?;
        Ok(events.split(|byte| *byte == b'\n').any(|line| line == b"frozen 1"))
    }

    /// Ends all processes in the cgroup and below it, those too that begin meanwhile.
    ///
    /// # Errors
    ///
    /// `cgroup.kill` cannot be written: `ENOENT` where the kernel has none.
    pub fn kill(&self) -> Result<(), Errno> {
        order(&self.cgroup, c"cgroup.kill", b"1")
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if !self.stays {
            // It fails if the cgroup was removed, which takes that nobody is in it.
            let _removed = order(&self.cgroup, c"cgroup.freeze", b"0");
        }
        let _never_fails = self.mask.thread_set_mask();
    }
}

fn read(cgroup: &Dir, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    cgroup.read_into(name, &mut text, LIMIT).map(|()| text)
}

fn order(cgroup: &Dir, name: &CStr, word: &[u8]) -> Result<(), Errno> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let file = again(|| openat(cgroup, name, flags, Mode::empty()))?;
    again(|| write(&file, word)).map(drop)
}
