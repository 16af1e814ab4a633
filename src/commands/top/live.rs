//! The node as it is: one thread looks at it, another one has the screen, so that keys
//! are never kept waiting by a look.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signalfd::SignalFd;

use super::screen::{Shown, Source};
use super::{saved, terminal};
use crate::analyse;
use crate::cli::TopArgs;
use crate::commands::files::activity_state;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::budget::{Budget, Monitor};
use crate::commands::resident::look::{Decoding, Look, Looker};
use crate::model::{EventKind, ProblemCode};
use crate::observe::Options;
use crate::report::{Event, Matrix};
use crate::sys::heap;
use crate::top::Origin;

/// The least time between two checks.
const LEAST: Duration = Duration::from_millis(250);

/// How often a node is looked at on which nothing seems to change: an environment may
/// have been changed, which no check sees.
const CALM: Duration = Duration::from_secs(10);

/// How long a look that is decoded is waited for at a time.
const STEP: Duration = Duration::from_millis(50);

/// Events that are kept.
const EVENTS: usize = 100;

/// Refusals among them: of one user, and of all. Users decide how many there are.
const OWN_DENIALS: usize = 5;

const ALL_DENIALS: usize = 40;

/// What both threads have.
pub(super) struct Shared {
    newest: Mutex<Option<Shown>>,
    /// Rings when there is a new moment, or no more will come.
    news: EventFd,
    /// Rings when the screen has ended.
    end: EventFd,
    is_over: AtomicBool,
}

impl Shared {
    pub(super) fn new() -> Result<Self, Failure> {
        let bell = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let failed =
            |errno: nix::errno::Errno| Failure::new(ProblemCode::Terminal, "eventfd", errno.desc(), "");
        let (news, end) = (bell().map_err(failed)?, bell().map_err(failed)?);
        Ok(Self { newest: Mutex::new(None), news, end, is_over: AtomicBool::new(false) })
    }

    fn publish(&self, shown: Shown) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        let _full_is_rung = self.news.write(1);
    }
}

/// Ends the screen when it is dropped, also by a panic.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        let _full_is_rung = self.0.news.write(1);
    }
}

/// Ends the looks when it is dropped, also by a panic.
pub(super) struct Ended<'a>(pub &'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let _full_is_rung = self.0.end.write(1);
    }
}

/// The screen's side.
pub(super) struct Live<'a>(pub &'a Shared);

impl Live<'_> {
    /// Waits for the first moment; `None` if none will come. Until then there is no
    /// screen to be given back: a signal does what it does to any command.
    pub(super) fn first(&mut self, signals: &SignalFd) -> Result<Option<Shown>, Failure> {
        loop {
            let news = PollFd::new(self.0.news.as_fd(), PollFlags::POLLIN);
            let mut fds = [news, PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => terminal::obey(signals),
                Err(errno) => {
                    return Err(Failure::new(ProblemCode::Terminal, "poll", errno.desc(), ""));
                }
            }
            let is_over = self.is_over();
            match self.newest() {
                None if !is_over => {}
                first => return Ok(first),
            }
        }
    }
}

impl Source for Live<'_> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.news.as_fd())
    }

    fn newest(&mut self) -> Option<Shown> {
        self.0.newest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn step(&mut self, _forward: bool) -> Result<Option<Shown>, Failure> {
        Ok(None)
    }

    fn is_over(&self) -> bool {
        // Silent until it rings again; a frozen screen would wake without end.
        let _rung = self.0.news.read();
        self.0.is_over.load(Ordering::Acquire)
    }
}

/// The side that looks.
struct Follower<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    looker: &'s Looker,
    monitor: Monitor,
    budget: Budget,
    every: Duration,
    /// Where a running `gpumap activity` keeps its counts, and when it wrote them.
    state: PathBuf,
    written: Option<SystemTime>,
    decoding: Decoding,
    /// When the node was looked at, and when it was checked for changes.
    looked: Instant,
    checked: Instant,
    /// What is shown.
    last: Option<Shown>,
    before: Matrix,
    events: Vec<Event>,
}

/// Looks at the node, and again whenever something changed, until the screen has ended.
pub(super) fn follow(
    invocation: &mut Invocation<'_>,
    looker: &Looker,
    args: &TopArgs,
    shared: &Shared,
) -> Result<(), Failure> {
    let _over = Over(shared);
    let state = args.state.clone().unwrap_or_else(|| PathBuf::from(activity_state::USUAL));
    let options = Options { deadline: None, detail: false, ..invocation.options() };
    let follower = Follower {
        looker,
        // Before the first look: nothing that changes after it is overlooked.
        monitor: Monitor::start(&options, ProblemCode::Terminal)?,
        invocation,
        budget: Budget::new(args.cpu / 100.0),
        every: args.every,
        written: written(&state),
        state,
        decoding: looker.decoding(),
        looked: Instant::now(),
        checked: Instant::now(),
        last: None,
        before: Matrix::default(),
        events: Vec::new(),
    };
    follower.run(shared)
}

