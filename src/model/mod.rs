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
mod asked;
mod cell;
mod cgroup_path;
mod check_state;
mod device;
mod engine;
mod event;
mod finding;
mod gpu;
mod gpu_evidence;
mod grant;
mod in_force;
mod map_type;
mod matrix_order;
mod open_word;
mod owner;
mod owner_kind;
mod problem_code;
mod process_state;
mod program;
mod region_layout;
mod repair;
mod request;
mod rule;
mod source;
mod span;
mod vacancy;
mod variable;
mod verdict;

pub use activity::{CountTable, ProbeEngine};
pub use asked::{ApiName, Certainty, CutCode, ValueState};
pub use cell::{CellState, Membership};
pub use cgroup_path::{CgroupPath, CgroupPathBuf};
pub use check_state::CheckState;
pub use device::{Device, DeviceType, MAX_MAJOR, MAX_MINOR, RuleType};
pub use engine::EngineTask;
pub use event::{EventCause, EventKind};
pub use finding::{Confidence, FailOn, Severity};
pub use gpu::{InstanceKey, SharedRole, SharingMode, Vendor};
pub use gpu_evidence::GpuEvidence;
pub use grant::{GrantComparison, GrantedSet};
pub use in_force::{InForce, LimitCode, MeantBy};
pub use map_type::MapType;
pub use matrix_order::MatrixOrder;
pub use owner::{Owner, OwnerPart, OwnerRank, PodClass};
pub use owner_kind::OwnerKind;
pub use problem_code::{NoteCode, ProblemCode};
pub use process_state::ProcessState;
pub use program::{AttachFlag, Writer};
pub use region_layout::RegionLayout;
pub use repair::{IntentionSource, JournalState, RepairState, ReplaceMode};
pub use request::{BadRequests, Request, RequestSet};
pub use rule::{Mask, Numbers, Rule};
pub use source::{AllocationSource, JobEvidence, JobIdSource};
pub use span::Span;
pub use vacancy::Vacancy;
pub use variable::{HOOK_VARIABLES, LIMIT_VARIABLES, VARIABLES, choosing_variables, device_variables};
pub use verdict::{Verdict, Verdicts};
