//! The four sets of an owner: allocated, allowed, visible, held.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{AllocationSource, GpuKey, Owner, SharingMode};
use crate::observation::UnseenProcesses;

/// One owner and its four sets. None is inferred from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerSets {
    /// The owner.
    pub owner: Owner,
    /// Its depth in the list: 0 for a job, 1 for its steps, 2 for their tasks and
    /// for containers inside.
    pub depth: usize,
    /// The topmost cgroup that is its.
    pub cgroup: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// The job array and the task of it that a job is, `4711_3` as squeue calls it, if the
    /// environments of its processes agree on it; its user can set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_task: Option<String>,
    /// The heterogeneous job and the component of it that a job is, `4711+1` as squeue calls
    /// it, said in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The users of its processes, sorted, by name where the node has one, else by uid; at
    /// most [`USERS_NAMED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Its processes, without those of the scheduler itself.
    pub processes: usize,
    /// Those that cannot be seen from where gpumap runs, so that what they ask for and
    /// hold is not known; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenProcesses>,
    /// The GPUs that the scheduler allocated.
    pub allocated: GpuSet,
    /// The GPUs that its processes may open (`rw`).
    pub allowed: GpuSet,
    /// The GPUs that its processes ask for now, by the environments in their memory.
    /// If those could not be read it is unknown, whatever the processes asked for at
    /// exec.
    pub visible: GpuSet,
    /// The GPUs that its processes have open.
    pub held: GpuSet,
    /// GPUs in `held` that the rules of the holding process deny now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_denied: Vec<GpuKey>,
    /// The GPUs that its processes handed work to since their calls are counted;
    /// left out where nobody counts them. Not known where the calls of one of them
    /// are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<GpuSet>,
    /// How many seconds ago its last call was; left out where no call was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// How it shares GPUs on purpose: `mig`, `shard`, `mps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SharingMode>,
}

impl OwnerSets {
    /// What squeue calls a job that is a task of an array or a component of another, as the
    /// environments of its processes say.
    pub fn squeue_name(&self) -> Option<&str> {
        self.array_task.as_deref().or(self.component.as_deref())
    }
}

/// Users that a row names: a container may have thousands.
pub const USERS_NAMED: usize = 16;

/// A set of GPUs by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuSet {
    /// GPUs that are certainly in the set, in inventory order; null if nothing is
    /// known of the set.
    pub gpus: Option<Vec<GpuKey>>,
    /// MIG instances in it, `KEY/GI/CI`; the GPUs they are on are in `gpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuKey>,
    /// GPUs that may or may not be in the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<GpuKey>,
    /// Why part of it is unknown, what it rests on, or why the processes' values
    /// select nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Where it comes from. Of `allocated`: `hook` (the environment of Prolog
    /// or Epilog), `given` (`--allocated`), or `claimed` (the environment of
    /// the job's processes, which the user can fake).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<AllocationSource>,
}

impl GpuSet {
    /// Whether this allocation comes from a source that no user can fake.
    pub fn is_trusted(&self) -> bool {
        self.source.as_ref().is_some_and(AllocationSource::is_trusted)
    }

    /// The source as text; `unknown` if it is not known.
    pub fn source_name(&self) -> String {
        self.source.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
    }
}
