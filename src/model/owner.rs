//! Owners of cgroups: jobs, steps, tasks, pods, containers, units; their kinds, where a
//! statement about a job comes from, and whether its user can fake it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// The owner of a cgroup, read from its path: the innermost one whose name root's
/// daemons gave. Fields that do not apply to a kind are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// What it is. `cgroup` is a path without a known owner; the path is then in
    /// `name`, in lists of owners and where there are `claims`. Inside a job, whose owner is
    /// `outer`, it is a cgroup with device programs that the scheduler did not make, and `name`
    /// is the path from there.
    pub kind: OwnerKind,
    /// Job number, of a scheduler whose ids are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u64>,
    /// The source of `job_id`: `path`, `stepd-title`, `stepd-socket`, or
    /// `environment`, which the user can fake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id_source: Option<JobIdSource>,
    /// Job id of a scheduler whose ids are text (PBS, Flux), allocation of Nomad, task of
    /// an array of Grid Engine (`17.3`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Slurm's SLUID, `s` and 13 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sluid: Option<String>,
    /// When the job was submitted, RFC 3339, as its SLUID says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<Time>,
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
    /// Name of a machine, container, slot, or unit; of a pod `NAMESPACE/NAME`, where the
    /// kubelet's directories tell it.
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

    /// All of it: the job of a step or task, the container of its monitor, without what is
    /// around it.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self {
            job_id_source: None,
            step: None,
            het_component: None,
            task: None,
            part: None,
            outer: None,
            claims: Vec::new(),
            ..self.clone()
        }
    }

    /// The owner alone, without what the names inside it claim.
    #[must_use]
    pub fn identity(&self) -> Self {
        Self { claims: Vec::new(), ..self.clone() }
    }
}

open_words! {
    /// The kind of an owner of cgroups: a job of a scheduler, a container, a
    /// service; in the order of the words.
    pub enum OwnerKind {
        /// A container of Apptainer.
        Apptainer,
        /// A path without a known owner.
        #[default]
        Cgroup,
        /// A container of containerd.
        Containerd,
        /// A job of CraneSched.
        Crane,
        /// A container of CRI-O.
        CriO,
        /// A container of Docker.
        Docker,
        /// A task of Amazon ECS, which has containers.
        Ecs,
        /// A job of Flux.
        Flux,
        /// A job of Grid Engine.
        GridEngine,
        /// A slot of HTCondor.
        Htcondor,
        /// A virtual machine or container of libvirt.
        Libvirt,
        /// A job of IBM Spectrum LSF.
        Lsf,
        /// A container of LXC.
        Lxc,
        /// A container of nerdctl.
        Nerdctl,
        /// An allocation of Nomad.
        Nomad,
        /// A container of systemd-nspawn.
        Nspawn,
        /// A job of OAR.
        Oar,
        /// A job of ParaStation.
        Parastation,
        /// A job of PBS.
        Pbs,
        /// A pod of Kubernetes.
        Pod,
        /// A container of Podman.
        Podman,
        /// A login session.
        Session,
        /// A job of Slurm.
        Slurm,
        /// A unit of systemd.
        Unit,
        /// A user's own systemd.
        User,
    }
}

impl OwnerKind {
    /// Whether it is a job of a scheduler. A kind that this version does not know is taken
    /// for one: the site's configuration names jobs of further schedulers so.
    pub fn is_job(&self) -> bool {
        use OwnerKind::{Crane, Flux, GridEngine, Htcondor, Lsf, Nomad, Oar, Other, Parastation, Pbs, Slurm};
        matches!(
            self,
            Slurm | Parastation | Crane | Oar | Pbs | Flux | Htcondor | GridEngine | Lsf | Nomad | Other(_)
        )
    }

    /// Whether its jobs have Slurm's numbers, variables and cgroups: ParaStation
    /// takes the place of slurmd alone.
    pub fn is_slurm(&self) -> bool {
        matches!(self, Self::Slurm | Self::Parastation)
    }

    /// Whether its scheduler writes device programs by records of its own, and would not
    /// know of one that gpumap puts in their place.
    pub fn has_recorded_limits(&self) -> bool {
        matches!(self, Self::Htcondor | Self::Crane | Self::Oar | Self::Parastation)
    }

    /// Whether it is a container or pod whose engine decides about devices.
    pub fn is_container(&self) -> bool {
        use OwnerKind::{Containerd, CriO, Docker, Ecs, Nerdctl, Pod, Podman};
        matches!(self, Docker | Containerd | Nerdctl | CriO | Podman | Pod | Ecs)
    }

    /// Whether it is part of the machine itself, to which no GPUs are allocated.
    pub fn is_service(&self) -> bool {
        matches!(self, Self::Unit | Self::Session | Self::User | Self::Cgroup)
    }
}

open_words! {
    /// The source of an allocation.
    pub enum AllocationSource {
        /// The environment of the job's processes, which the user can fake.
        #[default]
        Claimed,
        /// The caller of gpumap (`--allocated`).
        Given,
        /// The environment of Prolog or Epilog.
        Hook,
    }
}

impl AllocationSource {
    /// Whether no user can fake it.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Given | Self::Hook)
    }
}

open_words! {
    /// The source of a job's number.
    pub enum JobIdSource {
        /// The environment of its processes, which the user can fake.
        #[default]
        Environment,
        /// The path of its cgroup.
        Path,
        /// The socket that its slurmstepd listens on.
        StepdSocket,
        /// The title of its slurmstepd.
        StepdTitle,
    }
}

open_words! {
    /// The evidence that a process belongs to a job.
    pub enum JobEvidence {
        /// Its cgroup.
        #[default]
        Cgroup,
        /// Its environment names the job, and it left the job's cgroup.
        Environment,
        /// Nothing: it is in no job's cgroup, and its environment is not known.
        Unknown,
    }
}

open_words! {
    /// A set of GPUs that is compared between the nodes of a job.
    pub enum GrantedSet {
        /// What Slurm's hooks were told.
        Allocated,
        /// What the kernel lets the job open.
        #[default]
        Allowed,
    }
}

open_words! {
    /// How a node's grant compares with what most nodes of the job have.
    pub enum GrantComparison {
        /// The same number of the same models.
        Same,
        /// None, or fewer of the same models.
        Missing,
        /// More of the same models.
        Extra,
        /// Other models.
        Different,
        /// One of the two is not known.
        #[default]
        Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that words and kinds are one to one, for JSON too.
    #[test]
    fn words() {
        for word in ["slurm", "cri-o", "htcondor", "cgroup", "something-new"] {
            let kind = OwnerKind::of(word);
            assert_eq!(kind.to_string(), word);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<OwnerKind>(&format!("\"{word}\"")).unwrap(), kind);
        }
        assert_eq!(OwnerKind::of("cri-o"), OwnerKind::CriO);
        assert_eq!(OwnerKind::of("zorro"), OwnerKind::Other("zorro".to_owned()));
    }
}
