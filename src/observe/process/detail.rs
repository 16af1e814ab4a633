//! What one process asks for and holds, all from one address space: a process
//! that executes another program meanwhile is read again.

use nix::errno::Errno;

use super::super::procfile::parse_stat;
use super::files::Files;
use super::memory::Memory;
use super::places::{self, NoPlace};
use super::refusals::{Kind, Refusals};
use super::{STAT_LIMIT, at_exec, devices, live};
use crate::observation::{Answer, Detail, Environment, Text};
use crate::sys::dir::Dir;

/// Bytes read of `auxv` and `maps`, and kept of `cmdline`.
const AUXV_LIMIT: usize = 4 << 10;
const MAPS_LIMIT: usize = 4 << 20;
const TITLE_LIMIT: usize = 256;
/// The name of Slurm's daemon of a step, with which its title begins
/// (`slurmstepd: [4711.batch]`).
pub(super) const STEP_DAEMON: &[u8] = b"slurmstepd";
/// Times that a process is read.
const TRIES: usize = 3;

const ENDED: &str = "it has ended and waits for its parent";
const EXITING: &str = "it is ending: its memory is gone";
const EXECUTED: &str = "it executed another program while it was read";

/// The process went while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// Reads details, one process after another.
#[derive(Debug)]
pub(super) struct Looker<'a> {
    refusals: &'a Refusals,
    files: Files,
    text: Vec<u8>,
    maps: Vec<u8>,
}

/// The auxiliary vector, which has random bytes' addresses in it: another
/// one is that of another program.
type Auxv = Result<Vec<u8>, Errno>;

impl<'a> Looker<'a> {
    pub(super) fn new(refusals: &'a Refusals) -> Self {
        Self { refusals, files: Files::default(), text: Vec::new(), maps: Vec::new() }
    }

    /// Looks into the process with this directory. `titled` is whether its title
    /// is kept, `ended` whether its main thread has: other threads may go on, and hold what it held.
    pub(super) fn look(&mut self, process: &Dir, titled: bool, mut ended: bool) -> Result<Detail, Gone> {
        let mut last = remains();
        for _ in 0..TRIES {
            let thread = if ended { self.living_thread(process) } else { None };
            let Some(dir) = thread.as_ref().or((!ended).then_some(process)) else { return Ok(remains()) };
            let auxv = auxv(dir);
            let mut memory = Memory::open(dir);
            last = self.once(dir, titled, &auxv, &mut memory);
            let whole = memory.map_or(true, |memory| memory.is_alive()) && self::auxv(dir) == auxv;
            if whole && !self.is_executing(dir, &last) {
                return Ok(last);
            }
            ended = self.has_ended(process)?;
        }
        let executed = || Answer::Missing(EXECUTED.to_owned());
        Ok(Detail { at_exec: executed(), live: executed(), ..last })
    }

    /// Whether the new program's environment is yet to be set up, and only
    /// looks empty: the kernel does not know its end.
    fn is_executing(&mut self, dir: &Dir, detail: &Detail) -> bool {
        let empty = detail.at_exec.known().is_some_and(|at_exec| *at_exec == Environment::default());
        empty
            && dir.read_piece(c"stat", &mut self.text, STAT_LIMIT).is_ok()
            && parse_stat(&self.text).is_some_and(|stat| stat.env_end == 0)
    }

    fn once(&mut self, dir: &Dir, titled: bool, auxv: &Auxv, memory: &mut Result<Memory, Errno>) -> Detail {
        let title = if titled { self.title(dir) } else { Text::default() };
        self.read_maps(dir);
        let mut detail = Detail { title, exe: self.exe(dir), ..remains() };
        detail.devices = devices::read(dir, &self.maps, &mut self.files, self.refusals);
        // Every program has one, and only an exiting process has lost it.
        if auxv.as_ref().is_ok_and(Vec::is_empty) {
            detail.at_exec = Answer::Missing(EXITING.to_owned());
            detail.live = Answer::Missing(EXITING.to_owned());
            return detail;
        }
        detail.at_exec = at_exec::read(dir, &mut self.text, self.refusals);
        detail.live = match (auxv, memory) {
            (Ok(auxv), Ok(memory)) => self.live(dir, auxv, memory),
            (Err(errno), _) => Answer::Missing(self.refusals.why(Kind::Live, *errno)),
            (_, Err(errno)) => Answer::Missing(self.refusals.why(Kind::Live, *errno)),
        };
        detail
    }

    fn live(&mut self, dir: &Dir, auxv: &[u8], memory: &mut Memory) -> Answer<Environment> {
        match places::find(dir, &self.maps, auxv, &mut self.files) {
            Ok(places) => live::read(memory, &places),
            Err(NoPlace::Errno(errno)) => Answer::Missing(self.refusals.why(Kind::Image, errno)),
            Err(NoPlace::Reason(why)) => Answer::Missing(why),
        }
    }

    /// Nothing is mapped as far as anyone can tell where this is refused; then
    /// memory is refused as well, and told.
    fn read_maps(&mut self, dir: &Dir) {
        match dir.read_into(c"maps", &mut self.maps, MAPS_LIMIT) {
            Err(Errno::EFBIG) => self.refusals.count(Kind::ManyMappings),
            Err(_) => self.maps.clear(),
            Ok(()) => {}
        }
    }

    fn exe(&self, dir: &Dir) -> Answer<Text> {
        match dir.link(c"exe") {
            Ok(path) => Answer::Known(path.into()),
            Err(errno) => Answer::Missing(self.refusals.why(Kind::Exe, errno)),
        }
    }

    /// The title of a step's daemon. Other arguments may be secrets, and are not
    /// kept.
    fn title(&mut self, dir: &Dir) -> Text {
        match dir.read_into(c"cmdline", &mut self.text, TITLE_LIMIT) {
            Ok(()) | Err(Errno::EFBIG) => {}
            Err(_) => return Text::default(),
        }
        let text = self.text.get(..TITLE_LIMIT).unwrap_or(&self.text);
        let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let title = text.get(..end).unwrap_or_default();
        if title.starts_with(STEP_DAEMON) { title.into() } else { Text::default() }
    }

    fn has_ended(&mut self, dir: &Dir) -> Result<bool, Gone> {
        dir.read_piece(c"stat", &mut self.text, STAT_LIMIT).map_err(|_| Gone)?;
        Ok(parse_stat(&self.text).ok_or(Gone)?.has_ended())
    }

    /// The directory of a thread that goes on without its main thread.
    fn living_thread(&mut self, dir: &Dir) -> Option<Dir> {
        let tasks = dir.child(c"task").ok()?;
        let mut found = None;
        let visit = |name: &std::ffi::CStr, _| {
            let thread = tasks.child(name).ok();
            found = thread.filter(|thread| self.has_ended(thread) == Ok(false));
            found.is_none()
        };
        tasks.numbers(c".", visit).ok()?;
        found
    }
}

fn auxv(dir: &Dir) -> Auxv {
    let mut text = Vec::new();
    dir.read_piece(c"auxv", &mut text, AUXV_LIMIT).map(|()| text)
}

/// What is left of a process that has ended: it holds nothing.
fn remains() -> Detail {
    let ended = || Answer::Missing(ENDED.to_owned());
    Detail {
        title: Text::default(),
        exe: Answer::Missing(ENDED.to_owned()),
        stepd_sockets: Vec::new(),
        at_exec: ended(),
        live: ended(),
        devices: Answer::default(),
    }
}
