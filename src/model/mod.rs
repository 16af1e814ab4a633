//! The words of the field as types: what every stage of gpumap speaks of.
//!
//! Facts, analysis, findings and events all use these, so that a verdict or
//! an owner's kind cannot be mistyped. Their JSON is the word in the schemas.

/// Defines a closed set of words: an enum whose JSON and text are the names of
/// its variants in kebab-case.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($variants:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name { $($variants)* }
    };
}

mod asked;
mod cgroup_path;
mod device;
mod finding;
mod owner;
mod owner_kind;
mod request;
mod variable;
mod verdict;

pub use asked::{Certainty, ValueState};
pub use cgroup_path::CgroupPath;
pub use device::{Device, DeviceType, MAX_MAJOR, MAX_MINOR};
pub use finding::{Confidence, Severity};
pub use owner::Owner;
pub use owner_kind::OwnerKind;
pub use request::{Request, RequestSet};
pub use variable::{HOOK_VARIABLES, VARIABLES, choosing_variables, device_variables};
pub use verdict::{Verdict, Verdicts};
