//! What is known of a process's environment, and how calls change it.

use crate::model::ValueState;
use crate::observation::{Environment, Text, Variable};
use crate::report::Value;
use crate::watch::NewValue;
use crate::watch::fact::LIMIT;

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
