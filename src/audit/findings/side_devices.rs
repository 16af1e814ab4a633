//! Finds devices other than the GPUs themselves that give access to a GPU and are open to
//! a tenant that does not need them, or to two: DRM nodes, the MIG configuration, IMEX
//! channels. File permissions of the nodes count too.

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, may_share};
use crate::audit::{finding, wording};
use crate::gpu;
use crate::model::{Confidence, DeviceType, Owner, Request, Severity, Vendor, Verdict};
use crate::observation::DeviceNode;
use crate::report::{Cgroup, Finding, FindingDevice};

const RENDER: Kind = Kind {
    id: "render-node-open",
    severity: Severity::Warning,
    title: "a denied GPU's DRM node is open",
    page: "\
A job or container may not open an NVIDIA GPU (/dev/nvidiaN), but may open its render or card node below \
/dev/dri. With modeset on, nvidia-drm lets a process that has the render node open allocate memory on the \
GPU. The process cannot compute there or read the memory of others, but it can use up memory of the GPU's \
owner.

Causes: Slurm, HTCondor and ParaStation deny the devices in their configuration and allow the rest; udev \
gives render nodes mode 0666 on many distributions; drivers from 560 on turn modeset on by default.

Excuses: modeset is off (/sys/module/nvidia_drm/parameters/modeset is N), so that the node can do nothing, \
or was not observed; file permissions that let neither everybody nor a user of the job in; \
sharing.whole_node and sharing.gpus. AMD's and Intel's render nodes are the GPUs themselves; /dev/kfd of \
AMD gives no access without a render node.

What to do: list the DRM nodes in gres.conf (MultipleFiles=/dev/nvidia0,/dev/dri/renderD128), give them \
mode 0660, or load nvidia-drm with modeset=0.",
};

const CONFIG: Kind = Kind {
    id: "mig-config-open",
    severity: Severity::Critical,
    title: "a tenant may change the MIG configuration",
    page: "\
A job or container may open the capability node mig/config of nvidia-caps, by which MIG instances of all \
GPUs are created and destroyed, also those of other tenants.

Causes: the device program allows every device that it does not deny by name, and the node's mode, 0400 for \
root as the driver makes it, was widened, or processes of the tenant run as root.

Excuses: the node's mode and owner let nobody of the tenant in; sharing.whole_node; a program that names \
the node, for a tenant that is to manage MIG.

What to do: restore mode 0400 (nvidia-modprobe, or udev rules), run nothing of tenants as root, list the \
node in gres.conf.",
};

const IMEX: Kind = Kind {
    id: "imex-channel-open",
    severity: Severity::Warning,
    title: "IMEX channels are open to every tenant",
    page: "\
A job or container that has GPUs may open IMEX channels that no program gave to it. All who share a channel \
can import GPU memory that others export through it, on all nodes of an NVLink domain.

Causes: the device program allows every device that it does not deny by name; channel nodes have mode 0666 \
by default; channel 0 was made for everybody (NVreg_CreateImexChannel0=1).

Excuses: the node's mode and owner let nobody of the tenant in; a program that names the channel; \
sharing.whole_node; a tenant that may open no GPU, or all of them.

What to do: one channel per job (Slurm: SwitchType=switch/nvidia_imex), and modes that keep the others out.",
};

pub(super) const FAMILY: Family = Family { kinds: &[RENDER, CONFIG, IMEX, SHARED], find };

/// DRM's major, fixed.
const DRM: u32 = 226;
const MODESET: &str = "/sys/module/nvidia_drm/parameters/modeset";
const MIG_CONFIG: &str = "/proc/driver/nvidia/capabilities/mig/config";

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.tenants.iter().flat_map(|tenant| look(facts, tenant)).collect();
    found.extend(find_shared(facts));
    found
}

