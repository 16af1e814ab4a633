//! Looks at all processes in a thread of its own. A user can make a look take long, and
//! meanwhile everything else is still watched.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::observe::monitor::{ProcessChanges, ProcessMonitor};
use crate::observe::scanner::{ScanError, ScanMethod};

/// How long a look is waited for: an ordinary one is over by then.
const PATIENCE: Duration = Duration::from_millis(500);

/// The result of one look.
pub(super) struct Look {
    pub(super) changes: Result<ProcessChanges, ScanError>,
    /// The way that was used, and why it is not the one before.
    pub(super) engine: ScanMethod,
    pub(super) why: Option<String>,
    pub(super) took: Duration,
}

/// Looks at all processes.
#[derive(Debug)]
pub(super) struct Looks {
    ask: Sender<()>,
    looks: Receiver<Look>,
    /// Whether a look was asked for and is not over.
    waits: bool,
}

impl Looks {
    pub(super) fn start(mut processes: ProcessMonitor) -> Self {
        let (ask, asked) = channel();
        let (sender, looks) = channel();
        // Without a thread nobody answers, which is reported as a look that failed.
        let _thread = thread::Builder::new().spawn(move || {
            // Nobody asks any more: the watch has ended.
            while asked.recv().is_ok() {
                let begun = Instant::now();
                let changes = processes.refresh();
                let why = processes.problem().map(|problem| problem.why);
                let look = Look { changes, engine: processes.engine(), why, took: begun.elapsed() };
                // Nobody listens any more.
                if sender.send(look).is_err() {
                    return;
                }
            }
        });
        Self { ask, looks, waits: false }
    }

    /// The look that was asked for, or a new one, if it is over soon.
    pub(super) fn next(&mut self) -> Option<Look> {
        let gone = || Look {
            changes: Err(ScanError::Read("its thread ended".to_owned())),
            engine: ScanMethod::Proc,
            why: None,
            took: Duration::ZERO,
        };
        // A thread that has ended is reported as a look that failed.
        if !std::mem::replace(&mut self.waits, true) && self.ask.send(()).is_err() {
            return Some(gone());
        }
        let look = match self.looks.recv_timeout(PATIENCE) {
            Ok(look) => look,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => gone(),
        };
        self.waits = false;
        Some(look)
    }
}
