//! The engine: a library that stands between gpumap and libc and makes calls fail
//! (`engine.c`), and what it is told and tells through a shared file.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;

/// As in `engine.c`.
#[repr(C)]
struct Shared {
    calls: AtomicU64,
    number: AtomicU64,
    every_call: [u8; CALL],
    every_target: [u8; TARGET],
    error: AtomicU32,
    is_done: AtomicU32,
    pid: AtomicU32,
    call: [u8; CALL],
    target: [u8; TARGET],
    noted: AtomicU64,
    room: AtomicU64,
}

/// Room for the name of a call, and for what it is about.
const CALL: usize = 44;
const TARGET: usize = 512;

/// Room for a line about each call.
const NOTES: usize = 4 << 20;

/// The compiled library.
pub fn build(directory: &Path) -> PathBuf {
    let library = directory.join("engine.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/engine.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-w", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(gcc.status().expect("gcc").success(), "engine.c does not compile");
    library
}

/// What is to fail in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call of this number, counted from 1; 0 for none.
    Once(u64),
    /// Every call of a name about what has this name but for its numbers.
    Always(Failed),
}

/// A call that failed: what it was, and about what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    pub call: String,
    pub target: String,
}

/// What the library is to do in the next run, and what it did in the last.
pub struct Plan {
    path: PathBuf,
    shared: *mut Shared,
}

// SAFETY: the mapping is there as long as the value, and only one thread has it.
unsafe impl Send for Plan {}

impl Plan {
    pub fn new(path: PathBuf) -> Self {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let size = size_of::<Shared>() + NOTES;
        file.set_len(size as u64).unwrap();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file of this size.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), size, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self { path, shared: at.cast() }
    }

    /// The file, for `GPUMAP_FAULT`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says what fails in the next run. If it is nothing, [`Self::notes`] has a line for
    /// each call.
    pub fn set(&mut self, fault: &Fault, error: Errno) {
        let nothing = Failed { call: String::new(), target: String::new() };
        let (number, every) = match fault {
            Fault::Once(number) => (*number, &nothing),
            Fault::Always(kind) => (0, kind),
        };
        // SAFETY: a live mapping, and nobody else writes these; no program runs now.
        let (call, target) = unsafe { (&mut (*self.shared).every_call, &mut (*self.shared).every_target) };
        for (room, text) in [(call.as_mut_slice(), &every.call), (target.as_mut_slice(), &every.target)] {
            room.fill(0);
            room[..text.len()].copy_from_slice(text.as_bytes());
        }
        let shared = self.shared();
        for field in [&shared.calls, &shared.noted] {
            field.store(0, Ordering::SeqCst);
        }
        shared.is_done.store(0, Ordering::SeqCst);
        shared.error.store(error as u32, Ordering::SeqCst);
        let is_nothing = *fault == Fault::Once(0);
        shared.room.store(if is_nothing { NOTES as u64 } else { 0 }, Ordering::SeqCst);
        shared.number.store(number, Ordering::SeqCst);
    }

    /// How many calls the last run made.
    pub fn calls(&self) -> u64 {
        self.shared().calls.load(Ordering::SeqCst)
    }

    /// The call that failed, if the run came to it.
    pub fn failed(&self) -> Option<Failed> {
        let shared = self.shared();
        let text = |bytes: &[u8]| {
            CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy().into_owned()
        };
        (shared.is_done.load(Ordering::SeqCst) == 1)
            .then(|| Failed { call: text(&shared.call), target: text(&shared.target) })
    }

    /// A line for each call of the last run.
    pub fn notes(&self) -> String {
        let length = self.shared().noted.load(Ordering::SeqCst).min(NOTES as u64);
        // SAFETY: the notes lie behind the struct in the same mapping.
        let bytes = unsafe { std::slice::from_raw_parts(self.shared.add(1).cast::<u8>(), length as usize) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The kinds of calls that the last run made.
    pub fn kinds(&self) -> BTreeSet<Failed> {
        let notes = self.notes();
        let of = |line: &str| {
            let (call, target) = line.split_once(' ').unwrap_or((line, ""));
            Failed { call: call.to_owned(), target: without_numbers(target) }
        };
        notes.lines().map(of).collect()
    }

    fn shared(&self) -> &Shared {
        // SAFETY: a live mapping of at least this size; what others write is atomic
        // or was written before they ended.
        unsafe { &*self.shared }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.shared.cast(), size_of::<Shared>() + NOTES) };
        let _ = fs::remove_file(&self.path);
    }
}

impl Failed {
    /// Whether the kernel can say by this call and this error that something is not there.
    /// `ESRCH` says it of processes, `ENODEV` of cgroups and of devices in `/sys`.
    pub fn may_say_absent(&self, error: Errno) -> bool {
        match error {
            Errno::ENOENT => self.may_find_nothing(),
            Errno::ESRCH => self.call.contains("pidfd") || self.kind().starts_with("/proc/N"),
            Errno::ENODEV => self.target.contains("/sys/"),
            _ => false,
        }
    }

    /// Whether it is a call with a name or a number, or one about what may have been removed
    /// since it was opened: a process, a cgroup, a directory, a device in `/sys`. What is
    /// always there cannot be absent.
    fn may_find_nothing(&self) -> bool {
        let names = [
            "open", "stat", "readlink", "access", "readdir", "getdents", "realpath", "BY_ID", "NEXT_ID",
            "unlink",
        ];
        let by_descriptor = ["fstat", "fstat64", "fstatfs", "fstatfs64", "fdopendir"];
        let is_named = names.iter().any(|name| self.call.contains(name));
        let is_named = is_named && !by_descriptor.contains(&self.call.as_str());
        let may_go = ["/proc/", "/sys/"].iter().any(|place| self.target.contains(place));
        let may_go = may_go || self.call.starts_with("bpf(");
        let stays = self.target == "/proc" || self.target.starts_with("/proc/self");
        (is_named || may_go) && !stays
    }

    /// The kind of thing that it was about: numbers and places of this run left out.
    pub fn kind(&self) -> String {
        let target = self.target.trim_end_matches(" (deleted)");
        let target = match target.split_once("/gpus/").filter(|_| target.contains("gpumap-faults-")) {
            Some((_, rest)) => format!("GPU-ROOT/{rest}"),
            None => target.to_owned(),
        };
        without_numbers(&target)
    }
}

/// As `generalise` of `engine.c`.
fn without_numbers(target: &str) -> String {
    let mut kind = String::new();
    for letter in target.chars() {
        match letter.is_ascii_digit() {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(letter),
        }
    }
    kind
}
