//! Looks into processes in a thread of its own. A process can hold the lock of its own
//! memory map for ever (mmap(2) of a FUSE file whose server is silent), and then whoever
//! reads its map waits. Such a wait ends with this process, so a thread is enough for it:
//! one that does not answer is left to itself.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::driver::{is_driver, is_interceptor};
use crate::observe::pinned::{self, NotRead, PinnedProcess};
use crate::observe::processes::environment::live::is_c_library;
use crate::observe::processes::mapped_files::{Mapping, mappings};
use crate::observe::procfile::Stat;
use crate::sys::absence::OrAbsent as _;
use crate::sys::clock::boot_ns;
use crate::sys::dir::Dir;
use crate::sys::pidfd::KnownThread;
use crate::sys::regular_file::{NotOpened, RegularFile};
use crate::sys::stat::stat_at;

/// Bytes that are read of one process's map: some thousand libraries.
const MAPS_LIMIT: usize = 4 << 20;

/// Distinct C libraries, and drivers' libraries, of one process.
pub(super) const FILES: usize = 16;

/// How long one look may wait for a process, how long it may take on a machine that is busy,
/// and how many may wait for ever.
const PATIENCE: Duration = Duration::from_millis(500);

const LONGEST: Duration = Duration::from_secs(5);

const WAITING: usize = 32;

/// What a process has mapped.
#[derive(Debug)]
pub(super) struct ProcessFiles {
    /// Its directory in `/proc`: that of this very process, and no longer one
    /// of any when that has ended.
    pub(super) dir: Dir,
    /// When it started, in clock ticks since boot.
    pub(super) start: u64,
    /// When the look began (`CLOCK_BOOTTIME`).
    pub(super) at: u64,
    /// Its files, or why they are not known; `None` for a thread of the kernel
    /// and for what has ended.
    pub(super) seen: Option<Result<Seen, String>>,
}

/// The files of a process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Drivers' libraries.
    pub(super) drivers: Vec<ProcessFile>,
    /// Libraries that stand before a driver.
    pub(super) interceptors: Vec<ProcessFile>,
    /// C libraries.
    pub(super) libraries: Vec<ProcessFile>,
    /// Whether there are more than [`FILES`] of these.
    pub(super) more: bool,
    /// The executable, where there is no C library.
    pub(super) executable: Option<ProcessFile>,
}

/// A file of a process.
#[derive(Debug)]
pub(super) struct ProcessFile {
    /// The file, or why it is not one.
    pub(super) file: Result<RegularFile, String>,
    /// The file as the map had it.
    pub(super) mapped: Option<Mapped>,
    /// Its name, for display.
    pub(super) shown: Vec<u8>,
}

/// Device and inode number of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
}

/// Threads that look.
#[derive(Debug, Default)]
pub(super) struct Lookers {
    idle: Vec<Looker>,
    waiting: Vec<Looker>,
    /// One that looks at these already, in this order.
    ahead: Option<(Looker, VecDeque<PathBuf>)>,
}

/// A thread that looks: paths of directories in, what was found out.
#[derive(Debug)]
struct Looker {
    questions: Sender<PathBuf>,
    answers: Receiver<Result<Option<ProcessFiles>, String>>,
    thread: KnownThread,
    /// Answers to come that nobody wants any more.
    unwanted: usize,
}

impl Lookers {
    /// Begins to look at processes that are asked for next, in this order.
    pub(super) fn begin(&mut self, places: VecDeque<PathBuf>) {
        self.drop_ahead();
        let Some(looker) = self.free() else { return };
        // What a thread that has ended was not asked ahead is asked in its turn.
        if places.iter().all(|place| looker.questions.send(place.clone()).is_ok()) {
            self.ahead = Some((looker, places));
        }
    }

    /// Looks into the process of this directory in `/proc`; `None` if there is
    /// none.
    ///
    /// # Errors
    ///
    /// That it takes too long, or cannot be read.
    pub(super) fn look(&mut self, place: PathBuf) -> Result<Option<ProcessFiles>, String> {
        let (looker, rest) = self.asked(place)?;
        match looker.answer() {
            Ok(looked) => {
                if rest.is_empty() {
                    self.idle.push(looker);
                } else {
                    self.ahead = Some((looker, rest));
                }
                looked
            }
            Err(RecvTimeoutError::Timeout) => {
                self.waiting.push(Looker { unwanted: rest.len() + 1, ..looker });
                Err("reading its memory map takes too long: it holds the map's lock".to_owned())
            }
            Err(RecvTimeoutError::Disconnected) => Err("the thread that looks has ended".to_owned()),
        }
    }

