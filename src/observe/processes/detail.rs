//! Reads what one process asks for and holds, all from one address space. A
//! process that executes another program meanwhile is read again.

use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::descriptor_tables::DescriptorTables;
use super::devices::{HeldDevices, mapped};
use super::environment::at_exec;
use super::environment::live::{self, NoEnviron};
use super::helpers::Depth;
use super::mapped_files::MappedFiles;
use super::memory::{self, Memory, NoMemory};
use super::refusals::{ReadKind, Refusals};
use super::step_daemon;
use super::vgpu::{Looked, TraceReader};
use crate::observation::{Answer, Detail, Environment, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::procfile::Stat;
use crate::sys::absence::is_end;
use crate::sys::dir::Dir;

/// Bytes read of `auxv` and `maps`.
const AUXV_LIMIT: usize = 4 << 10;

const MAPS_LIMIT: usize = 4 << 20;

/// How long to wait before each reading of a process: one that executes another program has done
/// so soon.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
];

/// How long its descriptors may take.
const TIME: Duration = Duration::from_secs(2);

const ENDED: &str = "it has ended and waits for its parent";

const EXITING: &str = "it is ending: its memory is gone";

const EXECUTED: &str = "it executed another program while it was read";

const LONG: &str = "its list of mappings is too long";

/// A process to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessToRead<'a> {
    pub(super) process: &'a PinnedProcess,
    /// What `stat` says of its main thread. Other threads may run on and hold what it
    /// held.
    pub(super) main: &'a Stat,
    /// Whether its title is kept.
    pub(super) titled: bool,
    /// Whether it has other threads.
    pub(super) several: bool,
    pub(super) depth: Depth,
    pub(super) parts: Parts,
}

/// What is read of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Everything.
    All,
    /// Its current environment: no descriptor is looked at.
    Environment,
}

/// Reads details, one process after another.
#[derive(Debug)]
pub(super) struct DetailReader<'a> {
    refusals: &'a Refusals,
    /// Whether this `/proc` has the pids that system calls use.
    is_own: bool,
    files: MappedFiles,
    traces: TraceReader,
    text: Vec<u8>,
    maps: Vec<u8>,
    /// Why the mappings were not read.
    no_maps: Option<Errno>,
}

/// The auxiliary vector. It holds the address of random bytes, so that every
/// executed program has another one.
type Auxv = Result<Vec<u8>, Errno>;

/// The addresses of code, arguments and environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Areas {
    code: u64,
    arguments: (u64, u64),
    environment: (u64, u64),
}

impl<'a> DetailReader<'a> {
    pub(super) fn new(refusals: &'a Refusals, is_own: bool) -> Self {
        Self {
            refusals,
            is_own,
            files: MappedFiles::default(),
            traces: TraceReader::default(),
            text: Vec::new(),
            maps: Vec::new(),
            no_maps: None,
        }
    }

    /// Reads a process.
    pub(super) fn read(&mut self, subject: &ProcessToRead<'_>) -> Result<Detail, NotRead> {
        let (mut last, mut later) = (None, None);
        for pause in PAUSES {
            thread::sleep(pause);
            let main = later.as_ref().unwrap_or(subject.main);
            match subject.process.by_thread(main, |thread| self.by_one_thread(subject, main, thread)) {
                Ok((detail, true)) => return Ok(detail),
                Ok((detail, false)) => last = Some(detail),
                Err(NotRead::Fleeting) => last = None,
                Err(why) => return Err(why),
            }
            later = Some(subject.process.stat()?);
        }
        let Some(last) = last else {
            let why = NotRead::Fleeting.to_string();
            return Ok(match subject.parts {
                Parts::All => self.outside(subject, subject.process, &why),
                Parts::Environment => Detail { live: Answer::Missing(why), ..remains() },
            });
        };
        let executed = || Answer::Missing(EXECUTED.to_owned());
        Ok(Detail { at_exec: executed(), live: executed(), ..last })
    }

    /// The current environment of a process.
    pub(super) fn environment(
        &mut self,
        process: &PinnedProcess,
        main: &Stat,
    ) -> Result<Answer<Environment>, NotRead> {
        let (depth, parts) = (Depth::Full, Parts::Environment);
        let subject = ProcessToRead { process, main, titled: false, several: false, depth, parts };
        self.read(&subject).map(|detail| detail.live)
    }

