//! The answer of `free`: whether GPUs are free for the next job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GpuSet, Process};
use crate::model::{GpuKey, Owner, Vacancy};

/// Whether some GPUs are free, and who holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Free {
    /// `free`, `held`, or `unknown`.
    pub state: Vacancy,
    /// The GPUs that were asked about.
    pub asked: GpuSet,
    /// The job whose own processes do not count; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The same as a number, as `owner.job_id` has it; left out for a SLUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u64>,
    /// Processes that hold one of them, or may.
    pub holders: Vec<Holder>,
}

impl Free {
    /// Whether there is certainly no GPU to ask about.
    pub fn is_about_none(&self) -> bool {
        let asked = &self.asked;
        asked.gpus.as_ref().is_some_and(Vec::is_empty)
            && asked.instances.is_empty()
            && asked.unknown.is_empty()
    }
}

/// A process that holds a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// The owner of the cgroup it is in.
    pub owner: Option<Owner>,
    /// Those of the GPUs asked about that it holds, instances as `KEY/GI/CI`; null if that is
    /// not known.
    pub gpus: Option<Vec<GpuKey>>,
    /// Whether it is a daemon that holds GPUs all the time, and so does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standing: bool,
}
