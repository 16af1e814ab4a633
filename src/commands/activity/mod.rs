//! `gpumap activity`: what processes do with their GPUs, interval by interval.
//!
//! In each interval the processes that made calls are observed, and the GPUs; moments of
//! the kernel's clock have the same time of day in each reading.

mod summary;

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use nix::sys::signalfd::SignalFd;

use super::files;
use super::invocation::{Failure, Invocation, envelope};
use super::resident::output::Output;
use super::resident::{self, scope};
use crate::activity::{ActivityError, CountingOptions, Interception, Session};
use crate::analyse::{CallerAllocation, Follower, TimeLimit};
use crate::cli::{ActivityArgs, Exit};
use crate::model::ProblemCode;
use crate::observation::{ActivityReading, Observation, Problem, ProcessActivity};
use crate::observe::{self, ObserveError, Options};
use crate::render;
use crate::report::{ActivityAnswer, Document};
use crate::sys::clock::boot_ns;

/// How long processes are looked at about their first call: the next one waits.
const LOOKING: Duration = Duration::from_millis(500);

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ActivityArgs) -> Result<Exit, Failure> {
    if args.summary {
        return summary::run_summary(invocation, args);
    }
    if invocation.global.from.is_some() {
        return summary::run_saved(invocation, args);
    }
    resident::give_up_rights(ProblemCode::Activity)?;
    let signals = resident::signals(ProblemCode::Activity)?;
    let scope = scope::of(invocation, &args.pid, &args.cgroup, &args.job)?.processes;
    let mut session =
        Session::start(&scope, &invocation.global.proc, options(args, invocation.global.verbose > 0))
            .map_err(refused)?;
    let options_of_node = invocation.options();
    session.name_cgroups(move |id| observe::id_cgroup(&options_of_node, id).map(Into::into));
    let mut between = Interception::new(&scope, &invocation.global.proc, CountingOptions::default());
    let mut follower = Follower::new(invocation.global.verbose > 0);
    session.notice_processes();
    let mut first = session.read().map_err(refused)?;
    between.complete(&mut first).map_err(refused)?;
    follower.begin(&first);
    follower.resume(
        args.state.as_deref().map_or_else(Vec::new, |path| files::activity_state::totals(invocation, path)),
    );
    first.processes.retain(|process| process.ended_ns.is_some());
    let end = args.lasting.and_then(|lasting| Instant::now().checked_add(lasting));
    let mut counting = Counting {
        output: Output::start(std::io::stdout().as_fd())?,
        signals,
        invocation,
        args,
        between,
        follower,
        early: first.processes,
        whole_node: scope.all,
        printed: false,
        told: render::Told::default(),
        wall: WallClock::default(),
    };
    counting.follow(&mut session, end)
}

/// A running command.
struct Counting<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    args: &'s ActivityArgs,
    output: Output,
    signals: SignalFd,
    /// What libraries before the driver take.
    between: Interception,
    follower: Follower,
    /// Processes that ended before the first interval.
    early: Vec<ProcessActivity>,
    /// Whether all processes of the node are counted.
    whole_node: bool,
    /// Whether an interval was printed already, and which sentences were.
    printed: bool,
    told: render::Told,
    wall: WallClock,
}

impl Counting<'_, '_> {
    /// Tells one interval after another until the end, or a signal.
    fn follow(&mut self, session: &mut Session, end: Option<Instant>) -> Result<Exit, Failure> {
        let mut next = Instant::now() + self.args.every;
        loop {
            let until = end.map_or(next, |end| end.min(next));
            let stopped = self.wait(session, until)?;
            if stopped {
                return self.finish(true);
            }
            let complete = self.interval(session)?;
            let over = end.is_some_and(|end| Instant::now() >= end);
            if self.args.once {
                return self.finish(complete);
            }
            if over {
                return self.finish(true);
            }
            // An interval that took longer than it should begins the next one late.
            next = (next + self.args.every).max(Instant::now());
        }
    }

