//! The signals that a screen has to heed itself, because the terminal has to be given
//! back before they may do what they do.

use nix::sys::signal::{self, SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use crate::commands::invocation::Failure;
use crate::commands::resident::signals_and;
use crate::model::ProblemCode;

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
