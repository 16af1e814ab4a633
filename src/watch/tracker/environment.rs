//! What is known of a process's environment, how changes of variables are applied to it, and
//! whether a change has an effect: the driver's library that reads a variable does so once,
//! when it is initialised.
//!
//! CUDA says so of `cuInit`; HIP and ROCr set up their lists of devices in
//! `hipInit` and `hsa_init`, and HIP initialises ROCr. Of other variables no
//! library is watched, so nothing is said.

use std::time::Duration;

use super::Tracker;
use crate::model::{EventCause, EventKind, ValueState};
use crate::observation::{Environment, Text, Variable};
use crate::probing::driver::{Driver, Drivers};
use crate::report::{Asked, Event, Value};
use crate::watch::fact::LIMIT;
use crate::watch::{EventSubject, NewValue};

/// The value that a variable has now, in the words of an answer.
pub(super) fn value(environment: &Environment, name: &str) -> Option<Value> {
    match environment.get(name) {
        Some(variable) => Some(of_variable(variable)),
        None if environment.cut.is_some() => None,
        None => Some(Value { state: ValueState::Unset, ..Value::default() }),
    }
}

fn of_variable(variable: &Variable) -> Value {
    of_bytes(variable.value.as_bytes(), variable.cut)
}

fn of_bytes(bytes: &[u8], cut: bool) -> Value {
    let kept = Text::from(bytes.get(..LIMIT).unwrap_or(bytes));
    Value {
        state: if bytes.is_empty() { ValueState::Empty } else { ValueState::Value },
        raw: (!bytes.is_empty()).then(|| kept.lossy().into_owned()),
        raw_hex: kept.hex(),
        cut: cut || bytes.len() > LIMIT,
    }
}

/// What a call made of a variable, in the words of an answer; `None` where
/// that could not be read.
pub(super) fn of_new(new: &NewValue) -> Option<Value> {
    match new {
        NewValue::Unset => Some(Value { state: ValueState::Unset, ..Value::default() }),
        NewValue::Value { bytes, cut } => Some(of_bytes(bytes, *cut)),
        NewValue::Unread => None,
    }
}

/// Does what the call did: the first entry gets the value, as the C library
/// does it, or all entries go.
pub(super) fn apply(environment: &mut Environment, name: &str, value: &NewValue) {
    match value {
        NewValue::Unset => environment.variables.retain(|variable| variable.name != name),
        NewValue::Value { bytes, cut } => {
            let new = Variable { name: name.to_owned(), value: bytes.as_slice().into(), cut: *cut };
            match environment.variables.iter_mut().find(|variable| variable.name == name) {
                Some(variable) => *variable = new,
                None => environment.variables.push(new),
            }
        }
        NewValue::Unread => {}
    }
}

/// The values are kept no longer than the kernel side keeps them, so that the
/// two can be compared.
pub(super) fn shorten(environment: &mut Environment) {
    for variable in &mut environment.variables {
        if let Some(kept) = variable.value.as_bytes().get(..LIMIT).map(Text::from) {
            variable.cut |= kept != variable.value;
            variable.value = kept;
        }
    }
}

/// Names of variables that choose devices and differ, or are only in one of
/// the two.
pub(super) fn differences(before: &Environment, now: &Environment) -> Vec<String> {
    let names = before.variables.iter().chain(&now.variables).map(|variable| variable.name.as_str());
    let mut names: Vec<&str> = names.filter(|name| chooses(name)).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&str| {
        let (before, now) = (value(before, name), value(now, name));
        before.is_some() && now.is_some() && before != now
    };
    names.into_iter().filter(differs).map(str::to_owned).collect()
}

/// Whether a variable is about devices, and not about a job.
pub(super) fn chooses(name: &str) -> bool {
    !name.starts_with("SLURM")
}

/// One changed variable.
pub(super) struct ChangedVariable<'a> {
    /// When, in nanoseconds since boot.
    pub(super) at: u64,
    /// What changed it.
    pub(super) how: EventCause,
    pub(super) name: &'a str,
    pub(super) old: Option<Value>,
    pub(super) new: Option<Value>,
    /// What the process asked for before, where that is known.
    pub(super) before: Option<Asked>,
}

