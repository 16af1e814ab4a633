//! A fact, or the reason why it is missing. The two never look alike: "there is
//! none" is a fact, "could not ask" is not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fact, or the reason why it is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// The fact.
    Known(T),
    /// The reason it could not be had, one clause.
    Missing(String),
}

impl<T> Answer<T> {
    /// The fact, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Missing(_) => None,
        }
    }

    /// The reason it is missing, if it is.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Missing(why) => Some(why),
        }
    }
}

impl<T: Default> Default for Answer<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}
