//! Finds jobs and containers without any device program in force.

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant};
use crate::audit::{finding, wording};
use crate::model::{Confidence, Owner, OwnerKind, Severity, Verdict};
use crate::report::{Cgroup, Finding};

const JOB: Kind = Kind {
    id: "no-device-program",
    severity: Severity::Critical,
    title: "job without any device program",
    page: "\
The processes of a job are in cgroups on which no device program is in force, so the kernel lets them open \
every GPU of the node whose file permissions they pass. Variables such as CUDA_VISIBLE_DEVICES are advice \
that every program may ignore.

Causes: Slurm without ConstrainDevices=yes in cgroup.conf, or without File= in gres.conf; Slurm before \
25.05 after a program could not be loaded, which it only logs; Slurm in a user namespace without a BPF \
token, which skips the devices; HTCondor with STARTER_HIDE_GPU_DEVICES=false, or where it did not find the \
GPU's minor; OpenPBS and LSF on a host without the v1 devices controller; Flux under a user's systemd, \
which may not load programs; raw_exec of Nomad, which isolates nothing; somebody detached the programs.

Excuses: sharing.whole_node in the configuration, where jobs get whole nodes; sharing.gpus for each GPU \
that everybody may use; a v1 device cgroup other than the root's. A job without processes is left out.

What to do: let the scheduler constrain devices, and look into the log of its daemon for programs that could \
not be loaded. Slurm: ConstrainDevices=yes in cgroup.conf, and every GPU with File= or AutoDetect= in \
gres.conf. HTCondor: STARTER_HIDE_GPU_DEVICES=true. LSF: LSB_RESOURCE_ENFORCE=gpu in lsf.conf. ParaStation: \
its plugin jail; CraneSched: its device program; OAR: its job_resource_manager for systemd. Schedulers whose \
jobs run in cgroup v2 without device programs (OpenPBS) keep GPUs apart by whole nodes only, which \
sharing.whole_node says. Jobs that run already stay as they are.",
};

const CONTAINER: Kind = Kind {
    id: "program-detached",
    severity: Severity::Critical,
    title: "container whose device program is gone",
    page: "\
A container of docker, containerd, CRI-O, podman or Kubernetes runs without any device program in force and \
may open every GPU of the node. runc, crun and youki attach a program to each container's cgroup, to a \
privileged one too (there it allows everything), so a container without a program has lost it.

Causes: agents that want to see all GPUs detach the programs of their own container, as the Datadog agent \
does with gpu_monitoring.configure_cgroup_perms; a tool that hot-mounts devices failed half way; youki was \
built without its feature cgroupsv2_devices; the runtime is none of the three, such as a sandbox.

Excuses: a [[daemon]] entry of the configuration for the container's cgroup; sharing.whole_node and \
sharing.gpus; a container of a user's own engine, which has no right to attach programs and can open no \
more than its user; a v1 device cgroup other than the root's.

What to do: find out who detached it, and start the container again. For a monitoring agent that is to see \
every GPU, write a [[daemon]] entry, or let its specification ask for the devices.",
};

const UNLIMITED: Kind = Kind {
    id: "container-without-limit",
    severity: Severity::Warning,
    title: "container with the node's root and no device limit",
    page: "\
Processes of the node's root run in a container of LXC or systemd-nspawn on which no device program is in \
force. They may make device nodes and open every GPU of the node.

Causes: a privileged container of LXC whose configuration has no lxc.cgroup2.devices lines, or a system \
container that Incus made so; a machine that was registered without DevicePolicy=.

Excuses: containers whose processes all have users of their own (unprivileged ones), which may not make \
nodes; a [[daemon]] entry of the configuration for the container's cgroup; sharing.whole_node and \
sharing.gpus; a v1 device cgroup other than the root's.

What to do: run it unprivileged, or limit it (lxc.cgroup2.devices.deny = a and the devices that it may have; \
DevicePolicy=closed for a unit of systemd-nspawn).",
};

pub(super) const FAMILY: Family = Family { kinds: &[JOB, CONTAINER, UNLIMITED], find };

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    facts.tenants.iter().filter_map(|tenant| look(facts, tenant)).collect()
}

fn look(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let kind = kind_for(tenant.owner())?;
    let open: Vec<Place<'_>> = tenant.places().into_iter().filter(|place| is_open(facts, *place)).collect();
    let place = *open.first()?;
    let has_root = |place: &Place<'_>| place.cgroup.processes.iter().any(|process| process.uid == 0);
    if kind.id == UNLIMITED.id && !open.iter().any(has_root) {
        return None;
    }
    let gpus = facts.exclusive_with(place, Verdict::Allow);
    let summary = format!(
        "no device program constrains {}: it may open {}",
        wording::owner(tenant.owner()),
        wording::count(gpus.len())
    );
    let mut found = finding::about_gpus(facts, &kind, place, &gpus, summary);
    let paths = open.iter().map(|place| place.path.lossy().into_owned());
    found.evidence.extend(paths.map(|path| format!("no device program is in force on {path}")));
    explain(&mut found, tenant.owner(), kind.id, is_set(facts, tenant));
    Some(found)
}