impl Tracker {
    /// A call of setenv, putenv or unsetenv.
    pub(super) fn set(
        &mut self,
        at: u64,
        subject: &EventSubject,
        how: EventCause,
        name: &'static str,
        new: NewValue,
        keep: bool,
    ) -> Option<Event> {
        let state = self.state(subject)?;
        let followed = state.is_followed(name, at);
        let before = state.environment.as_ref().filter(|_| followed);
        let old = before.and_then(|before| value(before, name));
        if keep && old.as_ref().is_some_and(|old| old.state != ValueState::Unset) {
            return None;
        }
        let unsure = keep && old.is_none();
        let new = self.look(subject, name, new, unsure)?;
        let changed = of_new(&new);
        if changed.is_some() && changed == old {
            return None;
        }
        let before = if followed { self.asked(subject) } else { None };
        self.state(subject)?.change(name, |environment| apply(environment, name, &new));
        self.changed(subject, ChangedVariable { at, how, name, old, new: changed, before })
    }

    /// A call that changed a variable whose name could not be read without
    /// waiting for a page of the process. What it has is read again soon, and what
    /// differs then is reported.
    pub(super) fn unnamed(&mut self, subject: &EventSubject) {
        if let Some(state) = self.state(subject) {
            state.doubtful = true;
            state.changes += 1;
            self.doubtful.insert(subject.account, subject.pid);
        }
    }

    /// Reads the process's memory where it alone can tell: the whole
    /// environment if it is not known, the value if the kernel side could not
    /// read it, or whether a call that keeps what is there (`unsure`) set
    /// anything. The value then, `None` if nothing was set.
    fn look(
        &mut self,
        subject: &EventSubject,
        name: &'static str,
        new: NewValue,
        unsure: bool,
    ) -> Option<NewValue> {
        let unknown = self.state(subject)?.environment.is_none();
        if !unknown && !unsure && new != NewValue::Unread {
            return Some(new);
        }
        let memory = self.read(subject);
        let there = memory.as_ref().and_then(|memory| memory.environment.get(name));
        let there = there.map(|there| (there.value.as_bytes().to_vec(), there.cut));
        let seen = there.map(|(bytes, cut)| NewValue::Value { bytes, cut });
        match memory.filter(|_| unknown) {
            Some(memory) => self.state(subject)?.learn(memory),
            None if unknown => self.state(subject)?.begin(),
            None => {}
        }
        if unsure && seen.is_some() && seen.as_ref() != Some(&new) {
            return None;
        }
        Some(if new == NewValue::Unread { seen.unwrap_or(new) } else { new })
    }

    /// A call of clearenv.
    pub(super) fn cleared(&mut self, at: u64, subject: &EventSubject) -> Vec<Event> {
        let how = EventCause::Clearenv;
        let asked = self.asked(subject);
        let Some(state) = self.state(subject) else { return Vec::new() };
        // Memory that is ahead of this call says nothing of before.
        let followed = state.is_followed("", at);
        let now = Environment::default();
        let Some(known) = state.replace(Some(now.clone())).filter(|_| followed) else {
            let change = ChangedVariable { at, how, name: "", old: None, new: None, before: None };
            let event = self.changed(subject, change);
            return event.into_iter().map(|event| Event { variable: None, new: None, ..event }).collect();
        };
        let names = differences(&known, &now);
        let change = |name: &String| {
            let (old, new) = (value(&known, name), value(&now, name));
            self.changed(subject, ChangedVariable { at, how, name, old, new, before: asked.clone() })
        };
        names.iter().filter_map(change).collect()
    }

