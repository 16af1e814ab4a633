//! The loop of the screen: keys, signals and new moments in, drawings out, and why a cell is
//! as it is when the user asks. It draws when something changed and sleeps else.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use super::terminal::{self, Ask, Terminal};
use crate::analyse::{self, Subject, TimeLimit};
use crate::commands::invocation::Failure;
use crate::model::{Device, DeviceType, GpuKey, ProblemCode, Request};
use crate::observation::{Observation, Text};
use crate::render::Theme;
use crate::report::{Gpu, MatrixRow, MigInstance, Proof};
use crate::top::{CellPosition, Content, Effect, Extent, Key, Keys, Moment, State};

/// How long the rest of a key's bytes may take. Terminals send them at once; ssh may
/// part them.
const REST: u8 = 30;

/// A moment, with the facts that it was made from.
#[derive(Clone)]
pub(super) struct Shown {
    pub moment: Moment,
    pub facts: Arc<Observation>,
}

/// Where moments come from.
pub(super) trait Source {
    /// Readable when there is a new one.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// The newest one that was not taken yet.
    fn newest(&mut self) -> Option<Shown>;
    /// The saved one after the one that is shown, or before it.
    fn step(&mut self, forward: bool) -> Result<Option<Shown>, Failure>;
    /// Whether no more will come, so that the screen has to end.
    fn is_over(&self) -> bool;
}

/// The loop.
pub(super) struct Screen<'s> {
    terminal: Terminal,
    theme: Theme,
    signals: &'s SignalFd,
    state: State,
    facts: Arc<Observation>,
    keys: Keys,
    extent: Extent,
    /// Whether the terminal takes no output: the last drawing was not finished.
    is_stalled: bool,
}

/// What has happened.
#[derive(Default)]
struct Happened {
    pressed: bool,
    signalled: bool,
    lost: bool,
    /// There is room for output again, where that was missing.
    has_room: bool,
}

impl<'s> Screen<'s> {
    pub(super) fn new(
        terminal: Terminal,
        theme: Theme,
        signals: &'s SignalFd,
        state: State,
        facts: Arc<Observation>,
    ) -> Self {
        let (keys, extent) = (Keys::default(), Extent::default());
        Self { terminal, theme, signals, state, facts, keys, extent, is_stalled: false }
    }

    /// Runs until the user or a signal ends it.
    pub(super) fn run(mut self, source: &mut dyn Source) -> Result<(), Failure> {
        self.draw().map_err(lost)?;
        loop {
            let happened = self.wait(source.fd()).map_err(|errno| lost(errno.into()))?;
            if happened.lost {
                return Err(lost(Errno::EIO.into()));
            }
            if happened.signalled && self.heed().map_err(lost)? || source.is_over() {
                return Ok(());
            }
            if happened.pressed && self.press(source)? {
                return Ok(());
            }
            if !self.state.is_frozen()
                && let Some(shown) = source.newest()
            {
                self.show(shown);
            }
            if happened.has_room {
                self.is_stalled = false;
                self.unless_stalled(Terminal::retake).map_err(lost)?;
            }
            self.draw().map_err(lost)?;
        }
    }