    /// A thread that looks at this process, and at which others after that.
    fn asked(&mut self, place: PathBuf) -> Result<(Looker, VecDeque<PathBuf>), String> {
        if let Some((looker, mut places)) = self.ahead.take_if(|(_, places)| places.front() == Some(&place)) {
            places.pop_front();
            return Ok((looker, places));
        }
        self.drop_ahead();
        let looker = self.free().ok_or("too many others hold their maps")?;
        // The caller says that the thread has ended.
        let is_asked = looker.questions.send(place).is_ok();
        is_asked.then(|| (looker, VecDeque::new())).ok_or("the thread that looks has ended".to_owned())
    }

    /// Nobody asks for the rest of what was begun.
    fn drop_ahead(&mut self) {
        if let Some((looker, places)) = self.ahead.take() {
            self.waiting.push(Looker { unwanted: places.len(), ..looker });
        }
    }

    /// A thread that has nothing to do.
    fn free(&mut self) -> Option<Looker> {
        let (back, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .map(Looker::without_unwanted)
            .partition::<Vec<_>, _>(|looker| looker.unwanted == 0);
        self.idle.extend(back);
        self.waiting = waiting;
        self.idle.pop().or_else(|| self.start())
    }

    fn start(&self) -> Option<Looker> {
        let (questions, places) = channel::<PathBuf>();
        let (found, answers) = channel();
        let thread = KnownThread::default();
        let own = thread.clone();
        let run = move || {
            own.begin();
            // It ends when nobody listens any more.
            places.into_iter().try_for_each(|place| found.send(look(&place)).ok())
        };
        let room = self.waiting.len() < WAITING;
        let started = room.then(|| thread::Builder::new().name("look".to_owned()).spawn(run));
        // Without a thread its asker says that there are too many.
        started?.ok().map(|_| Looker { questions, answers, thread, unwanted: 0 })
    }
}

impl Looker {
    /// The next answer, or that there is none in time. A thread that is at work does not wait
    /// for the process.
    fn answer(&self) -> Result<Result<Option<ProcessFiles>, String>, RecvTimeoutError> {
        let begun = Instant::now();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let is_late = matches!(answer, Err(RecvTimeoutError::Timeout));
            if !is_late || begun.elapsed() >= LONGEST || !self.thread.is_running() {
                return answer;
            }
        }
    }

    /// Takes the answers that have come and that nobody wants.
    fn without_unwanted(mut self) -> Self {
        self.unwanted -= self.answers.try_iter().take(self.unwanted).count();
        self
    }
}

/// Looks into a process, if it is there; or why that cannot be done.
fn look(place: &Path) -> Result<Option<ProcessFiles>, String> {
    let at = boot_ns();
    let found = Dir::open(place).and_then(|dir| Ok((pinned::stat(&dir)?, dir))).or_ended();
    let found = found.map_err(|errno| format!("it cannot be looked at ({})", errno.desc()))?;
    // A place without a number is none of a process.
    let pid = place.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or_default();
    Ok(found.map(|(main, dir)| {
        let process = PinnedProcess::of_dir(dir, pid);
        let seen = seen(&process, &main);
        ProcessFiles { dir: process.into_dir(), start: main.start_time, at, seen }
    }))
}

/// Its files, or why they are not known; `None` for a thread of the kernel and for what has
/// ended.
fn seen(process: &PinnedProcess, main: &Stat) -> Option<Result<Seen, String>> {
    let asked = process.by_thread(main, |thread| {
        let seen = seen_by(thread)?;
        // What a thread shows that has gone is not what the process has.
        if thread.pid() != process.pid() {
            thread.stat()?;
        }
        Ok(seen)
    });
    let asked = match asked {
        // Its main thread may have begun to end before it was asked.
        Ok(None) if !main.is_kernel_thread() && !main.is_ending() => match process.stat() {
            Ok(now) if now.is_ending() => return seen(process, &now),
            now => now.map(|_| None),
        },
        asked => asked,
    };
    match asked {
        Ok(seen) => seen,
        Err(NotRead::Gone) => None,
        Err(why) => Some(Err(format!("it cannot be looked at ({why})"))),
    }
}

fn seen_by(thread: &PinnedProcess) -> Result<Option<Result<Seen, String>>, NotRead> {
    Ok(match thread.maps(MAPS_LIMIT) {
        Ok(text) if text.is_empty() => None,
        Ok(text) => Some(Ok(files(thread.dir(), &text))),
        Err(NotRead::Failed(_, Errno::EFBIG)) => Some(Err("its memory map has more than 4 MiB".to_owned())),
        Err(NotRead::Failed(_, errno)) => {
            Some(Err(format!("its memory map cannot be read ({})", errno.desc())))
        }
        Err(why) => return Err(why),
    })
}

