//! A variable's state: unset, empty and a value are three different things,
//! and not having seen it is a fourth.

use crate::model::ValueState;
use crate::observation::{Answer, Environment, Text, Variable};

/// What an environment says of one variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum VariableState<'a> {
    /// It is certainly not set.
    Unset,
    /// It is set to nothing.
    Empty,
    /// It has a value, of which the end may be missing.
    Value(&'a Variable),
    /// It could not be seen, for this reason.
    Unknown(&'a str),
}

impl<'a> VariableState<'a> {
    /// The state of the first variable with this name, which is the one that
    /// `getenv` finds (POSIX leaves repeated names open; libc takes the first).
    pub(super) fn of(environment: &'a Answer<Environment>, name: &str) -> Self {
        let environment = match environment {
            Answer::Known(environment) => environment,
            Answer::Missing(why) => return Self::Unknown(why),
        };
        match (environment.get(name), &environment.cut) {
            (Some(variable), _) if variable.value.is_empty() && !variable.cut => Self::Empty,
            (Some(variable), _) => Self::Value(variable),
            (None, Some(why)) => Self::Unknown(why),
            (None, None) => Self::Unset,
        }
    }

    /// The state without the value.
    pub(super) fn kind(self) -> ValueState {
        match self {
            Self::Unset => ValueState::Unset,
            Self::Empty => ValueState::Empty,
            Self::Value(_) => ValueState::Value,
            Self::Unknown(_) => ValueState::Unknown,
        }
    }

    /// The value lossily, if there is one.
    pub(super) fn raw(self) -> Option<String> {
        match self {
            Self::Value(variable) => Some(variable.value.lossy().into_owned()),
            Self::Empty => Some(String::new()),
            Self::Unset | Self::Unknown(_) => None,
        }
    }

    /// Hex of the value if it is not UTF-8.
    pub(super) fn raw_hex(self) -> Option<String> {
        self.value().and_then(Text::hex)
    }

    /// The value if it is not empty.
    pub(super) fn value(self) -> Option<&'a Text> {
        match self {
            Self::Value(variable) => Some(&variable.value),
            _ => None,
        }
    }

    /// Whether it is set.
    pub(super) fn is_set(self) -> bool {
        matches!(self, Self::Empty | Self::Value(_))
    }
}