    /// Waits until a moment. Whether a signal came before.
    fn wait(&mut self, session: &mut Session, until: Instant) -> Result<bool, Failure> {
        loop {
            if matches!(self.signals.read_signal(), Ok(Some(_))) {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            session.wait(left, Some(self.signals.as_fd())).map_err(refused)?;
            self.look(&session.take_noticed());
        }
    }

    /// Looks at processes that are about to make their first call, or made it: they may
    /// have ended before the next reading.
    fn look(&mut self, pids: &[u32]) {
        if pids.is_empty() {
            return;
        }
        let deadline = Instant::now().checked_add(LOOKING);
        let options = Options { detail: true, deadline, ..self.invocation.options() };
        let from = boot_ns();
        // What could not be seen is not known: the reading says so of each process.
        let Ok(seen) = observe::processes(&options, pids) else { return };
        let limit = TimeLimit::at(deadline);
        let _as_above = self.follower.look(&seen, (from, boot_ns()), &limit);
    }

    /// Reads the counts, tells what happened and keeps the state. Whether nothing is
    /// missing.
    fn interval(&mut self, session: &mut Session) -> Result<bool, Failure> {
        let mut sums = session.read().map_err(refused)?;
        self.between.complete(&mut sums).map_err(refused)?;
        sums.processes.append(&mut self.early);
        let reading = ActivityReading {
            at: self.wall.at(sums.clock_ns).into(),
            every_ms: u64::try_from(self.args.every.as_millis()).unwrap_or(u64::MAX),
            whole_node: self.whole_node,
            sums,
            ..ActivityReading::default()
        };
        let mut observation = observe(self.invocation, reading);
        let payload =
            self.follower.report(&observation, &CallerAllocation::default(), &TimeLimit::default())?;
        if let Some((path, reading)) = self.args.state.as_ref().zip(observation.activity.as_deref_mut()) {
            self.follower.keep(reading);
            files::save(path, &observation)?;
        }
        let document = document(&observation, payload);
        self.print(&document)?;
        Ok(document.complete)
    }

    fn print(&mut self, document: &Document<ActivityAnswer>) -> Result<(), Failure> {
        let mut text = Vec::new();
        if self.invocation.global.json {
            render::json::write(&mut text, document)?;
        } else {
            if std::mem::replace(&mut self.printed, true) {
                text.push(b'\n');
            }
            render::next_activity(&mut text, self.invocation.style, &document.payload, &mut self.told)?;
        }
        self.output.give(text)?;
        if !self.invocation.global.json {
            self.invocation.problems(&document.errors)?;
        }
        // Without a reader there is nothing to do but to wait for one, or for the end.
        let _room = self.output.has_room(self.signals.as_fd(), None);
        Ok(())
    }

    fn finish(&self, complete: bool) -> Result<Exit, Failure> {
        let written = self.output.finish()?;
        Ok(if complete && written { Exit::Yes } else { Exit::Incomplete })
    }
}

/// The answer of one interval. A process that ended while it was looked at is no
/// problem: what it did is reported all the same.
fn document(observation: &Observation, payload: ActivityAnswer) -> Document<ActivityAnswer> {
    let mut document = envelope::document("activity", observation, payload);
    document.errors.retain(|problem| problem.code != ProblemCode::NoProcess);
    let activity = document.payload.activity.as_deref();
    let is_lost = activity.is_some_and(|activity| !activity.lost.is_empty());
    let is_uncounted = activity.is_some_and(|it| it.uncovered.iter().any(|one| one.function.is_none()));
    document.complete = document.errors.is_empty() && !is_lost && !is_uncounted;
    document
}

/// How calls are counted.
fn options(args: &ActivityArgs, streams: bool) -> CountingOptions {
    CountingOptions { every: args.time_one_in, costly: args.costly, streams, ..CountingOptions::default() }
}

fn refused(error: ActivityError) -> Failure {
    let needs = match observe::is_in_user_namespace() {
        true => "root of the node, outside of this user namespace (container)",
        false => "root, and Linux 5.15 or later with BTF (CONFIG_DEBUG_INFO_BTF)",
    };
    Failure::new(ProblemCode::Activity, "", error.to_string(), needs)
}

/// The observation that a reading is joined with.
pub(super) fn observe(invocation: &Invocation<'_>, reading: ActivityReading) -> Observation {
    let deadline = invocation.global.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let options = Options { detail: true, deadline, ..invocation.options() };
    let alive = reading.sums.processes.iter().filter(|process| process.ended_ns.is_none());
    let quiet = reading.sums.quiet.iter().map(|process| process.pid);
    let mut pids: Vec<u32> = alive.map(|process| process.pid).chain(quiet).collect();
    pids.sort_unstable();
    pids.dedup();
    let seen = (!pids.is_empty()).then(|| observe::processes(&options, &pids));
    let mut observation = match seen {
        Some(Ok(seen)) => seen,
        None => observe::gpus(&options),
        Some(Err(error)) => {
            let mut gpus = observe::gpus(&options);
            gpus.errors.extend(unread(&error));
            gpus
        }
    };
    observation.activity = Some(Box::new(reading));
    observation
}

/// What is missing where none of the processes could be observed. Those that made calls and
/// ended, or left their cgroups, meanwhile are no loss.
fn unread(error: &ObserveError) -> Option<Problem> {
    let is_over = matches!(
        error,
        ObserveError::NoSuchProcess { .. } | ObserveError::CgroupRemoved { .. } | ObserveError::NoCgroupMount
    );
    let (what, why) = ("the processes that made calls".to_owned(), error.to_string());
    (!is_over).then_some(Problem { code: ProblemCode::Observe, what, why, needs: String::new() })
}

/// How far both clocks may part before the time of day is looked at again: somebody set it.
const APART: SignedDuration = SignedDuration::from_secs(1);

/// What both clocks said at the first reading.
#[derive(Debug, Default)]
pub(super) struct WallClock(Option<(Timestamp, u64)>);

impl WallClock {
    /// The time of day of a moment that has just been (`CLOCK_BOOTTIME`). What lies between
    /// the looks at both clocks does not move it.
    pub(super) fn at(&mut self, clock_ns: u64) -> Timestamp {
        self.of(clock_ns, Timestamp::now())
    }

