//! Where journals and old programs are kept. Both directories and every file in them
//! belong to the user that gpumap runs as, and nobody else may write there: what is
//! otherwise is refused, because a journal decides what `--undo` puts back.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, openat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

use super::error::ApplyError;
use crate::report::RepairJournal;
use crate::sys::bpf;
use crate::sys::dir::Dir;
use crate::sys::retry::again;

/// Where journals are.
pub(super) const JOURNALS: &str = "/run/gpumap";
/// Where old programs are kept.
pub(super) const PINS: &str = "/sys/fs/bpf/gpumap";
/// The schema of a journal.
pub(super) const SCHEMA: &str = "gpumap.repair/1";
const LOCK: &CStr = c"repair.lock";
/// Journals are named by this and the id of the new program.
const PREFIX: &str = "repair-";
const ENDING: &str = ".json";
const UNFINISHED: &CStr = c".repair.unfinished";
/// `BPF_FS_MAGIC` of `linux/magic.h`.
const BPF_FS: FsType = FsType(0xcafe_4a11);
/// The longest journal that is read, in bytes; usual ones have some hundred.
const LIMIT: u64 = 4 << 20;
/// How long another gpumap may hold the lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// Write permission of others, and any permission of others.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS: u32 = 0o077;

/// The two directories, held under the lock.
pub(super) struct Store {
    journals: OwnedFd,
    pins: OwnedFd,
    lock: Option<Flock<File>>,
}

/// Gives the lock back; where that fails it goes with the process, which is about to end.
/// The lock's own destructor panics then.
impl Drop for Store {
    fn drop(&mut self) {
        if let Some(Err((kept, _))) = self.lock.take().map(Flock::unlock) {
            std::mem::forget(kept);
        }
    }
}

impl Store {
    /// Opens the directories, makes those that are missing, and waits for the lock.
    pub(super) fn open() -> Result<Self, ApplyError> {
        let run = directory(AT_FDCWD, c"/run", "/run", OTHERS_WRITE)?;
        let journals = made(&run, c"gpumap", JOURNALS, OTHERS_WRITE)?;
        let bpf = again(|| openat(AT_FDCWD, c"/sys/fs/bpf", DIRECTORY, Mode::empty()));
        let bpf = bpf.map_err(|errno| ApplyError::file("/sys/fs/bpf", errno))?;
        let kind = again(|| fstatfs(&bpf)).map_err(|errno| ApplyError::file("/sys/fs/bpf", errno))?;
        if kind.filesystem_type() != BPF_FS {
            return Err(ApplyError::Refused {
                why: "no bpf file system is mounted at /sys/fs/bpf, which has to keep the old program"
                    .to_owned(),
                needs: "mount -t bpf bpf /sys/fs/bpf",
            });
        }
        let pins = made(&bpf, c"gpumap", PINS, OTHERS)?;
        let lock = Some(lock(&journals)?);
        // Left by a gpumap that was killed while it wrote a journal: a journal with a
        // second name would be refused.
        let _none = unlinkat(&journals, UNFINISHED, UnlinkatFlags::NoRemoveDir);
        Ok(Self { journals, pins, lock })
    }

    /// Keeps the old program, and writes the journal: nothing may be changed before.
    pub(super) fn keep(&self, journal: &RepairJournal, old: BorrowedFd<'_>) -> Result<(), ApplyError> {
        bpf::pin(old, self.pins.as_fd(), &pin_name(journal.program))
            .map_err(|error| ApplyError::bpf(&journal.pin, error))?;
        self.write(journal).map_err(|errno| {
            self.forget(journal.program);
            ApplyError::file(JOURNALS, errno)
        })
    }