/// At most one finding of each kind.
fn look(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Vec<Finding> {
    let mut places = tenant.views();
    // Places where everything is open have a finding already, or are open on
    // purpose.
    places.retain(|place| !facts.exclusive_with(*place, Verdict::Deny).is_empty());
    let kinds = [render, config, imex];
    kinds.into_iter().filter_map(|kind| places.iter().find_map(|place| kind(facts, tenant, *place))).collect()
}

fn render(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>) -> Option<Finding> {
    let modeset = facts.observation().gpu_facts.files.get(MODESET)?;
    if modeset.trim() != "Y" {
        return None;
    }
    let denied = facts.exclusive_with(place, Verdict::Deny).into_iter();
    let nodes = denied.filter(|gpu| gpu.vendor == Vendor::Nvidia).flat_map(|gpu| {
        gpu.nodes.iter().filter(|node| !node.gate && node.major == DRM).map(move |node| (gpu, node))
    });
    let open: Vec<_> =
        nodes.filter(|(_, node)| opens(facts, place, (node.major, node.minor), Request::ReadWrite)).collect();
    let numbers: Vec<(u32, u32)> = open.iter().map(|(_, node)| (node.major, node.minor)).collect();
    let owner = wording::owner(tenant.owner());
    let summary = format!("{owner} may open DRM nodes of GPUs that it may not open");
    let mut found = report(facts, RENDER, place, &numbers, Request::ReadWrite, summary)?;
    for (device, (gpu, _)) in found.devices.iter_mut().zip(&open) {
        *device =
            FindingDevice { number: device.number.take(), name: device.name.take(), ..finding::gpu(gpu) };
    }
    found.evidence.push(format!("{MODESET} is Y: memory of the GPU can be allocated through the node"));
    let list = wording::device_list(tenant.owner());
    found.advice = format!("list the DRM nodes in {list} beside the GPUs', or give them mode 0660");
    Some(found)
}

fn config(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>) -> Option<Finding> {
    let gpu_facts = &facts.observation().gpu_facts;
    let text = gpu_facts.files.get(MIG_CONFIG)?;
    let minor = text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok())?;
    let number = (gpu::char_major(gpu_facts, "nvidia-caps")?, minor);
    let open = is_default_allow(facts, place) && opens(facts, place, number, Request::Read);
    let numbers = if open { vec![number] } else { Vec::new() };
    let summary = format!("{} may change the MIG configuration of every GPU", wording::owner(tenant.owner()));
    let mut found = report(facts, CONFIG, place, &numbers, Request::Read, summary)?;
    found.advice = "restore mode 0400 of the node, and run nothing of tenants as root".to_owned();
    Some(found)
}

fn imex(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>) -> Option<Finding> {
    if facts.gpus_with(place, Verdict::Allow).is_empty() || !is_default_allow(facts, place) {
        return None;
    }
    let nodes = facts.observation().gpu_facts.nodes.iter();
    let channels = nodes.filter(|node| node.path.starts_with(gpu::IMEX_CHANNELS));
    let numbers = channels.map(|node| (node.major, node.minor));
    let open: Vec<(u32, u32)> =
        numbers.filter(|number| opens(facts, place, *number, Request::ReadWrite)).collect();
    let summary =
        format!("{} may open IMEX channels that nothing gave to it", wording::owner(tenant.owner()));
    let mut found = report(facts, IMEX, place, &open, Request::ReadWrite, summary)?;
    found.advice = "give each job a channel of its own and deny the others".to_owned();
    Some(found)
}

/// Whether program and file permissions both let somebody in.
fn opens(facts: &Facts<'_>, place: Place<'_>, number: (u32, u32), request: Request) -> bool {
    // The letters' bits of modes are not those of requests.
    let bits = if request == Request::Read { 4 } else { 6 };
    let Some(node) = node(facts, number) else { return false };
    dac(node, place.cgroup, bits) != Dac::Nobody && facts.allows(place, number, request)
}

fn is_default_allow(facts: &Facts<'_>, place: Place<'_>) -> bool {
    facts.policy(place).is_some_and(|policy| policy.default == Verdict::Allow)
}

fn report(
    facts: &Facts<'_>,
    kind: Kind,
    place: Place<'_>,
    open: &[(u32, u32)],
    request: Request,
    summary: String,
) -> Option<Finding> {
    let first = *open.first()?;
    let mut found = finding::about(&kind, place, summary);
    found.programs = facts.decisions(place, first, request);
    for number in open {
        let Some(node) = node(facts, *number) else { continue };
        found
            .devices
            .push(finding::device(*number, Some(node.path.strip_prefix("/dev/").unwrap_or(&node.path))));
        let dac = dac(node, place.cgroup, if request == Request::Read { 4 } else { 6 });
        permissions(&mut found, node, dac);
    }
    found.excuses.push("the configuration says nothing of whole nodes".to_owned());
    Some(found)
}

fn permissions(found: &mut Finding, node: &DeviceNode, dac: Dac) {
    let DeviceNode { path, mode, uid, gid, .. } = node;
    found.evidence.push(format!("{path} has mode {mode:04o}, owner {uid}, group {gid}"));
    if dac == Dac::Someone {
        found.confidence = Confidence::Likely;
        found.evidence.push(format!("assumed: root or the owner inside may use its rights on {path}"));
    }
}