fn files(dir: &Dir, text: &[u8]) -> Seen {
    let found = |mapping: &Mapping<'_>| {
        let name = CString::new(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
        let mapped = Some(Mapped { device: mapping.dev, inode: mapping.inode });
        ProcessFile { file: find(dir, &name.unwrap_or_default()), mapped, shown: mapping.path.to_vec() }
    };
    let [(drivers, _), (interceptors, _), (libraries, more)] =
        distinct(text, [is_driver, is_interceptor, is_c_library]);
    let executable =
        || ProcessFile { file: find(dir, c"exe"), mapped: None, shown: b"its executable".to_vec() };
    let executable = libraries.is_empty().then(executable);
    let [drivers, interceptors, libraries] =
        [drivers, interceptors, libraries].map(|mapped| mapped.iter().map(found).collect());
    Seen { drivers, interceptors, libraries, more, executable }
}

/// Of each of the kinds of names: the executable mappings of files with such names,
/// one for each file, and whether there are more than gpumap looks at.
fn distinct<'a, const KINDS: usize>(
    text: &'a [u8],
    kinds: [fn(&[u8]) -> bool; KINDS],
) -> [(Vec<Mapping<'a>>, bool); KINDS] {
    let mut found = [const { (Vec::new(), false) }; KINDS];
    for mapping in mappings(text).filter(|mapping| mapping.executable) {
        for ((known, more), is) in found.iter_mut().zip(kinds) {
            // On btrfs files of several subvolumes have the same number: one of the
            // same name is the same library.
            let same = |known: &Mapping<'_>| known.file() == mapping.file() && known.path == mapping.path;
            if !is(mapping.name()) || known.iter().any(same) {
                continue;
            }
            if known.len() < FILES {
                known.push(mapping);
            } else {
                *more = true;
            }
        }
    }
    found
}

fn find(process: &Dir, name: &CStr) -> Result<RegularFile, String> {
    RegularFile::find(process, name).map_err(|why| match why {
        NotOpened::Call(Errno::EACCES) => {
            "nobody but the owner of its file system (FUSE) may look at it".to_owned()
        }
        NotOpened::Call(errno) => format!("it cannot be looked at ({})", errno.desc()),
        why => why.to_string(),
    })
}

/// Whether the process of this directory has not ended, as far as is known: no name leads
/// from there to anything of another process.
pub(super) fn is_there(process: &Dir) -> bool {
    // What cannot be looked at is there until the kernel says that it is not.
    !matches!(stat_at(process, c"stat").or_ended(), Ok(None))
}

/// When a process started, in clock ticks since boot.
pub(super) fn start(process: &Dir) -> Result<u64, Errno> {
    pinned::stat(process).map(|stat| stat.start_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that this process's C library is found, and nothing of a
    /// process that does not exist.
    #[test]
    fn own() {
        let mut lookers = Lookers::default();
        let looked = lookers.look("/proc/self".into()).unwrap().unwrap();
        let seen = looked.seen.unwrap().unwrap();
        assert!(seen.libraries.len() == 1 || seen.executable.is_some(), "{seen:?}");
        assert_eq!(start(&looked.dir), Ok(looked.start));
        assert!(lookers.look("/proc/none".into()).unwrap().is_none());
        // What is no process is not known to be gone.
        assert!(lookers.look("/proc/version".into()).is_err());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dir = Dir::open(format!("/proc/{}", child.id()).as_ref()).unwrap();
        assert!(is_there(&dir));
        child.wait().unwrap();
        assert!(!is_there(&dir));
    }

    /// Make sure that each answer is of the process that was asked for, whatever
    /// was expected.
    #[test]
    fn ahead() {
        let mut lookers = Lookers::default();
        let place = |pid: &str| PathBuf::from("/proc").join(pid);
        let own = std::process::id().to_string();
        lookers.begin([place(&own), place("none"), place("1"), place(&own)].into());
        assert_eq!(lookers.look(place(&own)).unwrap().unwrap().start, start_of("self"));
        assert!(lookers.look(place("none")).unwrap().is_none());
        assert_eq!(lookers.look(place(&own)).unwrap().unwrap().start, start_of("self"));
        lookers.begin([place(&own), place("none")].into());
        lookers.begin([place("1")].into());
        assert_eq!(lookers.look(place("1")).unwrap().unwrap().start, start_of("1"));
        assert!(lookers.look(place("none")).unwrap().is_none());
        assert!(lookers.ahead.is_none());
    }

    fn start_of(pid: &str) -> u64 {
        start(&Dir::open(&PathBuf::from("/proc").join(pid)).unwrap()).unwrap()
    }

    /// Make sure that files are counted once, and that there is an end.
    #[test]
    fn many() {
        let line =
            |inode: u32| format!("{inode}000-{inode}fff r-xp 0 08:01 {inode} /x/libc.so.6\n").repeat(2);
        let text: String = (1..40).map(line).collect();
        let [(found, more), (drivers, _)] = distinct(text.as_bytes(), [is_c_library, is_driver]);
        assert_eq!((found.len(), more, drivers.len()), (FILES, true, 0));
        assert_eq!(distinct(line(7).as_bytes(), [is_c_library])[0].0.len(), 1);
    }
}