    /// Does something with the terminal, and notes if that takes no output. Then it is
    /// drawn anew when there is room again.
    fn unless_stalled(&mut self, work: impl FnOnce(&mut Terminal) -> io::Result<()>) -> io::Result<()> {
        match work(&mut self.terminal) {
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                self.is_stalled = true;
                Ok(())
            }
            result => result,
        }
    }

    fn show(&mut self, shown: Shown) {
        self.facts = shown.facts;
        self.state.take(shown.moment);
    }

    /// What there was no room for may be another part after that.
    fn draw(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            if self.is_stalled {
                return Ok(());
            }
            let (state, theme, mut extent) = (&self.state, self.theme, self.extent);
            let drawn = self.terminal.draw(state, theme).map(|new| extent = new);
            self.unless_stalled(|_| drawn)?;
            if extent == self.extent {
                break;
            }
            self.extent = extent;
            self.state.drawn(extent);
        }
        Ok(())
    }

    fn wait(&self, news: Option<BorrowedFd<'_>>) -> Result<Happened, Errno> {
        let (keys, signals) = (self.terminal.fd(), self.signals.as_fd());
        let mut fds = vec![PollFd::new(keys, PollFlags::POLLIN), PollFd::new(signals, PollFlags::POLLIN)];
        if self.is_stalled {
            fds.push(PollFd::new(self.terminal.room(), PollFlags::POLLOUT));
        }
        fds.extend(news.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Happened::default()),
            Err(errno) => return Err(errno),
        }
        let events = |place: usize| fds.get(place).and_then(PollFd::revents).unwrap_or(PollFlags::empty());
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        Ok(Happened {
            pressed: events(0).contains(PollFlags::POLLIN),
            signalled: !events(1).is_empty(),
            lost: events(0).intersects(gone),
            has_room: self.is_stalled && !events(2).is_empty(),
        })
    }

    /// Does what the signals that came ask. Whether one of them ends it.
    fn heed(&mut self) -> io::Result<bool> {
        let mut is_ended = false;
        while let Some(ask) = terminal::next(self.signals) {
            match ask {
                Ask::End => is_ended = true,
                Ask::Resize => self.unless_stalled(Terminal::resize)?,
                Ask::Stop => self.unless_stalled(Terminal::suspend)?,
                Ask::Redraw => self.unless_stalled(Terminal::retake)?,
            }
        }
        Ok(is_ended)
    }

    /// Does what the keys say. Whether one of them ends it.
    fn press(&mut self, source: &mut dyn Source) -> Result<bool, Failure> {
        let bytes = self.terminal.read().map_err(lost)?;
        if bytes.is_empty() {
            return Err(lost(Errno::EIO.into()));
        }
        let mut keys = self.keys.read(&bytes);
        if self.keys.is_pending() && !self.terminal.has_more(REST) {
            keys.extend(self.keys.settle());
        }
        for key in keys {
            if key == Key::Ctrl('z') {
                self.unless_stalled(Terminal::suspend).map_err(lost)?;
                continue;
            }
            match self.state.key(key) {
                Effect::None => {}
                Effect::Quit => return Ok(true),
                Effect::Explain(cell) => {
                    let content = of(&self.facts, self.state.moment(), &cell);
                    self.state.explained(cell, content);
                }
                Effect::Step { forward } => {
                    if let Some(shown) = source.step(forward)? {
                        self.show(shown);
                    }
                }
            }
        }
        Ok(false)
    }
}

fn lost(error: io::Error) -> Failure {
    let needs = "gpumap top --once prints the matrix without one";
    Failure::new(ProblemCode::Terminal, "the terminal is lost", error.to_string(), needs)
}

/// The answer.
pub(super) fn of(facts: &Observation, moment: &Moment, cell: &CellPosition) -> Content {
    let row = moment.matrix.rows.get(cell.row);
    let column = moment.matrix.columns.get(cell.column);
    let Some((row, column)) = row.zip(column) else {
        return Content::Message("This is no more.".to_owned());
    };
    let Some(path) = cgroup(facts, row) else {
        return Content::Message("Its cgroup is not among the facts.".to_owned());
    };
    let devices = devices(column, &moment.gpus);
    if devices.is_empty() {
        return Content::Message("The GPU has no device that could be opened.".to_owned());
    }
    let subject = Subject::Cgroup(path);
    let no_limit = &TimeLimit::default();
    let proofs = devices
        .into_iter()
        .map(|(device, request)| analyse::explain(facts, &subject, device, request, no_limit));
    match proofs.collect::<Result<Vec<Proof>, _>>() {
        Ok(proofs) => Content::Proofs(proofs),
        Err(error) => Content::Message(error.to_string()),
    }
}

fn cgroup(facts: &Observation, row: &MatrixRow) -> Option<Text> {
    let is_it = |path: &&Text| path.lossy() == row.cgroup && path.hex() == row.cgroup_hex;
    facts.cgroups.iter().map(|cgroup| &cgroup.path).find(is_it).cloned()
}

/// The devices that have to be opened, and how: the GPU itself, and for an instance its
/// capabilities, too.
fn devices(column: &GpuKey, gpus: &[Gpu]) -> Vec<(Device, Request)> {
    let Some(gpu) = gpus.iter().find(|gpu| column.is_of(&gpu.key)) else { return Vec::new() };
    let device = |major, minor| Device { kind: DeviceType::Char, major, minor };
    let gate = gpu.major.zip(gpu.minor).map(|(major, minor)| (device(major, minor), Request::ReadWrite));
    let instance = gpu.mig.iter().find(|mig| mig.compute_key(gpu).as_ref() == Some(column));
    let capabilities = |mig: &MigInstance| {
        let major = mig.major;
        let minors = [mig.gi_minor, mig.ci_minor].into_iter().flatten();
        minors.filter_map(move |minor| Some((device(major?, minor), Request::Read))).collect::<Vec<_>>()
    };
    gate.into_iter().chain(instance.map(capabilities).unwrap_or_default()).collect()
}