    fn of(&mut self, clock_ns: u64, now: Timestamp) -> Timestamp {
        let since = |first: u64| i64::try_from(clock_ns.saturating_sub(first)).unwrap_or(i64::MAX);
        let kept =
            self.0.and_then(|(at, first)| at.checked_add(SignedDuration::from_nanos(since(first))).ok());
        match kept.filter(|at| at.duration_until(now).abs() < APART) {
            Some(at) => at,
            None => {
                self.0 = Some((now, clock_ns));
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only what ended is passed over.
    #[test]
    fn what_is_missing() {
        assert!(unread(&ObserveError::NoSuchProcess { pid: 1, proc: "/proc".into() }).is_none());
        let failed = ObserveError::Process { pid: 1, why: "cannot read".to_owned() };
        assert_eq!(unread(&failed).unwrap().code, ProblemCode::Observe);
    }

    /// Make sure that a reading that is dated late moves nothing, and a clock that is set does.
    #[test]
    fn the_same_in_each_reading() {
        let mut wall = WallClock::default();
        let time = |seconds: i64, nanos: i32| Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(wall.of(5_000_000_000, time(100, 0)), time(100, 0));
        assert_eq!(wall.of(7_000_000_000, time(102, 313_000_000)), time(102, 0));
        assert_eq!(wall.of(9_000_000_000, time(3600, 0)), time(3600, 0));
        assert_eq!(wall.of(10_000_000_000, time(3601, 20_000_000)), time(3601, 0));
    }
}
