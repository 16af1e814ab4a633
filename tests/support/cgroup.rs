//! Scratch cgroups that go away with the value that names them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Names of scratch cgroups start with this, then the pid.
const PREFIX: &str = "gpumap-test-";
static SWEPT: Once = Once::new();
/// The name of every lower level of a chain.
const BELOW: &str = "below";

/// Where cgroup2 is mounted first.
pub fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, at, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| at.into())
    })
}

/// A cgroup of the test's own.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    dir: File,
}

impl Cgroup {
    /// A new cgroup under the root, with a name no other process uses.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SWEPT.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        Self::make(mount().ok_or(io::ErrorKind::NotFound)?.join(name))
    }

    /// A new cgroup below this one.
    pub fn child(&self, name: &str) -> io::Result<Self> {
        Self::make(self.path.join(name))
    }

    /// `levels` cgroups, each below the one before.
    pub fn chain(levels: usize) -> io::Result<Vec<Self>> {
        let mut chain = vec![Self::new()?];
        while chain.len() < levels {
            chain.push(chain[chain.len() - 1].child(BELOW)?);
        }
        Ok(chain)
    }

    fn make(path: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        Self::open(path)
    }

    /// One that is there; it is removed with the value unless its owner did.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let dir = File::open(&path)?;
        Ok(Self { path, dir })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn dir(&self) -> &File {
        &self.dir
    }

    /// The cgroup id: the inode number.
    pub fn id(&self) -> u64 {
        self.dir.metadata().expect("stat of an open cgroup").ino()
    }

    /// Moves a process here.
    pub fn adopt(&self, pid: i32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }
}

/// Removes what test processes that were killed have left behind.
fn sweep() {
    let Some(root) = mount() else { return };
    for entry in fs::read_dir(root).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes the cgroup; children have to be dropped first, and a process that
/// has just died may keep it busy for a moment.
impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..200 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
        eprintln!("could not remove {}", self.path.display());
    }
}

/// A cgroup of the test's own with paths below it; all are removed with the
/// value.
pub struct Tree(PathBuf);

impl Tree {
    /// A new one below `root`.
    pub fn new(root: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("{PREFIX}{}-tree-{count}", std::process::id()));
        SWEPT.call_once(sweep);
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

impl Drop for Tree {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes all cgroups below one.
pub fn remove_below(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
}

/// Removes a cgroup and all below it.
fn remove(path: &Path) {
    remove_below(path);
    // A process that has just been reaped may keep it busy for a moment.
    let end = Instant::now() + Duration::from_secs(2);
    while fs::remove_dir(path).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}