impl Follower<'_, '_> {
    fn run(mut self, shared: &Shared) -> Result<(), Failure> {
        self.begin()?;
        let mut pending = false;
        loop {
            let is_decoding = !self.decoding.is_idle();
            // Nobody waits for programs that take long to decode, and least of all the keys.
            let is_over = if is_decoding {
                is_rung(shared, None, Duration::ZERO)
            } else {
                is_ended(shared, self.monitor.fd(), self.every)
            };
            if is_over {
                return Ok(());
            }
            if is_decoding && let Some(look) = self.decoding.next(STEP)? {
                shared.publish(self.shown(look));
            }
            if is_decoding && self.checked.elapsed() < self.every {
                continue;
            }
            let is_told = self.check(&mut pending)?;
            if is_told && let Some(shown) = &mut self.last {
                shown.moment.events.clone_from(&self.events);
                shared.publish(shown.clone());
            }
            let is_time = pending || self.looked.elapsed() >= CALM;
            if is_time && self.decoding.is_idle() && self.budget.allows(pending, Instant::now()) {
                self.begin()?;
                pending = false;
            }
        }
    }

    /// Checks whether anything changed, and what there is to tell.
    fn check(&mut self, pending: &mut bool) -> Result<bool, Failure> {
        self.checked = Instant::now();
        let checked = self.monitor.check()?;
        let is_told = !(checked.events.is_empty() && checked.denials.is_empty());
        let told = checked.events.into_iter().chain(checked.denials);
        self.events.splice(0..0, told.rev());
        keep_few_denials(&mut self.events);
        self.events.truncate(EVENTS);
        let written = written(&self.state);
        *pending |= checked.changed || written != self.written;
        self.written = written;
        Ok(is_told)
    }

    /// Looks at the node; what follows is decoded beside.
    fn begin(&mut self) -> Result<(), Failure> {
        let (looker, invocation) = (self.looker, &mut *self.invocation);
        let refusals = self.monitor.refusals();
        self.decoding.begin(self.budget.charge(|| looker.look_again(invocation, refusals))?)?;
        self.looked = Instant::now();
        Ok(())
    }

    fn shown(&mut self, look: Look) -> Shown {
        self.budget.took(look.decoding);
        let events = self.events.clone();
        let mut moment = saved::of(&look, Origin::Live, events, self.invocation.style.all);
        analyse::add_rates(&mut moment.matrix, &self.before);
        self.before = moment.matrix.clone();
        let facts = Arc::new(look.observation);
        heap::give_back();
        let shown = Shown { moment, facts };
        self.last = Some(shown.clone());
        shown
    }
}

fn written(state: &Path) -> Option<SystemTime> {
    state.symlink_metadata().and_then(|metadata| metadata.modified()).ok()
}

/// Waits for the next check: no longer than `every`, and less if cgroups come or go.
/// Whether the screen has ended.
fn is_ended(shared: &Shared, cgroups: Option<BorrowedFd<'_>>, every: Duration) -> bool {
    is_rung(shared, None, LEAST) || is_rung(shared, cgroups, every.saturating_sub(LEAST))
}

fn is_rung(shared: &Shared, cgroups: Option<BorrowedFd<'_>>, time: Duration) -> bool {
    let mut fds = vec![PollFd::new(shared.end.as_fd(), PollFlags::POLLIN)];
    fds.extend(cgroups.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    let timeout = PollTimeout::try_from(time.as_millis()).unwrap_or(PollTimeout::MAX);
    let _interrupted = poll(&mut fds, timeout);
    fds.first().and_then(PollFd::revents).is_some_and(|events| !events.is_empty())
}

/// Drops the oldest refusals where there are too many, so that those of one user hide
/// neither another's nor what happened to programs. The newest events come first.
fn keep_few_denials(events: &mut Vec<Event>) {
    let (mut own, mut all) = (HashMap::<Option<u32>, usize>::new(), 0);
    events.retain(|event| {
        if event.event != EventKind::Denied {
            return true;
        }
        let count = own.entry(event.process.as_ref().and_then(|process| process.uid)).or_default();
        let is_kept = *count < OWN_DENIALS && all < ALL_DENIALS;
        *count += 1;
        all += usize::from(is_kept);
        is_kept
    });
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use nix::sys::signal::SigSet;
    use nix::sys::signalfd::SfdFlags;

    use super::*;

    /// Make sure that neither of the two threads outlives a panic of the other: the
    /// terminal would stay as it is.
    #[test]
    fn panics() {
        let shared = Shared::new().unwrap();
        let broke = catch_unwind(AssertUnwindSafe(|| {
            let _over = Over(&shared);
            resume_unwind(Box::new("a bug of the side that looks"));
        }));
        assert!(broke.is_err() && Live(&shared).is_over());
        let signals = SignalFd::with_flags(&SigSet::empty(), SfdFlags::SFD_NONBLOCK).unwrap();
        shared.news.write(1).unwrap();
        assert!(Live(&shared).first(&signals).unwrap().is_none());

        let shared = Shared::new().unwrap();
        assert!(!is_ended(&shared, None, LEAST));
        let broke = catch_unwind(AssertUnwindSafe(|| {
            let _ended = Ended(&shared);
            resume_unwind(Box::new("a bug of the screen"));
        }));
        assert!(broke.is_err() && is_ended(&shared, None, LEAST));
    }
}