    /// Reads a process through one thread, and whether it is all of one program. An error
    /// where that is another thread than the main one, and has ended.
    fn by_one_thread(
        &mut self,
        subject: &ProcessToRead<'_>,
        main: &Stat,
        thread: &PinnedProcess,
    ) -> Result<(Detail, bool), NotRead> {
        let is_main = thread.pid() == subject.process.pid();
        if is_main && main.has_ended() {
            return Ok((remains(), true));
        }
        if let Some(why) = subject.depth.refusal() {
            return Ok((self.outside(subject, thread, why), true));
        }
        let auxv = auxv(thread.dir());
        let mut memory = Memory::open(thread.dir());
        // After the memory was opened: these are of its program, or it is dead.
        let areas = areas(thread)?;
        let detail = match subject.parts {
            Parts::All => self.once(subject, thread, &auxv, areas, &mut memory)?,
            Parts::Environment => self.environment_once(thread, &auxv, &mut memory),
        };
        let whole = memory::is_alive(&memory) && self::auxv(thread.dir()) == auxv;
        // It ended meanwhile: the next one is asked.
        if !whole && !is_main && thread.stat()?.is_ending() {
            return Err(NotRead::Gone);
        }
        let is_known = detail.at_exec.known().is_some() || detail.live.known().is_some();
        if is_known {
            let is_whole = whole && !is_executing(thread, areas)?;
            return Ok((detail, is_whole));
        }
        // It may have begun to end before the first look.
        let now = thread.stat()?;
        let goes_on = is_main && subject.process.other_thread(&now)?.is_some();
        Ok((detail, whole && !goes_on))
    }

    fn once(
        &mut self,
        subject: &ProcessToRead<'_>,
        thread: &PinnedProcess,
        auxv: &Auxv,
        areas: Areas,
        memory: &mut Result<Memory, NoMemory>,
    ) -> Result<Detail, NotRead> {
        let dir = thread.dir();
        let mut detail = Detail { exe: self.exe(dir), ..remains() };
        if let (true, Ok(memory)) = (subject.titled, &mut *memory) {
            detail.title = step_daemon::of_daemon(memory, areas.arguments, areas.environment.1);
        }
        self.read_maps(dir);
        let devices = self.devices(subject, thread, &mut detail, true);
        if is_exiting(auxv) {
            detail.at_exec = Answer::Missing(EXITING.to_owned());
            detail.live = Answer::Missing(EXITING.to_owned());
            return Ok(detail);
        }
        // Without memory nothing is read there; the environments say why.
        if let Ok(memory) = memory {
            memory.avoid(devices);
        }
        detail.at_exec = at_exec::read(memory, areas.environment, &mut self.text, self.refusals);
        detail.live = self.live(dir, auxv, memory);
        // A living process has mappings: none were read where there are none.
        let cut = self.maps.len() > MAPS_LIMIT || self.maps.is_empty();
        let looked = Looked { process: thread, maps: &self.maps, cut, detail: &detail };
        // Without memory the library's variables are not known.
        detail.vgpu = self.traces.read(looked, memory.as_mut().ok())?;
        Ok(detail)
    }

    /// Reads the current environment alone.
    fn environment_once(
        &mut self,
        thread: &PinnedProcess,
        auxv: &Auxv,
        memory: &mut Result<Memory, NoMemory>,
    ) -> Detail {
        self.read_maps(thread.dir());
        if is_exiting(auxv) {
            return Detail { live: Answer::Missing(EXITING.to_owned()), ..remains() };
        }
        // Without memory nothing is read there; the environments say why.
        if let Ok(memory) = memory {
            let held = &mut HeldDevices::default();
            memory.avoid(mapped(thread.dir(), &self.maps, &mut self.files, self.refusals, held));
        }
        Detail { live: self.live(thread.dir(), auxv, memory), ..remains() }
    }

    /// Reads what takes neither its memory nor the lock of its memory.
    fn outside(&mut self, subject: &ProcessToRead<'_>, thread: &PinnedProcess, why: &str) -> Detail {
        let unread = || Answer::Missing(why.to_owned());
        let mut detail =
            Detail { exe: self.exe(thread.dir()), at_exec: unread(), live: unread(), ..remains() };
        self.refusals.passed_over(subject.depth);
        if subject.depth == Depth::Minimal {
            detail.devices = Answer::Missing(why.to_owned());
        } else {
            self.devices(subject, thread, &mut detail, false);
        }
        detail
    }

