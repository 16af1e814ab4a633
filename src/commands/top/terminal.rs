//! The terminal: taken when the screen begins, given back on every way out, and written to
//! without waiting long. It may stop taking output: its user stopped it, or a program between
//! here and the screen hangs. Keys and signals are heeded all the same.
//!
//! Some signals the screen has to heed itself, because the terminal has to be given back
//! before they may do what they do.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{self, SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use nix::sys::termios::{self, SetArg, Termios};
use nix::unistd::Pid;
use terminal_size::terminal_size_of;

use crate::cli::Color;
use crate::commands::invocation::Failure;
use crate::commands::resident::signals_and;
use crate::model::ProblemCode;
use crate::render::{self, Cells, Colors, Theme};
use crate::top::{Extent, State};

/// To the other screen, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";

/// Back: ordinary colours, the cursor, the screen of before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The size of a terminal that does not say.
const USUAL: (u16, u16) = (80, 24);

/// The most of a terminal that is drawn on: its size is whatever somebody set, and each
/// cell takes memory and time.
const MOST: (u16, u16) = (1000, 500);

/// Fails where there is no terminal to draw on.
pub(super) fn check() -> Result<(), Failure> {
    let needs = "gpumap top --once prints the matrix as a table";
    let missing = |what, why| Err(Failure::new(ProblemCode::Terminal, what, why, needs));
    if !io::stdout().is_terminal() {
        return missing("standard output", "not a terminal, and the screen needs one");
    }
    if !io::stdin().is_terminal() {
        return missing("standard input", "not a terminal, and keys come from it");
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") => missing("TERM=dumb", "this terminal cannot move its cursor"),
        _ => Ok(()),
    }
}

/// How the screen looks on this terminal.
pub(super) fn theme(color: Color, has_color: bool, ascii: bool) -> Theme {
    let word = |name: &str| std::env::var(name).unwrap_or_default();
    let is_many = word("TERM").contains("256color") || !word("COLORTERM").is_empty();
    let colors = match (color, has_color) {
        (Color::Never, _) | (Color::Auto, false) => Colors::None,
        _ if is_many => Colors::Many,
        _ => Colors::Sixteen,
    };
    Theme { ascii: ascii || !is_utf8(), colors }
}

/// Whether the locale's characters are UTF-8.
fn is_utf8() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A terminal that shows our screen and sends keys as they are pressed. When it is
/// dropped, also by a panic, it is as it was.
pub(super) struct Terminal {
    input: File,
    output: Outlet,
    before: Termios,
    /// What it shows.
    shown: Cells,
    size: (u16, u16),
}

impl Terminal {
    /// The terminal that is standard output, to write to. Opening it takes rights that a
    /// screen gives up.
    pub(super) fn outlet() -> Result<Outlet, Failure> {
        Outlet::of(io::stdout().as_fd()).map_err(|error| failed(&error))
    }

    /// Takes the terminal that is standard input and this output.
    pub(super) fn take(output: Outlet) -> Result<Self, Failure> {
        let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        input.and_then(|input| Self::of(input, output)).map_err(|error| failed(&error))
    }

    /// Takes a terminal.
    fn of(input: File, output: Outlet) -> io::Result<Self> {
        let before = termios::tcgetattr(&input)?;
        let size = size(&output);
        let mut terminal = Self { input, output, before, shown: Cells::new(size), size };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Keys come one by one, and nothing that is typed is shown.
    fn enter(&mut self) -> io::Result<()> {
        let mut raw = self.before.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(&self.input, SetArg::TCSANOW, &raw)?;
        self.output.send(ENTER)
    }

    /// Gives it back. Whether that works is of no use to know.
    fn leave(&mut self) {
        let _lost = self.output.last(LEAVE);
        let _lost = termios::tcsetattr(&self.input, SetArg::TCSANOW, &self.before);
    }

    /// Readable when a key was pressed.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Writable when there is room for output.
    pub(super) fn room(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// What keys sent; nothing is left when the terminal is lost.
    pub(super) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 256];
        let count = self.input.read(&mut bytes)?;
        Ok(bytes.get(..count).unwrap_or_default().to_vec())
    }

    /// Whether more bytes come within so many milliseconds.
    pub(super) fn has_more(&self, milliseconds: u8) -> bool {
        let mut fds = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(milliseconds)).is_ok_and(|ready| ready > 0)
    }

    /// Takes the size that the terminal has now.
    pub(super) fn resize(&mut self) -> io::Result<()> {
        let size = size(&self.output);
        if size != self.size {
            self.size = size;
            self.shown = Cells::new(size);
            self.output.send(b"\x1b[0m\x1b[2J")?;
        }
        Ok(())
    }

    /// Gives the terminal back until somebody makes this process go on. Where nobody
    /// could, nothing happens.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        self.leave();
        stop();
        self.retake()
    }

    /// Takes the terminal anew: somebody else may have used it.
    pub(super) fn retake(&mut self) -> io::Result<()> {
        self.size = size(&self.output);
        self.shown = Cells::new(self.size);
        self.enter()
    }

    /// Draws the cells that changed.
    pub(super) fn draw(&mut self, state: &State, theme: Theme) -> io::Result<Extent> {
        let mut cells = Cells::new(self.size);
        let extent = render::top(&mut cells, state, theme);
        let changes = cells.changes(&self.shown);
        self.shown = cells;
        self.output.send(&changes).map(|()| extent)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(ProblemCode::Terminal, "the terminal", error.to_string(), "gpumap top --once")
}