    /// The journal gets its name when all of it is there, and never another's.
    fn write(&self, journal: &RepairJournal) -> Result<(), Errno> {
        let text = serde_json::to_vec_pretty(journal).or(Err(Errno::EINVAL))?;
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = again(|| openat(&self.journals, UNFINISHED, flags, Mode::S_IRUSR | Mode::S_IWUSR))?;
        let mut file = File::from(file);
        let io = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
        let name = journal_name(journal.program);
        again(|| linkat(&self.journals, UNFINISHED, &self.journals, name.as_c_str(), AtFlags::empty()))?;
        unlinkat(&self.journals, UNFINISHED, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes journal and old program of a new program.
    pub(super) fn forget(&self, program: u32) {
        let _gone = unlinkat(&self.journals, journal_name(program).as_c_str(), UnlinkatFlags::NoRemoveDir);
        let _gone = unlinkat(&self.pins, pin_name(program).as_c_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// The old program of a journal.
    pub(super) fn old(&self, journal: &RepairJournal) -> Result<OwnedFd, ApplyError> {
        let name = pin_name(journal.program);
        let program = bpf::pinned(self.pins.as_fd(), &name);
        let program = program.map_err(|error| ApplyError::bpf(&journal.pin, error))?;
        // What is pinned may be a map or a link just as well.
        let link = format!("/proc/self/fd/{}", program.as_raw_fd());
        let kind = again(|| std::fs::read_link(&link))
            .map_err(|error| ApplyError::refused(format!("{link}: {error}")))?;
        if kind.as_os_str() == "anon_inode:bpf-prog" {
            Ok(program)
        } else {
            Err(ApplyError::refused(format!("{} is no program", journal.pin)))
        }
    }

    /// The ids of the new programs of all journals.
    pub(super) fn journals(&self) -> Result<Vec<u32>, ApplyError> {
        let mut ids =
            numbers(&self.journals, PREFIX, ENDING).map_err(|errno| ApplyError::file(JOURNALS, errno))?;
        ids.sort_unstable();
        Ok(ids)
    }

    /// Removes old programs that no journal names: gpumap ended between the two.
    pub(super) fn sweep(&self) {
        // Without all of both lists nothing is known to be left over.
        let (Ok(journals), Ok(pins)) = (self.journals(), numbers(&self.pins, PREFIX, "")) else { return };
        for id in pins {
            if !journals.contains(&id) {
                let _gone = unlinkat(&self.pins, pin_name(id).as_c_str(), UnlinkatFlags::NoRemoveDir);
            }
        }
    }

    /// Reads the journal of a new program.
    pub(super) fn read(&self, program: u32) -> Result<RepairJournal, ApplyError> {
        let path = journal_path(program);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let name = journal_name(program);
        let opened = again(|| openat(&self.journals, name.as_c_str(), flags, Mode::empty()));
        let file = opened.map_err(|errno| ApplyError::file(&path, errno))?;
        let stat = again(|| fstat(&file)).map_err(|errno| ApplyError::file(&path, errno))?;
        let is_file = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT) == SFlag::S_IFREG;
        if !is_file || stat.st_nlink != 1 {
            return Err(ApplyError::refused(format!(
                "{path} is no file of its own: gpumap did not write it"
            )));
        }
        own(&stat, &path, OTHERS)?;
        let bad = |why: String| ApplyError::refused(format!("{path} is no journal of a repair: {why}"));
        let mut text = Vec::new();
        File::from(file).take(LIMIT).read_to_end(&mut text).map_err(|error| bad(error.to_string()))?;
        let journal: RepairJournal = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if journal.schema != SCHEMA || journal.program != program || journal.pin != pin_path(program) {
            return Err(bad("it does not say of itself what its name says".to_owned()));
        }
        Ok(RepairJournal { path, ..journal })
    }
}

/// The id of the new program that the name of a journal has: a path in
/// [`JOURNALS`], or a mere name.
pub(super) fn program_of(name: &std::path::Path) -> Option<u32> {
    let is_there = name.parent().is_none_or(|dir| dir.as_os_str().is_empty() || dir.as_os_str() == JOURNALS);
    let file = name.file_name()?.to_str()?;
    let number = file.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
    number.parse().ok().filter(|id: &u32| is_there && id.to_string() == number)
}

/// The path of a journal.
pub(super) fn journal_path(program: u32) -> String {
    format!("{JOURNALS}/{PREFIX}{program}{ENDING}")
}

/// The path of an old program.
pub(super) fn pin_path(program: u32) -> String {
    format!("{PINS}/{PREFIX}{program}")
}

fn journal_name(program: u32) -> CString {
    CString::new(format!("{PREFIX}{program}{ENDING}")).unwrap_or_default()
}

fn pin_name(program: u32) -> CString {
    CString::new(format!("{PREFIX}{program}")).unwrap_or_default()
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Opens a directory that nobody else may have these permissions for.
fn directory<Fd: std::os::fd::AsFd>(
    at: Fd,
    name: &CStr,
    path: &str,
    refused: u32,
) -> Result<OwnedFd, ApplyError> {
    let opened = again(|| openat(&at, name, DIRECTORY, Mode::empty()));
    let dir = opened.map_err(|errno| match errno {
        Errno::ELOOP | Errno::ENOTDIR => ApplyError::refused(format!("{path} is no directory")),
        errno => ApplyError::file(path, errno),
    })?;
    let stat = again(|| fstat(&dir)).map_err(|errno| ApplyError::file(path, errno))?;
    own(&stat, path, refused)?;
    Ok(dir)
}

/// The same, made if it is not there.
fn made(at: &OwnedFd, name: &CStr, path: &str, refused: u32) -> Result<OwnedFd, ApplyError> {
    match again(|| mkdirat(at, name, Mode::S_IRWXU)) {
        Ok(()) | Err(Errno::EEXIST) => directory(at, name, path, refused),
        Err(errno) => Err(ApplyError::file(path, errno)),
    }
}

/// What to do where another user made gpumap's directory first.
const REMOVE: &str = "remove it as root (rmdir of a directory), and mount that file system with mode=700: \
                      anybody may \
                      make it in one of mode 1777";

/// Makes sure that a file belongs to gpumap's user and that others lack permissions.
fn own(stat: &FileStat, path: &str, refused: u32) -> Result<(), ApplyError> {
    if stat.st_uid != geteuid().as_raw() {
        let needs = if stat.st_uid == 0 { "run as root" } else { REMOVE };
        return Err(ApplyError::Refused { why: format!("{path} belongs to uid {}", stat.st_uid), needs });
    }
    if stat.st_mode & refused != 0 {
        return Err(ApplyError::refused(format!(
            "{path} has the mode {:o}, so that others may use it too",
            stat.st_mode & 0o7777
        )));
    }
    Ok(())
}

fn lock(journals: &OwnedFd) -> Result<Flock<File>, ApplyError> {
    let path = format!("{JOURNALS}/repair.lock");
    let flags = OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = again(|| openat(journals, LOCK, flags, Mode::S_IRUSR | Mode::S_IWUSR));
    let file = file.map_err(|errno| ApplyError::file(&path, errno))?;
    own(&again(|| fstat(&file)).map_err(|errno| ApplyError::file(&path, errno))?, &path, OTHERS)?;
    let mut file = File::from(file);
    let began = Instant::now();
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((file, Errno::EWOULDBLOCK | Errno::EINTR)) if began.elapsed() < PATIENCE => file,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(ApplyError::refused("another gpumap repair is at work (it holds the lock)"));
            }
            Err((_, errno)) => return Err(ApplyError::file(&path, errno)),
        };
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The numbers in the names of a directory's files.
fn numbers(dir: &OwnedFd, prefix: &str, ending: &str) -> Result<Vec<u32>, Errno> {
    let number = |name: &OsStr| {
        // gpumap gives no such names.
        let text = name.to_str()?;
        let number = text.strip_prefix(prefix)?.strip_suffix(ending)?;
        number.parse().ok().filter(|id: &u32| id.to_string() == number)
    };
    let mut found = Vec::new();
    let own = again(|| openat(dir, c".", DIRECTORY, Mode::empty()))?;
    Dir::from(File::from(own)).names(|name| {
        found.extend(number(name));
        true
    })?;
    Ok(found)
}

/// For messages about what is kept.
pub(super) fn kept(program: u32) -> String {
    format!("{} and {PINS} keep what is needed to undo it", journal_path(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Make sure that a directory of another user is refused, with what to do about it, and is
    /// left as it is.
    #[test]
    fn directory_of_another_user() {
        if !geteuid().is_root() {
            return;
        }
        let place = std::env::temp_dir().join(format!("gpumap-store-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        std::fs::create_dir(place.join("gpumap")).unwrap();
        std::os::unix::fs::chown(place.join("gpumap"), Some(61_234), None).unwrap();
        let fs = OwnedFd::from(File::open(&place).unwrap());
        let refused = made(&fs, c"gpumap", "/sys/fs/bpf/gpumap", OTHERS);
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(place.join("gpumap")).unwrap());
        std::fs::remove_dir_all(&place).unwrap();
        let Err(ApplyError::Refused { why, needs }) = refused else { panic!("{refused:?}") };
        assert_eq!(why, "/sys/fs/bpf/gpumap belongs to uid 61234");
        assert!(needs.contains("rmdir") && needs.contains("mode=700"), "{needs}");
        assert_eq!(owner, 61_234);
    }

    /// Make sure that only names of journals are taken for such.
    #[test]
    fn names_of_journals() {
        for good in ["/run/gpumap/repair-77.json", "repair-77.json"] {
            assert_eq!(program_of(Path::new(good)), Some(77), "{good}");
        }
        for bad in [
            "/tmp/repair-77.json",
            "/run/gpumap/../x/repair-77.json",
            "./x/repair-77.json",
            "repair-077.json",
            "repair-+7.json",
            "repair-77",
            "repair-.json",
            "77",
            "",
            "..",
        ] {
            assert_eq!(program_of(Path::new(bad)), None, "{bad}");
        }
    }
}