/// Whether other jobs of the same scheduler have programs here: then it constrains
/// devices, and this one's were not loaded or were taken away.
fn is_set(facts: &Facts<'_>, tenant: &Tenant<'_>) -> bool {
    let kind = &tenant.owner().kind;
    facts.tenants.iter().any(|other| other.owner().kind == *kind && other.is_constrained())
}

fn explain(found: &mut Finding, owner: &Owner, kind: &str, is_set: bool) {
    found
        .excuses
        .push("the configuration shares these GPUs neither with everybody nor by whole nodes".to_owned());
    found.excuses.push("no v1 device cgroup constrains the processes".to_owned());
    if kind == JOB.id && is_set {
        found.evidence.push("other jobs of this scheduler have device programs on this node".to_owned());
        found.advice =
            "the scheduler constrains devices here: find out who detached this job's programs, or why they \
             could not be loaded when it began (the log of the scheduler's daemon), and start the job again"
                .to_owned();
        return;
    }
    if kind == JOB.id {
        found.advice = remedy(&owner.kind).to_owned();
        return;
    }
    if kind == UNLIMITED.id {
        found.evidence.push("processes of the node's root (uid 0) are in it".to_owned());
        found.excuses.push("no [[daemon]] entry covers its cgroup".to_owned());
        found.advice = "run it unprivileged, or limit its devices".to_owned();
        return;
    }
    found.confidence = Confidence::Likely;
    found.evidence.push(
        "assumed: its runtime attaches a program to every container, as runc, crun and youki do".to_owned(),
    );
    found.excuses.push("no [[daemon]] entry covers its cgroup".to_owned());
    found.advice =
        "find out who detached its program and start the container again, or write a [[daemon]] entry"
            .to_owned();
}

/// What makes a scheduler constrain its jobs.
fn remedy(kind: &OwnerKind) -> &'static str {
    match kind {
        OwnerKind::Slurm => {
            "let Slurm constrain devices (ConstrainDevices=yes in cgroup.conf, every GPU in gres.conf) and look \
             into slurmd's log for programs that could not be loaded"
        }
        OwnerKind::Parastation => {
            "let ParaStation constrain devices (psid's plugin jail) and look into psid's log for programs that \
             could not be loaded"
        }
        OwnerKind::Crane => {
            "let CraneSched constrain devices (its program cgroup_dev_bpf.o has to be there for craned) and look \
             into craned's log for why it is not loaded"
        }
        OwnerKind::Oar => {
            "let OAR constrain devices (its job_resource_manager for systemd loads oarcgdev) and look into its \
             log for programs that could not be loaded"
        }
        OwnerKind::Htcondor => {
            "let HTCondor constrain devices (STARTER_HIDE_GPU_DEVICES=true) and look into StarterLog for \
             programs that could not be loaded"
        }
        OwnerKind::Lsf => {
            "let LSF constrain devices (LSB_RESOURCE_ENFORCE=gpu in lsf.conf); a version that knows the v1 \
             devices controller alone cannot do so on this host"
        }
        OwnerKind::Pbs => {
            "the cgroups hook of OpenPBS knows the v1 devices controller alone: give whole nodes to jobs and say \
             so (sharing.whole_node), or let the hook attach a device program (gpumap prog --compile makes one)"
        }
        OwnerKind::Flux => {
            "let Flux run jobs as units of the system's systemd with DeviceAllow=, since a user's systemd may \
             not load programs"
        }
        OwnerKind::Nomad => {
            "run the task by a driver that limits devices (docker, podman, exec); raw_exec isolates nothing"
        }
        _ => {
            "let the scheduler constrain devices and look into its log for programs that could not be loaded; if \
             it cannot, give whole nodes to jobs and say so in the configuration (sharing.whole_node)"
        }
    }
}

/// The kind of finding; `None` for owners that need no program.
fn kind_for(owner: &Owner) -> Option<Kind> {
    if owner.kind.is_job() {
        return Some(JOB);
    }
    if matches!(owner.kind, OwnerKind::Lxc | OwnerKind::Nspawn) {
        return Some(UNLIMITED);
    }
    // A pod's program is that of its containers. Of a container in a job, the job is
    // what lacks a program.
    let mut around = std::iter::successors(owner.outer.as_deref(), |outer| outer.outer.as_deref());
    let excused =
        around.any(|outer| outer.kind.is_job() || matches!(outer.kind, OwnerKind::User | OwnerKind::Session));
    (owner.kind.is_container() && owner.container.is_some() && !excused).then_some(CONTAINER)
}

fn is_open(facts: &Facts<'_>, place: Place<'_>) -> bool {
    let cgroup = place.cgroup;
    let bare = cgroup.programs.is_empty() && cgroup.programs_unknown.is_none();
    let lives = !cgroup.processes.is_empty() && !is_in_v1_group(facts, cgroup);
    bare && lives && !facts.is_daemon(&cgroup.path) && !facts.exclusive_with(place, Verdict::Allow).is_empty()
}

/// Whether a v1 device cgroup below the root constrains one of the processes. Its
/// list may allow GPUs and still constrain.
fn is_in_v1_group(facts: &Facts<'_>, cgroup: &Cgroup) -> bool {
    let has_v1 = facts.observation().devices_v1.is_some();
    let group = |process| facts.observed(process).and_then(|process| process.devices_v1.as_ref());
    has_v1
        && cgroup.processes.iter().any(|process| group(process).is_none_or(|group| group.as_bytes() != b"/"))
}
