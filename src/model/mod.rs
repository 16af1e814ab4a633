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

/// Defines a set of words that later versions may add to: as `words!`, with
/// `Other` for a word that this version does not know.
macro_rules! open_words {
    ($(#[$about:meta])* pub enum $name:ident { $($variants:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, schemars::JsonSchema)]
        #[derive(strum::Display, strum::EnumString)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name {
            $($variants)*
            /// A word that a later gpumap knows.
            #[strum(default)]
            #[serde(untagged)]
            Other(String),
        }

        impl $name {
            /// The variant of a word; every word has one.
            pub fn of(word: &str) -> Self {
                word.parse().unwrap_or_else(|_| Self::Other(word.to_owned()))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::model::open_word::deserialize(deserializer, Self::of)
            }
        }
    };
}

mod activity;
mod cgroup_path;
mod device;
mod environment;
mod event;
mod finding;
mod gpu;
mod matrix;
mod open_word;
mod order;
mod owner;
mod problem;
mod process_state;
mod program;
mod repair;
mod request;
mod rule;
mod time;
mod vacancy;
mod vgpu;

pub use activity::{CountTable, EngineTask, GpuEvidence, ProbeEngine};
pub use cgroup_path::{CgroupPath, CgroupPathBuf, is_id};
pub use device::{Device, DeviceType, MAX_MAJOR, MAX_MINOR, RuleType, Span};
pub use environment::{
    ApiName, COMPONENT_VARIABLES, Certainty, CutCode, HOOK_VARIABLES, LIMIT_VARIABLES, VARIABLES, ValueState,
    choosing_variables, device_variables,
};
pub use event::{EventCause, EventKind};
pub use finding::{Confidence, FailOn, Severity};
pub use gpu::{GpuKey, SharedRole, SharingMode, Vendor};
pub use matrix::{CellState, MatrixOrder, Membership};
pub use order::InOrder;
pub use owner::{
    AllocationSource, GrantComparison, GrantedSet, JobEvidence, JobIdSource, Owner, OwnerKind, OwnerPart,
    OwnerRank, PodClass,
};
pub use problem::{CheckState, NoteCode, ProblemCode};
pub use process_state::ProcessState;
pub use program::{AttachFlag, MapType, Writer};
pub use repair::{IntentionSource, JournalState, RepairState, ReplaceMode};
pub use request::{BadRequests, Request, RequestSet, Verdict, Verdicts};
pub use rule::{Mask, Numbers, Rule};
pub use time::Time;
pub use vacancy::Vacancy;
pub use vgpu::{InForce, LimitCode, MeantBy, RegionLayout};
