//! Owners of cgroups: jobs, steps, tasks, pods, containers, units.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JobIdSource, OwnerKind};

/// The owner of a cgroup, read from its path: the innermost one whose name root's
/// daemons gave. Fields that do not apply to a kind are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// What it is. `cgroup` is a path without a known owner; the path is then in
    /// `name`, in lists of owners and where there are `claims`.
    pub kind: OwnerKind,
    /// Job number of Slurm, ParaStation, CraneSched or OAR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u64>,
    /// The source of `job_id`: `path`, `stepd-title`, `stepd-socket`, or
    /// `environment`, which the user can fake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id_source: Option<JobIdSource>,
    /// Job id of a scheduler whose ids are text (PBS, Flux).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Slurm's SLUID, `s` and 13 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sluid: Option<String>,
    /// When the job was submitted, RFC 3339, as its SLUID says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<String>,
    /// Step: a number, `batch`, `extern`, `interactive`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Component of a heterogeneous job's step (`step_0+1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub het_component: Option<u32>,
    /// Task: a number (node-local up to Slurm 23.02, global later) or
    /// `special`, where adopted processes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Slurm's node name, where the path has it (several slurmd on one host).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Part of it that is not the user's: `slurm` (the step's daemon),
    /// `system`, `monitor` (a container's), `slurmd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<OwnerPart>,
    /// Container id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Pod uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Pod's class: `guaranteed`, `burstable`, `besteffort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<PodClass>,
    /// Name of a machine, container, slot, or unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user's uid, as the path says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user's name, where the path says that (ParaStation, OAR under cgroup v1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Login session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The owner around it: the pod of a container, the job a container was
    /// started in, the container that Slurm runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<Box<Owner>>,
    /// What the names of cgroups inside it say, the outermost first. Processes that
    /// run there may have made these cgroups: the names are no identity, and a job
    /// that is named only here is not that job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Owner>,
}

open_words! {
    /// A part of an owner's cgroups that runs nothing of the user's.
    pub enum OwnerPart {
        /// The monitor of a container.
        #[default]
        Monitor,
        /// The daemon of a step of Slurm's.
        Slurm,
        /// The daemon of Slurm's node.
        Slurmd,
        /// Slurm's or CraneSched's own processes.
        System,
    }
}

open_words! {
    /// The class of a pod (quality of service).
    pub enum PodClass {
        /// Requests nothing.
        #[default]
        Besteffort,
        /// Requests less than its limits.
        Burstable,
        /// Requests as much as its limits.
        Guaranteed,
    }
}

/// The order of owners in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerRank {
    /// A batch system's job.
    Job,
    /// A pod or container.
    Container,
    /// A virtual machine.
    Machine,
    /// Anything else.
    Other,
}

impl Owner {
    /// Whether it is something that users run: a batch system's job, a container,
    /// a pod or a virtual machine, and no service, login or mere directory.
    #[must_use]
    pub fn is_workload(&self) -> bool {
        match &self.kind {
            OwnerKind::Slurm => self.job_id.is_some() || self.sluid.is_some(),
            kind => !kind.is_service(),
        }
    }

    /// Its place in a list.
    #[must_use]
    pub fn rank(&self) -> OwnerRank {
        match &self.kind {
            _ if !self.is_workload() => OwnerRank::Other,
            kind if kind.is_job() => OwnerRank::Job,
            OwnerKind::Libvirt => OwnerRank::Machine,
            _ => OwnerRank::Container,
        }
    }

    /// The owner alone, without what the names inside it claim.
    #[must_use]
    pub fn identity(&self) -> Self {
        Self { claims: Vec::new(), ..self.clone() }
    }
}