const SHARED: Kind = Kind {
    id: "imex-channel-shared",
    severity: Severity::Warning,
    title: "two tenants were given the same IMEX channel",
    page: "\
The rules of two owners that have nothing to do with each other let both open one IMEX channel. All who \
share a channel can import GPU memory that others export through it, on all nodes of an NVLink domain.

Causes: a device plugin or runtime that gives channel 0 to everybody; a channel that was given on before \
its last user ended.

Excuses: owners of one job or pod; sharing.whole_node; owners whose rules allow every device that they do \
not deny by name, which imex-channel-open reports. Pods of one workload on one node share a channel on \
purpose, which gpumap cannot see: accept the finding in the configuration.

What to do: give each workload a channel of its own (Slurm: SwitchType=switch/nvidia_imex; Kubernetes: a \
ComputeDomain for each workload).",
};

/// A tenant, and its cgroup from which it may open the channel.
type Opener<'f, 'a> = (&'f Tenant<'a>, Place<'a>);

fn find_shared(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.config.sharing.whole_node {
        return Vec::new();
    }
    let nodes = facts.observation().gpu_facts.nodes.iter();
    let channels = nodes.filter(|node| node.path.starts_with(gpu::IMEX_CHANNELS));
    channels.filter_map(|channel| shared(facts, channel)).collect()
}

fn shared(facts: &Facts<'_>, channel: &DeviceNode) -> Option<Finding> {
    let number = (channel.major, channel.minor);
    let openers = openers(facts, number);
    let has_stranger = |(one, _): &&Opener<'_, '_>| {
        openers.iter().any(|(other, _)| !one.is(other) && !may_share(one, other))
    };
    let strangers: Vec<&Opener<'_, '_>> = openers.iter().filter(has_stranger).collect();
    let (_, place) = *strangers.first()?;
    let owners: Vec<Owner> = strangers.iter().map(|(tenant, _)| tenant.owner().clone()).collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let channel = channel.path.strip_prefix("/dev/").unwrap_or(&channel.path);
    let clause = |(name, (_, place)): (&String, &&Opener<'_, '_>)| {
        format!("the rules of {name} let it open {channel} from {}", place.path.lossy())
    };
    let evidence = wording::clauses(names.iter().zip(&strangers).map(clause).collect());
    let processes = strangers.iter().flat_map(|(_, place)| &place.cgroup.processes);
    let shown = strangers.iter().take(wording::SHOWN);
    let programs = shown.flat_map(|(_, place)| facts.decisions(*place, number, Request::ReadWrite));
    Some(Finding {
        owner: owners.first().cloned(),
        others: owners.into_iter().skip(1).take(wording::SHOWN).collect(),
        processes: finding::processes(processes),
        devices: vec![finding::device(number, Some(channel))],
        programs: programs.collect(),
        confidence: Confidence::Likely,
        evidence,
        excuses: vec![
            "they are not of one job or pod, and none is inside another".to_owned(),
            "the configuration says nothing of whole nodes".to_owned(),
        ],
        advice: "give each workload a channel of its own".to_owned(),
        ..finding::at(&SHARED, place.cgroup, format!("{channel} may be opened by {}", wording::list(&names)))
    })
}

/// The tenants with processes whose rules name the channel and let it be opened.
fn openers<'f, 'a>(facts: &'f Facts<'a>, number: (u32, u32)) -> Vec<Opener<'f, 'a>> {
    let opens =
        |place: &Place<'_>| !facts.is_deny_list(*place) && facts.allows(*place, number, Request::ReadWrite);
    let opener = |tenant: &'f Tenant<'a>| Some((tenant, tenant.occupied.iter().copied().find(opens)?));
    facts.tenants.iter().filter_map(opener).collect()
}

/// Permission bits of everybody: read and write.
const OTHERS: u32 = 0o006;

/// Whether anybody in a cgroup passes the permissions of a node. Access is a sum of
/// bits: read 4, write 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dac {
    /// Everybody does.
    Everybody,
    /// The node's owner is in the cgroup, or root, whose rights override
    /// permissions.
    Someone,
    /// Certainly nobody, except perhaps members of a group, who are not known.
    Nobody,
}

/// The node with this number.
pub(super) fn node<'a>(facts: &Facts<'a>, number: (u32, u32)) -> Option<&'a DeviceNode> {
    let mut nodes = facts.inspection.observation().gpu_facts.nodes.iter();
    nodes.find(|node| node.kind == DeviceType::Char && (node.major, node.minor) == number)
}

/// Whether anybody in a cgroup passes the permissions of a node for this access.
pub(super) fn dac(node: &DeviceNode, cgroup: &Cgroup, bits: u32) -> Dac {
    let passes = |mode: u32| mode & bits == bits;
    if passes(node.mode & OTHERS) {
        return Dac::Everybody;
    }
    let someone = |uid: u32| uid == 0 || (uid == node.uid && passes(node.mode >> 6));
    match cgroup.processes.iter().any(|process| someone(process.uid)) {
        true => Dac::Someone,
        false => Dac::Nobody,
    }
}
