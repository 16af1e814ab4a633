//! The machine that tests share: whether they can run on it, and which of them
//! may run at the same time.
//!
//! Cargo runs the tests of a binary in several threads, and a developer may run
//! the tests of several checkouts: all of them meet at two files. Each test that
//! needs the kernel begins with [`shared`] or [`exclusive`] and keeps the value
//! until it ends.

use std::cell::RefCell;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::OnceLock;

use nix::fcntl::{Flock, FlockArg};

pub use super::skips::skip;
use super::{bpf, cgroup};

/// Locked by each test as long as it uses the machine.
const USED: &str = "/run/lock/gpumap-tests";
/// Locked while a test waits for the other file, so that tests get it in turn: a
/// test that wants the machine for itself would otherwise wait for ever.
const TURN: &str = "/run/lock/gpumap-tests-turn";

thread_local! {
    /// What the test of this thread holds already.
    static HELD: RefCell<Weak<Lock>> = const { RefCell::new(Weak::new()) };
}

struct Lock {
    is_exclusive: bool,
    _used: Flock<File>,
}

impl Lock {
    /// Waits until the machine is free for this use.
    fn wait(is_exclusive: bool) -> Self {
        let _turn = flock(TURN, FlockArg::LockExclusive);
        let kind = if is_exclusive { FlockArg::LockExclusive } else { FlockArg::LockShared };
        Self { is_exclusive, _used: flock(USED, kind) }
    }
}

fn flock(path: &str, kind: FlockArg) -> Flock<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
    Flock::lock(file, kind).unwrap_or_else(|(_, error)| panic!("{path}: {error}"))
}

/// The right to use the machine until the last copy is dropped; leads to the
/// mount point of cgroup2. It stays in the thread that took it.
#[derive(Clone)]
pub struct Host {
    mount: PathBuf,
    _lock: Rc<Lock>,
}

/// For tests that make their own cgroups, programs and processes and are not
/// disturbed by those of others. `None`, and a line that says why, where the
/// tests cannot run; with `GPUMAP_REQUIRE_ROOT=1` that is a failure.
pub fn shared() -> Option<Host> {
    let mount = available()?;
    let lock = held().unwrap_or_else(|| hold(Lock::wait(false)));
    Some(Host { mount, _lock: lock })
}

/// For tests that disturb others or are disturbed by them: they change kernel
/// settings, compare everything that is loaded, need both processors, or have
/// processes that answer nobody. No other test that asked runs meanwhile.
pub fn exclusive() -> Option<Host> {
    let mount = available()?;
    let lock = held().unwrap_or_else(|| hold(Lock::wait(true)));
    assert!(lock.is_exclusive, "the test shares the machine already");
    Some(Host { mount, _lock: lock })
}

fn held() -> Option<Rc<Lock>> {
    HELD.with_borrow(Weak::upgrade)
}

fn hold(lock: Lock) -> Rc<Lock> {
    let lock = Rc::new(lock);
    HELD.set(Rc::downgrade(&lock));
    lock
}

impl Deref for Host {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.mount
    }
}

/// The mount point of cgroup2, where the tests can run.
fn available() -> Option<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(find) {
        Ok(mount) => Some(mount.clone()),
        Err(why) => {
            skip(why);
            None
        }
    }
}

fn find() -> Result<PathBuf, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("not root".into());
    }
    let mount = cgroup::mount().ok_or("no cgroup2 mount")?;
    let probe = mount.join(format!("gpumap-test-probe-{}", std::process::id()));
    fs::create_dir(&probe)
        .and_then(|()| fs::remove_dir(&probe))
        .map_err(|error| format!("cgroup2 is not writable: {error}"))?;
    bpf::probe().map_err(|error| format!("bpf(2) cannot load a device program: {error}"))?;
    Ok(mount)
}

/// Whether a program is found.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