    /// The event of a change that the environment has already.
    pub(super) fn changed(&mut self, subject: &EventSubject, change: ChangedVariable<'_>) -> Option<Event> {
        let at = self.node.time(change.at);
        let state = self.state(subject)?;
        state.changes += 1;
        state.reported = true;
        if let Some(last) = state.last_set.get_mut(change.name) {
            *last = at;
        } else if !change.name.is_empty() {
            state.last_set.insert(change.name.to_owned(), at);
        }
        let asked = self.asked(subject);
        let why = match (&change.new, &asked) {
            (None, _) => Some("the value could not be read".to_owned()),
            (Some(_), Some(asked)) => self.why_none(subject, asked, Some(change.name)),
            (Some(_), None) => None,
        };
        Some(Event {
            how: Some(change.how),
            variable: Some(change.name.to_owned()),
            why,
            old: change.old,
            new: change.new,
            asked_before: change.before.filter(|_| asked.is_some()),
            asked,
            effective: self.effective(change.name, change.at, subject),
            ..self.about(EventKind::Visible, at.into(), subject)
        })
    }

    /// Whether a change has an effect in its process.
    fn effective(&mut self, name: &str, at: u64, subject: &EventSubject) -> Option<bool> {
        let mut effect = self.state(subject)?.effect;
        let now = self.node.now();
        let answer = effect.of(name, at, now, || self.node.mapped_drivers(subject.pid));
        self.state(subject)?.effect = effect;
        answer
    }
}

/// How long a process that maps a library is not looked at again. The answer is
/// "not known" meanwhile, which is never wrong.
const MAPPED: Duration = Duration::from_millis(100);

/// Who reads a variable.
struct Readers {
    drivers: Drivers,
    /// Whether it is known that they never read it again.
    once: bool,
}

/// What is known of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effect {
    initialised: Drivers,
    /// The libraries that it mapped, and when that was seen, in nanoseconds
    /// since boot.
    mapped: Drivers,
    looked: u64,
}

fn readers(name: &str) -> Option<Readers> {
    let (drivers, once): (&[Driver], bool) = match name {
        // HIP takes it where HIP_VISIBLE_DEVICES is not set.
        "CUDA_VISIBLE_DEVICES" => (&[Driver::Cuda, Driver::Hip], true),
        "CUDA_DEVICE_ORDER" => (&[Driver::Cuda], true),
        "CUDA_MPS_PIPE_DIRECTORY" | "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" => (&[Driver::Cuda], false),
        "HIP_VISIBLE_DEVICES" => (&[Driver::Hip], true),
        "ROCR_VISIBLE_DEVICES" => (&[Driver::Hsa], true),
        _ => return None,
    };
    Some(Readers { drivers: Drivers::of(drivers), once })
}

impl Effect {
    /// A library was initialised.
    pub(super) fn initialise(&mut self, driver: Driver) {
        self.initialised = self.initialised.and(driver);
        if driver == Driver::Hip {
            self.initialised = self.initialised.and(Driver::Hsa);
        }
    }

    /// The same for a child that was forked.
    pub(super) fn inherited(self) -> Self {
        Self { initialised: self.initialised, ..Self::default() }
    }

