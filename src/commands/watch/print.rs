//! Prints the events of `gpumap watch`, and chooses those that people see without
//! `-v`.

use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Printer;
use crate::commands::invocation::Failure;
use crate::model::{EventKind, Owner};
use crate::render;
use crate::report::Event;

/// Bytes that are sent together where there are many events.
const PIECE: usize = 1 << 16;
/// Processes that are remembered because a line was printed: of those beyond the
/// end is not printed.
const SHOWN: usize = 1 << 18;

impl Printer<'_, '_> {
    pub(super) fn print(&mut self, events: Vec<Event>) -> Result<(), Failure> {
        self.write(events)?;
        self.flush()
    }

    /// Sends what was collected. If too much waits for the reader, it waits for
    /// room, or for the end of the watch; then the rest is dropped.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.output.give(std::mem::take(&mut self.text))?;
        self.stopped |= !self.output.has_room(self.signals.as_fd(), self.end);
        Ok(())
    }

    /// Whether a signal came, which stays to be read, or the time is over.
    pub(super) fn is_to_end(&self) -> bool {
        let mut signals = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let signalled = poll(&mut signals, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        signalled || self.end.is_some_and(|end| Instant::now() >= end)
    }

    pub(super) fn write(&mut self, events: Vec<Event>) -> Result<(), Failure> {
        for mut event in events {
            if self.stopped && !matches!(event.event, EventKind::End | EventKind::Lost) {
                return Ok(());
            }
            self.changed |=
                matches!(event.event, EventKind::Visible | EventKind::Policy) && !is_replacement(&event);
            self.dirty |= matches!(event.event, EventKind::Visible | EventKind::Exit | EventKind::Process);
            let begin = self.text.len();
            let user = event.process.as_ref().map(|process| self.watch.account(process.pid));
            if user.is_some_and(|user| self.allowances.is_used_up(user, Instant::now())) {
                self.forget(&event);
                continue;
            }
            if self.invocation.global.json {
                if let Some(process) = &mut event.process {
                    self.users.add_name(process);
                }
                render::json::write(&mut self.text, &event)?;
            } else if self.is_news(&event) {
                let gpus = Some(self.watch.gpus()).filter(|gpus| !gpus.is_empty());
                render::event(&mut self.text, &event, gpus.unwrap_or(&self.gpus))?;
                if self.invocation.style.all {
                    render::not_seen(&mut self.text, &event)?;
                }
            }
            let bytes = self.text.len() - begin;
            if user.is_some_and(|user| bytes > 0 && !self.allowances.allow(user, bytes, Instant::now())) {
                self.text.truncate(begin);
            }
            if self.text.len() >= PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Forgets a process of which nothing will be printed any more.
    fn forget(&mut self, event: &Event) {
        if let (EventKind::Exit, Some(process)) = (event.event, &event.process) {
            self.shown.remove(&(process.pid, process.start_time.unwrap_or_default()));
        }
    }

    /// Whether people want to see it without asking for everything.
    fn is_news(&mut self, event: &Event) -> bool {
        let all = self.invocation.style.all;
        let who = event.process.as_ref().and_then(|process| Some((process.pid, process.start_time?)));
        // The start and ready events are one line, unless something is missing.
        let is_said = event.event == EventKind::Ready && event.uncovered == Some(0);
        let Some(who) = who else { return all || !(is_said || is_replacement(event)) };
        match event.event {
            EventKind::Exit => self.shown.remove(&who) || all,
            _ if (is_inherited(event) || is_schedulers(event) || self.is_ordinary_move(event)) && !all => {
                false
            }
            _ => {
                if self.shown.len() < SHOWN {
                    self.shown.insert(who);
                }
                true
            }
        }
    }
}

impl Printer<'_, '_> {
    /// Whether a watch of the whole node need not show a move: the process gains no
    /// GPU, and leaves no job and no container. Services and schedulers move
    /// processes into their cgroups all the time.
    fn is_ordinary_move(&self, event: &Event) -> bool {
        let Some(moved) = &event.moved else { return false };
        if moved.from.is_none() && event.cgroup.is_none() {
            return self.everybody;
        }
        let gains_nothing = moved.gained.as_ref().is_some_and(Vec::is_empty) && moved.unknown.is_empty();
        self.everybody && moved.left == Some(false) && gains_nothing
    }
}

/// Whether programs were replaced by others that decide the same, as Slurm does
/// at every step: nothing that people watch for.
fn is_replacement(event: &Event) -> bool {
    event.policy.as_ref().is_some_and(|policy| policy.equal)
}

/// The daemon of a step of Slurm's.
const STEP_DAEMON: &str = "slurmstepd";

/// Whether it is a move of the scheduler's own daemon, which goes into the cgroups that it
/// makes and puts the tasks that it begins into theirs. Users have no process in its
/// cgroups; one that left a job from elsewhere is shown, whatever it is called.
fn is_schedulers(event: &Event) -> bool {
    let Some(moved) = &event.moved else { return false };
    let is_part = |owner: &Option<Owner>| owner.as_ref().is_some_and(|owner| owner.part.is_some());
    let is_daemon = event.process.as_ref().is_some_and(|it| it.uid == Some(0) && it.comm == STEP_DAEMON);
    is_part(&moved.from_owner) || is_part(&event.owner) || is_daemon && moved.left != Some(true)
}

/// Whether a program asks for the same devices as the one that executed it, as most
/// commands of a shell do.
fn is_inherited(event: &Event) -> bool {
    event.event == EventKind::Process && event.asked_before.is_some() && event.asked_before == event.asked
}
