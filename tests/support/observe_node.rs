//! Scratch cgroups and processes that remove themselves, threads with fewer
//! rights, and the gate for tests that need root.

#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A cgroup directory, removed with everything below it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new one below `root`.
    pub fn new(root: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("gpumap-observe-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A directory below, made if need be.
    pub fn child(&self, name: impl AsRef<OsStr>) -> PathBuf {
        let path = self.0.join(Path::new(name.as_ref()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn handle(&self) -> File {
        File::open(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    // A process that has just been reaped may keep it busy for a moment.
    let end = Instant::now() + Duration::from_secs(2);
    while fs::remove_dir(path).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A sleeping process, killed at the end.
pub struct Sleeper(Child);

impl Sleeper {
    /// Starts it and moves it into `cgroups`.
    pub fn new(cgroups: &[&Path]) -> Self {
        Self::run(OsStr::new("sleep"), cgroups)
    }

    /// The same under a command name of any bytes.
    pub fn called(name: &[u8], cgroups: &[&Path]) -> Self {
        let directory = std::env::temp_dir().join(format!("gpumap-observe-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let program = directory.join(OsStr::from_bytes(name));
        fs::copy("/bin/sleep", &program).unwrap();
        let sleeper = Self::run(program.as_os_str(), cgroups);
        fs::remove_dir_all(directory).unwrap();
        sleeper
    }

    fn run(program: &OsStr, cgroups: &[&Path]) -> Self {
        let child = Command::new(program).arg("600").stdout(Stdio::null()).spawn().unwrap();
        let sleeper = Self(child);
        for cgroup in cgroups {
            fs::write(cgroup.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
        }
        sleeper
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `work` in a thread of uid 65534 without capabilities.
pub fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let run = move || {
        // SAFETY: the raw call changes this thread alone; the libc wrapper
        // would change all.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        work()
    };
    std::thread::spawn(run).join().unwrap()
}

/// Runs `work` in a thread that lacks one capability.
pub fn without_capability<T: Send + 'static>(
    capability: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    /// `_LINUX_CAPABILITY_VERSION_3`; pid 0 is the calling thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    let run = move || {
        // Effective, permitted, inheritable; low words, then high words.
        let mut sets = [0_u32; 6];
        // SAFETY: both arrays have the layout of version 3 and outlive the
        // calls, which concern this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capget, HEADER.as_ptr(), sets.as_mut_ptr()) }, 0);
        let word = 3 * (capability / 32) as usize;
        (word..word + 2).for_each(|at| sets[at] &= !(1 << (capability % 32)));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capset, HEADER.as_ptr(), sets.as_ptr()) }, 0);
        work()
    };
    std::thread::spawn(run).join().unwrap()
}