    /// Whether a change at this moment has an effect; `None` if that is not
    /// known, as where a library is mapped that may have been initialised
    /// before anybody watched. `look` tells what is mapped `now`; `None` of a
    /// process that is gone, which will initialise nothing more.
    pub(super) fn of(
        &mut self,
        name: &str,
        at: u64,
        now: u64,
        look: impl FnOnce() -> Option<Drivers>,
    ) -> Option<bool> {
        let Readers { drivers, once } = readers(name)?;
        let late = once.then_some(false);
        let done = self.initialised.both(drivers);
        if done == drivers {
            return late;
        }
        if self.looked < at {
            let recent = u128::from(now.saturating_sub(self.looked)) < MAPPED.as_nanos();
            if recent && done.is_empty() && !self.mapped.both(drivers).is_empty() {
                return None;
            }
            match look() {
                Some(mapped) => (self.mapped, self.looked) = (mapped, now),
                None => return late.filter(|_| !done.is_empty()),
            }
        }
        let open = self.mapped.both(drivers).without(done);
        match (open.is_empty(), done.is_empty()) {
            (false, _) => None,
            (true, true) => Some(true),
            (true, false) => late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(value: &str) -> NewValue {
        NewValue::Value { bytes: value.into(), cut: false }
    }

    /// Make sure that calls do to the copy what they do to the process.
    #[test]
    fn calls() {
        let mut environment = Environment::default();
        let before = environment.clone();
        apply(&mut environment, "A", &set("1"));
        apply(&mut environment, "A", &set(""));
        assert_eq!(value(&environment, "A").map(|value| value.state), Some(ValueState::Empty));
        assert_eq!(differences(&before, &environment), ["A"]);
        apply(&mut environment, "SLURM_JOB_ID", &set("1"));
        apply(&mut environment, "A", &NewValue::Unset);
        assert!(differences(&before, &environment).is_empty());
    }

    /// Make sure that an environment that was not read to its end does not say
    /// that a variable is unset.
    #[test]
    fn cut() {
        let environment = Environment { variables: Vec::new(), cut: Some("long".to_owned()) };
        assert_eq!(value(&environment, "A"), None);
    }
}

#[cfg(test)]
mod effect_tests {
    use super::*;

    const CUDA: &str = "CUDA_VISIBLE_DEVICES";
    const HIP: &str = "HIP_VISIBLE_DEVICES";
    const ROCR: &str = "ROCR_VISIBLE_DEVICES";

    fn at(effect: &mut Effect, name: &str, moment: u64, mapped: &[Driver]) -> Option<bool> {
        effect.of(name, moment, moment + 1, || Some(Drivers::of(mapped)))
    }

    /// Make sure that a driver takes the effect of its own variables alone.
    #[test]
    fn own_variables() {
        let mut effect = Effect::default();
        effect.initialise(Driver::Cuda);
        let mapped = [Driver::Cuda];
        assert_eq!(at(&mut effect, CUDA, 10, &mapped), Some(false));
        assert_eq!(at(&mut effect, "CUDA_DEVICE_ORDER", 20, &mapped), Some(false));
        assert_eq!(at(&mut effect, "CUDA_MPS_PIPE_DIRECTORY", 30, &mapped), None);
        assert_eq!(at(&mut effect, HIP, 40, &mapped), Some(true));
        assert_eq!(at(&mut effect, ROCR, 50, &mapped), Some(true));
        assert_eq!(at(&mut effect, "ZE_AFFINITY_MASK", 60, &mapped), None);
    }

    /// Make sure that HIP initialises ROCr, and that CUDA's variable stays open
    /// where only one of its readers is done.
    #[test]
    fn both_readers() {
        let mut effect = Effect::default();
        effect.initialise(Driver::Hip);
        let mapped = [Driver::Hip, Driver::Hsa, Driver::Cuda];
        assert_eq!(at(&mut effect, HIP, 10, &mapped), Some(false));
        assert_eq!(at(&mut effect, ROCR, 20, &mapped), Some(false));
        assert_eq!(at(&mut effect, CUDA, 30, &mapped), None);
        effect.initialise(Driver::Cuda);
        assert_eq!(at(&mut effect, CUDA, 40, &mapped), Some(false));
    }

    /// Make sure that what a process did before it ended decides.
    #[test]
    fn ended() {
        let mut effect = Effect::default();
        assert_eq!(effect.of(CUDA, 10, 11, || None), None);
        effect.initialise(Driver::Cuda);
        assert_eq!(effect.of(CUDA, 20, 21, || None), Some(false));
        assert_eq!(effect.of("CUDA_MPS_PIPE_DIRECTORY", 20, 21, || None), None);
    }

    /// Make sure that a library that is mapped may have been initialised unseen,
    /// and that one that was not mapped later was not.
    #[test]
    fn mapped() {
        let mut effect = Effect::default();
        assert_eq!(at(&mut effect, CUDA, 10, &[Driver::Cuda]), None);
        // Not looked at again so soon.
        assert_eq!(at(&mut effect, CUDA, 20, &[]), None);
        let later = 20 + u64::try_from(MAPPED.as_nanos()).unwrap();
        assert_eq!(at(&mut effect, CUDA, later, &[]), Some(true));
        assert_eq!(effect.of(CUDA, later, later, || None), Some(true));
        assert_eq!(effect.of(CUDA, 2 * later, 2 * later, || None), None);
    }
}
