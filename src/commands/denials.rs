//! `gpumap denials`: prints devices that the kernel refuses to processes, as it happens.
//! It is the part of `gpumap watch` that touches no process.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;

use super::files;
use super::invocation::{Failure, Invocation};
use super::resident::output::Output;
use super::resident::{self, scope};
use super::watch::allowance::{self, Allowances};
use super::watch::users::Users;
use crate::cli::{DenialsArgs, Exit};
use crate::model::{EventKind, ProblemCode};
use crate::observation::Observation;
use crate::report::Event;
use crate::watch::EventSource as _;
use crate::watch::denials::{self, DenialsWatcher};
use crate::{observe, render};

/// How often refusals are printed.
const EVERY: Duration = Duration::from_secs(1);

/// What it takes to see refusals.
const NEEDS: &str = "root of the node, and Linux 5.8 or later with BTF (CONFIG_DEBUG_INFO_BTF) and \
     CONFIG_FUNCTION_TRACER or CONFIG_KPROBES";

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &DenialsArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        let why = "a saved observation has no refusals";
        return Err(Failure::new(ProblemCode::Usage, "--from", why, "leave it out"));
    }
    let begun = Instant::now();
    resident::give_up_rights(ProblemCode::Watch)?;
    let signals = resident::signals(ProblemCode::Watch)?;
    let followed = scope::of(invocation, &args.pid, &args.cgroup, &args.job)?;
    let options = invocation.options();
    let watcher = DenialsWatcher::start(&options, &followed.processes, args.all_devices)
        .map_err(|error| Failure::new(ProblemCode::Watch, "refusals", error.to_string(), NEEDS))?;
    let end = args.lasting.and_then(|lasting| begun.checked_add(lasting));
    let output = Output::start(std::io::stdout().as_fd())?;
    let (users, allowances) = (Users::new(options), Allowances::default());
    let mut printer = Printer { invocation, watcher, output, users, allowances };
    if args.state.is_some() {
        printer.watcher.keep();
    }
    printer.save(args)?;
    let engines = vec![printer.watcher.engine()];
    let not_seen = denials::NOT_SEEN.map(str::to_owned).to_vec();
    let ready_after_ms = u64::try_from(begun.elapsed().as_millis()).ok();
    printer.print(vec![Event { engines, not_seen, ready_after_ms, ..Event::now(EventKind::Start) }])?;
    while !wait(&signals, end) {
        let events = printer.watcher.events();
        printer.save(args)?;
        printer.print(events)?;
        if !printer.output.has_room(signals.as_fd(), end) {
            break;
        }
    }
    let events = printer.watcher.finish();
    printer.save(args)?;
    printer.print(events)?;
    printer.print(vec![Event::now(EventKind::End)])?;
    Ok(if printer.output.finish()? { Exit::Yes } else { Exit::Incomplete })
}

/// Waits for a second. Whether it is to end: a signal came, or the time is over.
fn wait(signals: &SignalFd, end: Option<Instant>) -> bool {
    let until = Instant::now() + EVERY;
    let until = end.map_or(until, |end| end.min(until));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return end.is_some_and(|end| Instant::now() >= end);
        }
        let timeout = PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
        let _interrupted = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], timeout);
        if matches!(signals.read_signal(), Ok(Some(_))) {
            return true;
        }
    }
}

struct Printer<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    watcher: DenialsWatcher,
    output: Output,
    users: Users,
    allowances: Allowances,
}

impl Printer<'_, '_> {
    /// Prints events, and how many of each user were not printed.
    fn print(&mut self, mut events: Vec<Event>) -> Result<(), Failure> {
        let now = Instant::now();
        let omitted = self.allowances.omitted(now);
        if !omitted.is_empty() {
            events.push(Event::lost(omitted).because(allowance::why()));
        }
        let mut text = Vec::new();
        for event in events {
            let user = event.process.as_ref().map(|process| process.uid);
            let begin = text.len();
            self.line(&mut text, event)?;
            let bytes = text.len() - begin;
            if user.is_some_and(|user| !self.allowances.allow(user, bytes, now)) {
                text.truncate(begin);
            }
        }
        if !text.is_empty() {
            self.output.give(text)?;
        }
        Ok(())
    }

    /// Writes the state file, if there is something new.
    fn save(&mut self, args: &DenialsArgs) -> Result<(), Failure> {
        let Some(path) = args.state.as_ref().filter(|_| self.watcher.has_kept()) else { return Ok(()) };
        let node = observe::gpus(&self.invocation.options());
        files::save(path, &Observation { refusals: self.watcher.refusals().map(Box::new), ..node })
    }

    fn line(&mut self, text: &mut Vec<u8>, mut event: Event) -> Result<(), Failure> {
        event.command = self.invocation.command.to_owned();
        if self.invocation.global.json {
            if let Some(process) = &mut event.process {
                self.users.add_name(process);
            }
            render::json::write(text, &event)?;
        } else {
            render::event(text, &event, self.watcher.gpus())?;
            if self.invocation.style.all {
                render::not_seen(text, &event)?;
            }
        }
        Ok(())
    }
}