fn size(output: &Outlet) -> (u16, u16) {
    let said = terminal_size_of(output);
    said.map_or(USUAL, |(width, height)| (width.0.min(MOST.0), height.0.min(MOST.1)))
}

/// How long a drawing may take, and giving the terminal back. A terminal takes one at
/// once; a slow line has room for some thousand bytes of it.
const DRAWING: Duration = Duration::from_secs(1);

const LAST: Duration = Duration::from_millis(200);

/// Bytes that are written at a time where the kernel might wait for room.
const PART: usize = 256;

/// A terminal to write to.
#[derive(Debug)]
pub(super) struct Outlet {
    file: File,
    /// Bytes that are written at a time.
    part: usize,
}

impl Outlet {
    /// Opens the terminal that this descriptor has, as somebody of its own who never
    /// waits: what others do with the descriptor stays as it is. Where it may not be
    /// opened, the descriptor itself is used, with short writes.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be copied.
    pub(super) fn of(terminal: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let path = format!("/proc/self/fd/{}", terminal.as_raw_fd());
        let (file, part) = match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => (file, usize::MAX),
            Err(_) => (terminal.try_clone_to_owned()?.into(), PART),
        };
        Ok(Self { file, part })
    }

    /// Sends these bytes: all, or where that fails or takes too long, the beginning.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TimedOut`] where the terminal takes nothing.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(bytes, DRAWING)
    }

    /// Sends these last bytes, if that takes a moment.
    pub(super) fn last(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_within(bytes, LAST)
    }

    fn send_within(&self, mut bytes: &[u8], longest: Duration) -> io::Result<()> {
        let end = Instant::now() + longest;
        while !bytes.is_empty() {
            self.wait(end)?;
            let part = bytes.get(..self.part).unwrap_or(bytes);
            match (&self.file).write(part) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until there is room, or the time is up.
    fn wait(&self, end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Outlet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Those that end a screen are there anyway: the terminal got another size, the process
/// is to stop, it goes on.
const FURTHER: [Signal; 3] = [Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];

/// What a signal asks of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// To end.
    End,
    /// To look how large the terminal is.
    Resize,
    /// To give the terminal back and stop.
    Stop,
    /// To take the terminal again: a shell may have used it.
    Redraw,
}

/// Blocks the signals, and gives them as a descriptor.
pub(super) fn take() -> Result<SignalFd, Failure> {
    signals_and(ProblemCode::Terminal, &FURTHER)
}

/// What the next signal asks; `None` if none came.
pub(super) fn next(signals: &SignalFd) -> Option<Ask> {
    number(signals).map(|signal| match signal {
        Signal::SIGWINCH => Ask::Resize,
        Signal::SIGTSTP => Ask::Stop,
        Signal::SIGCONT => Ask::Redraw,
        _ => Ask::End,
    })
}

fn number(signals: &SignalFd) -> Option<Signal> {
    let info = signals.read_signal().ok()??;
    Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()
}

/// Lets the signals that came do what they do where no screen is.
pub(super) fn obey(signals: &SignalFd) {
    while let Some(signal) = number(signals) {
        deliver(signal, || signal::kill(Pid::this(), signal));
    }
}

/// Stops this process until somebody makes it go on. Where nobody could, nothing
/// happens.
pub(super) fn stop() {
    deliver(Signal::SIGTSTP, || signal::raise(Signal::SIGTSTP));
}

/// Sends a signal to this thread while it is not blocked here.
fn deliver(signal: Signal, send: impl FnOnce() -> nix::Result<()>) {
    let set: SigSet = [signal].into_iter().collect();
    let _cannot_fail = set.thread_unblock();
    let _ignored_ones_do_nothing = send();
    let _cannot_fail = set.thread_block();
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use nix::pty::{Winsize, openpty};

    use super::*;

    /// Make sure that a terminal of an absurd size is drawn on in part.
    #[test]
    fn absurd_size() {
        let size = Winsize { ws_row: u16::MAX, ws_col: u16::MAX, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let (other, ours) = (File::from(pty.master), File::from(pty.slave));
        let output = Outlet::of(ours.as_fd()).unwrap();
        let terminal = Terminal::of(ours, output).unwrap();
        assert_eq!(terminal.size, MOST);
        drop((terminal, other));
    }

    /// Make sure that a panic gives the terminal back: how it reads keys and shows them,
    /// its cursor, and the screen of before.
    #[test]
    fn panic() {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let (mut other, ours) = (File::from(pty.master), File::from(pty.slave));
        let before = termios::tcgetattr(&ours).unwrap();
        let end = || ours.try_clone().unwrap();
        let theme = Theme { ascii: false, colors: Colors::Many };
        let broke = catch_unwind(AssertUnwindSafe(|| {
            let mut terminal = Terminal::of(end(), Outlet::of(ours.as_fd()).unwrap()).unwrap();
            terminal.draw(&State::default(), theme).unwrap();
            assert!(termios::tcgetattr(&ours).unwrap() != before);
            assert_eq!(terminal.size, (80, 24));
            std::panic::resume_unwind(Box::new("a bug"));
        }));
        assert!(broke.is_err());
        assert!(termios::tcgetattr(&ours).unwrap() == before);
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        while !seen.windows(LEAVE.len()).any(|part| part == LEAVE) {
            let count = other.read(&mut bytes).unwrap();
            seen.extend_from_slice(&bytes[..count]);
        }
        let mut screen = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
        let (entered, rest) = seen.split_at(ENTER.len());
        screen.process(entered);
        assert!(screen.screen().alternate_screen() && screen.screen().hide_cursor());
        screen.process(rest);
        assert!(!screen.screen().alternate_screen() && !screen.screen().hide_cursor());
    }
}
