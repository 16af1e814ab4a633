//! Decodes changes of programs: at once if that is quick, else beside, so that programs
//! that take long keep nothing but their own events waiting.

use std::time::{Duration, Instant};

use super::event::events;
use crate::analyse::{NodeComparison, TimeLimit, is_unchanged};
use crate::model::EventKind;
use crate::observation::Text;
use crate::observe::monitor::cgroups::ProgramsChange;
use crate::report::{Event, Gpu};
use crate::watch::{Beside, LONG, NOT_YET, SOON};

/// How long a change is waited for that takes longer than [`SOON`], where nothing else is
/// decoded: on a busy machine it may be an ordinary one.
const PATIENCE: Duration = Duration::from_millis(450);
/// Said of changes that were seen and not decoded.
const TOO_MANY: &str = "programs changed here, and too many changes before it are not decoded yet";

/// Turns changes into events.
#[derive(Debug)]
pub(super) struct StepDecoder {
    slow: Beside<ProgramsChange, DecodedStep>,
    soon: Duration,
    patience: Duration,
    /// The GPUs that the latest events speak of.
    pub(super) gpus: Vec<Gpu>,
}

/// A change, decoded.
#[derive(Debug)]
struct DecodedStep {
    events: Vec<Event>,
    gpus: Vec<Gpu>,
    /// Whether the time was over before everything was decoded.
    is_late: bool,
}

impl Default for StepDecoder {
    fn default() -> Self {
        let slow = Beside::start(|step| decode(&step, LONG));
        Self { slow, soon: SOON, patience: PATIENCE, gpus: Vec::new() }
    }
}

impl StepDecoder {
    /// The events of a change, or that they are reported later.
    pub(super) fn events(&mut self, step: ProgramsChange) -> Vec<Event> {
        let decoded = decode(&step, self.soon);
        if !decoded.is_late {
            return self.news(decoded);
        }
        let not_yet = not_yet(&step);
        let is_next = self.slow.is_idle();
        if let Err(step) = self.slow.ask(step) {
            return given_up(&step);
        }
        let decoded = is_next.then(|| self.slow.answer(self.patience)).flatten();
        decoded.map_or(not_yet, |decoded| self.news(decoded))
    }

    /// The events of earlier changes that were decoded meanwhile, of every cgroup that was
    /// reported as not decoded yet.
    pub(super) fn late_events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(decoded) = self.slow.answer(Duration::ZERO) {
            events.extend(self.take(decoded));
        }
        events
    }

    /// The events of a change that says of no cgroup that nothing changed.
    fn news(&mut self, decoded: DecodedStep) -> Vec<Event> {
        let mut events = self.take(decoded);
        events.retain(|event| !event.policy.as_ref().is_some_and(is_unchanged));
        events
    }

    fn take(&mut self, decoded: DecodedStep) -> Vec<Event> {
        self.gpus = decoded.gpus;
        decoded.events
    }
}

/// Decodes a change, for no longer than this.
fn decode(step: &ProgramsChange, limit: Duration) -> DecodedStep {
    let limit = TimeLimit::at(Instant::now().checked_add(limit));
    let mut comparison = NodeComparison::new(&step.before, &step.after, &limit);
    let events = events(step, &mut comparison);
    DecodedStep { events, gpus: comparison.gpus().to_vec(), is_late: limit.was_missed() }
}

/// Says that the policies of a change are not known yet.
fn not_yet(step: &ProgramsChange) -> Vec<Event> {
    let one = |path: &Text| Event::now(EventKind::Decoding).in_cgroup(path, None).because(NOT_YET);
    step.cgroups.iter().map(one).collect()
}

/// A change that nobody decodes any more: too many others wait.
fn given_up(step: &ProgramsChange) -> Vec<Event> {
    let lost = |path: &Text| Event {
        lost: Some(1),
        ..Event::at(EventKind::Lost, step.after.taken_at.clone()).in_cgroup(path, None).because(TOO_MANY)
    };
    step.cgroups.iter().map(lost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Answer, Observation};

    /// A saved node, and the same when one of its cgroups has lost its programs.
    fn step() -> ProgramsChange {
        let before: Observation =
            serde_json::from_str(include_str!("../../../fixtures/nodes/slurm-4gpu.json")).unwrap();
        let mut after = before.clone();
        let has_programs =
            |one: &&mut crate::observation::Cgroup| one.effective.known().is_some_and(|ids| !ids.is_empty());
        let cgroup = after.cgroups.iter_mut().rfind(has_programs).unwrap();
        cgroup.effective = Answer::Known(Vec::new());
        let cgroups = vec![cgroup.path.clone()];
        ProgramsChange { before, after, cgroups, ..ProgramsChange::default() }
    }

    /// Make sure that a change after which everything is allowed as before has no event, but
    /// where it was reported as not decoded yet: there it has one that says so.
    #[test]
    fn unchanged() {
        let mut step = step();
        step.after = step.before.clone();
        let [path] = &step.cgroups[..] else { panic!("one cgroup") };
        let cgroup = step.after.cgroups.iter_mut().find(|one| one.path == *path).unwrap();
        let ids = cgroup.effective.known().unwrap().repeat(2);
        cgroup.effective = Answer::Known(ids);
        let mut soon = StepDecoder { soon: LONG, ..StepDecoder::default() };
        assert_eq!(soon.events(step.clone()), []);
        let mut late =
            StepDecoder { soon: Duration::ZERO, patience: Duration::ZERO, ..StepDecoder::default() };
        let (go, wait) = std::sync::mpsc::channel::<()>();
        late.slow = Beside::start(move |step| {
            wait.recv().unwrap();
            decode(&step, LONG)
        });
        assert_eq!(late.events(step.clone())[0].event, EventKind::Decoding);
        go.send(()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let mut known = Vec::new();
        while known.is_empty() && Instant::now() < end {
            known = late.late_events();
        }
        let policy = known[0].policy.as_ref().unwrap();
        assert_eq!((known.len(), known[0].cgroup.as_deref()), (1, Some(&*path.lossy())));
        assert!(policy.equal && policy.attached.is_empty() && policy.changes.is_empty(), "{policy:?}");
    }

    /// Make sure that a change that takes long is reported as such, keeps nobody waiting, and is
    /// reported as any other when it is decoded.
    #[test]
    fn late() {
        let mut ordinary = StepDecoder { soon: LONG, ..StepDecoder::default() };
        let expected = ordinary.events(step());
        assert!(expected.iter().all(|event| event.event == EventKind::Policy) && !expected.is_empty());
        let mut late =
            StepDecoder { soon: Duration::ZERO, patience: Duration::ZERO, ..StepDecoder::default() };
        let (go, wait) = std::sync::mpsc::channel::<()>();
        late.slow = Beside::start(move |step| {
            wait.recv().unwrap();
            decode(&step, LONG)
        });
        let reported = late.events(step());
        assert_eq!(reported.iter().map(|event| event.event).collect::<Vec<_>>(), [EventKind::Decoding]);
        assert_eq!((reported[0].why.as_deref(), &reported[0].cgroup), (Some(NOT_YET), &expected[0].cgroup));
        assert!(late.late_events().is_empty());
        go.send(()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let mut known = Vec::new();
        while known.is_empty() && Instant::now() < end {
            known = late.late_events();
        }
        assert_eq!(known, expected);
        // Too many that nobody decodes are lost, and that is reported.
        let lost = std::iter::repeat_with(|| late.events(step())).find(|events| events[0].lost.is_some());
        assert_eq!(lost.unwrap()[0].why.as_deref(), Some(TOO_MANY));
    }
}
