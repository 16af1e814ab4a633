//! Processes and threads that are gone. Absence is what the kernel says; whatever else keeps
//! gpumap from looking is none.

use std::ffi::CString;
use std::path::Path;

use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::sys::absence::is_end;
use crate::sys::dir::Dir;
use crate::sys::stat::stat_at;

/// The pid namespace that the kernel begins with (`PROC_PID_INIT_INO`, `linux/proc_ns.h`).
const INITIAL: &[u8] = b"pid:[4026531836]";

/// Whether who is not in this proc file system is not there at all: its numbers are the
/// kernel's own, and no process is hidden from gpumap (hidepid).
pub(crate) fn shows_all(proc: &Path) -> bool {
    // What cannot be looked at is not known to show all.
    let Ok(dir) = Dir::open(proc) else { return false };
    // The same.
    let is_initial = matches!(dir.link(c"self/ns/pid"), Ok(name) if name == INITIAL);
    // The same.
    is_initial && PinnedProcess::open(&dir, 1).and_then(|first| first.stat()).is_ok()
}

/// Whether a process that started so many clock ticks after boot has ended: it is not there
/// any more, waits for its parent, or its number is another one's.
pub(crate) fn is_over(proc: &Path, pid: u32, start: u64) -> bool {
    match PinnedProcess::at(proc, pid).and_then(|found| found.stat()) {
        Ok(stat) => stat.start_time != start || stat.has_ended() && stat.threads <= 1,
        Err(error) => matches!(error, NotRead::Gone),
    }
}

/// Whether a process has no such thread, or is not there.
pub(crate) fn has_no_thread(proc: &Path, pid: u32, tid: u32) -> bool {
    // What cannot be looked at is not known to be gone.
    let (Ok(proc), Ok(name)) = (Dir::open(proc), CString::new(format!("{pid}/task/{tid}"))) else {
        return false;
    };
    matches!(stat_at(&proc, &name), Err(errno) if is_end(errno))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    fn eventually(is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed().as_secs() < 60);
        }
    }

    /// Make sure that a process is over when it has ended, whether or not its parent asked for
    /// that, and when its number is another one's.
    #[test]
    fn ends() {
        let proc = Path::new("/proc");
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let start = PinnedProcess::at(proc, pid).unwrap().stat().unwrap().start_time;
        assert!(!is_over(proc, pid, start) && is_over(proc, pid, start + 1));
        drop(child.stdin.take());
        eventually(|| is_over(proc, pid, start));
        child.wait().unwrap();
        assert!(is_over(proc, pid, start));
        assert!(!is_over("/nothing/here".as_ref(), pid, start), "what cannot be looked at is not over");
    }

    /// Make sure that a proc file system that cannot be looked at does not show all, and that
    /// this one does where its numbers are the kernel's own.
    #[test]
    fn all() {
        let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(shows_all("/proc".as_ref()), own.as_os_str().as_encoded_bytes() == INITIAL);
        assert!(!shows_all("/nothing/here".as_ref()));
    }

    /// Make sure that a thread is gone when its process has it no more.
    #[test]
    fn threads() {
        let (pid, proc) = (std::process::id(), Path::new("/proc"));
        let (tell, told) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).unwrap();
            wait.recv().unwrap();
        });
        let tid = u32::try_from(told.recv().unwrap()).unwrap();
        assert!(!has_no_thread(proc, pid, tid) && has_no_thread(proc, 1, tid));
        go.send(()).unwrap();
        thread.join().unwrap();
        eventually(|| has_no_thread(proc, pid, tid));
        assert!(!has_no_thread("/nothing/here".as_ref(), pid, tid), "what cannot be looked at is not gone");
    }
}