    /// Fills in the devices, those that are mapped too if `inside`. Returns where
    /// in memory they are.
    fn devices(
        &mut self,
        subject: &ProcessToRead<'_>,
        thread: &PinnedProcess,
        detail: &mut Detail,
        inside: bool,
    ) -> Vec<(u64, u64)> {
        let several = subject.several || subject.main.is_ending();
        let process = subject.process.dir();
        let tables = DescriptorTables { process, first: thread, several, is_own: self.is_own };
        let mut held = match tables.read(Instant::now() + TIME) {
            Ok(held) => held,
            Err(errno) => {
                detail.devices = Answer::Missing(self.refusals.why(ReadKind::Devices, errno));
                let held = &mut HeldDevices::default();
                return mapped(thread.dir(), &self.maps, &mut self.files, self.refusals, held);
            }
        };
        let mut places = Vec::new();
        if inside {
            places = mapped(thread.dir(), &self.maps, &mut self.files, self.refusals, &mut held);
            if self.maps.len() > MAPS_LIMIT {
                held.cut(LONG);
            }
            if let Some(errno) = self.no_maps {
                held.cut(format!("what it has mapped cannot be read: {errno}"));
            }
        } else {
            held.cut("what it has mapped is not known: its memory was not read");
        }
        let (devices, cut) = held.all();
        detail.devices = Answer::Known(devices);
        detail.devices_cut = cut;
        places
    }

    fn live(&mut self, dir: &Dir, auxv: &Auxv, memory: &mut Result<Memory, NoMemory>) -> Answer<Environment> {
        let (auxv, memory) = match (auxv, memory) {
            (Ok(auxv), Ok(memory)) => (auxv, memory),
            (Err(errno), _) => return Answer::Missing(self.refusals.why(ReadKind::Live, *errno)),
            (_, Err(no)) => return Answer::Missing(self.refusals.why(ReadKind::Live, no.errno)),
        };
        if let Some(errno) = self.no_maps {
            return Answer::Missing(self.refusals.why(ReadKind::Live, errno));
        }
        let found = match live::find(dir, &self.maps, auxv, &mut self.files) {
            Ok(places) => live::read(memory, &places),
            Err(NoEnviron::Errno(errno)) => Answer::Missing(self.refusals.why(ReadKind::Image, errno)),
            Err(NoEnviron::Reason(why)) => Answer::Missing(why),
        };
        if let Some(errno) = memory.failure() {
            self.refusals.failed(ReadKind::Live, errno);
        }
        found
    }

    /// Reads the mappings.
    fn read_maps(&mut self, dir: &Dir) {
        let read = dir.read_into(c"maps", &mut self.maps, MAPS_LIMIT);
        self.no_maps = match read {
            Ok(()) | Err(Errno::EFBIG) => None,
            Err(errno) => Some(errno).filter(|errno| !is_end(*errno)),
        };
        match read {
            Ok(()) => {}
            Err(Errno::EFBIG) => self.refusals.count(ReadKind::ManyMappings),
            // `no_maps` has the reason.
            Err(_) => self.maps.clear(),
        }
    }

    fn exe(&self, dir: &Dir) -> Answer<Text> {
        match dir.link(c"exe") {
            Ok(path) => Answer::Known(path.into()),
            Err(errno) => Answer::Missing(self.refusals.why(ReadKind::Exe, errno)),
        }
    }
}

fn areas(process: &PinnedProcess) -> Result<Areas, NotRead> {
    let stat = process.stat()?;
    Ok(Areas { code: stat.starts.0, arguments: stat.arguments, environment: stat.environment })
}

/// Whether the kernel had not set up the environment of a new program yet when
/// these areas were asked for. It looks empty then, has no end for a moment,
/// and the program's code has no beginning until it is set up
/// (`load_elf_binary` in `fs/binfmt_elf.c`).
fn is_executing(process: &PinnedProcess, before: Areas) -> Result<bool, NotRead> {
    if before.environment.0 != before.environment.1 {
        return Ok(false);
    }
    let now = areas(process)?;
    Ok(now != before || now.code == 0 || now.environment.1 == 0)
}

fn auxv(dir: &Dir) -> Auxv {
    let mut text = Vec::new();
    dir.read_piece(c"auxv", &mut text, AUXV_LIMIT).map(|()| text)
}

/// Every program has an auxiliary vector, and only an exiting process has lost
/// its.
fn is_exiting(auxv: &Auxv) -> bool {
    // One whose vector cannot be read is not known to be exiting: its environment says why.
    auxv.as_ref().is_ok_and(Vec::is_empty)
}

/// The detail of a process that has ended: it holds nothing.
fn remains() -> Detail {
    let ended = || Answer::Missing(ENDED.to_owned());
    Detail {
        title: Text::default(),
        exe: Answer::Missing(ENDED.to_owned()),
        stepd_sockets: Vec::new(),
        at_exec: ended(),
        live: ended(),
        devices: Answer::default(),
        devices_cut: None,
        vgpu: None,
    }
}
