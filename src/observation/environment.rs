//! The part of an environment that gpumap understands. The rest is never kept,
//! because environments hold secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;

/// An environment's known variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// In the order of the environment, repeated ones too: `getenv` takes the
    /// first.
    pub variables: Vec<Variable>,
    /// Why the environment was not read to its end. The variables that are listed
    /// are right; others may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// One variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// One of [`VARIABLES`](crate::model::VARIABLES),
    /// [`COMPONENT_VARIABLES`](crate::model::COMPONENT_VARIABLES) or
    /// [`LIMIT_VARIABLES`](crate::model::LIMIT_VARIABLES).
    pub name: String,
    /// Its value.
    pub value: Text,
    /// Whether the value is longer than the part that was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Environment {
    /// The variable that `getenv` finds: the first with this name.
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }
}
