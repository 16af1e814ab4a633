//! Finds devices other than the GPUs themselves that give access to a GPU and
//! are open to a constrained tenant: DRM nodes, the MIG configuration, IMEX
//! channels.

use crate::audit::facts::{Facts, Tenant};
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::audit::permissions::{Dac, dac, node};
use crate::audit::tenants::{about, exclusive_with, gpus_with, views};
use crate::audit::wording;
use crate::gpu;
use crate::model::Confidence;
use crate::model::Severity;
use crate::model::{Request, Vendor, Verdict};
use crate::observation::DeviceNode;
use crate::report::{Finding, Gpu};

const RENDER: Kind = Kind {
    id: "render-node-open",
    severity: Severity::Warning,
    title: "a denied GPU's DRM node is open",
    page: "\
A job or container may not open an NVIDIA GPU (/dev/nvidiaN), but may open its render or card node below /dev/dri. With \
modeset on, nvidia-drm lets a process that has the render node open allocate memory on the GPU. The process cannot \
compute there or read the memory of others, but it can use up memory of the GPU's owner.

Causes: Slurm, HTCondor and ParaStation deny the devices in their configuration and allow the rest; udev gives render \
nodes mode 0666 on many distributions; drivers from 560 on turn modeset on by default.

Excuses: modeset is off (/sys/module/nvidia_drm/parameters/modeset is N), so that the node can do nothing, or \
was not observed; file permissions that let neither everybody nor a user of the job in; sharing.whole_node and \
sharing.gpus. AMD's and Intel's render nodes are the GPUs themselves; /dev/kfd of AMD gives no access without a \
render node.

What to do: list the DRM nodes in gres.conf (MultipleFiles=/dev/nvidia0,/dev/dri/renderD128), give them mode 0660, or \
load nvidia-drm with modeset=0.",
};

const CONFIG: Kind = Kind {
    id: "mig-config-open",
    severity: Severity::Critical,
    title: "a tenant may change the MIG configuration",
    page: "\
A job or container may open the capability node mig/config of nvidia-caps, by which MIG instances of all GPUs are \
created and destroyed, also those of other tenants.

Causes: the device program allows every device that it does not deny by name, and the node's mode, 0400 for root as the \
driver makes it, was widened, or processes of the tenant run as root.

Excuses: the node's mode and owner let nobody of the tenant in; sharing.whole_node; a program that names the \
node, for a tenant that is to manage MIG.

What to do: restore mode 0400 (nvidia-modprobe, or udev rules), run nothing of tenants as root, list the node in \
gres.conf.",
};

const IMEX: Kind = Kind {
    id: "imex-channel-open",
    severity: Severity::Warning,
    title: "IMEX channels are open to every tenant",
    page: "\
A job or container that has GPUs may open IMEX channels that no program gave to it. All who share a channel can import \
GPU memory that others export through it, on all nodes of an NVLink domain.

Causes: the device program allows every device that it does not deny by name; channel nodes have mode 0666 by default; \
channel 0 was made for everybody (NVreg_CreateImexChannel0=1).

Excuses: the node's mode and owner let nobody of the tenant in; a program that names the channel; \
sharing.whole_node; a tenant that may open no GPU, or all of them.

What to do: one channel per job (Slurm: SwitchType=switch/nvidia_imex), and modes that keep the others out.",
};

pub(super) const FAMILY: Family = Family { kinds: &[RENDER, CONFIG, IMEX], find };

/// DRM's major, fixed.
const DRM: u32 = 226;
const MODESET: &str = "/sys/module/nvidia_drm/parameters/modeset";
const MIG_CONFIG: &str = "/proc/driver/nvidia/capabilities/mig/config";

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let tenants = facts.tenants.clone();
    tenants.iter().flat_map(|tenant| look(facts, tenant)).collect()
}

/// At most one finding of each kind.
fn look(facts: &mut Facts<'_>, tenant: &Tenant) -> Vec<Finding> {
    let mut places = views(facts, tenant);
    // Places where everything is open have a finding already, or are open on
    // purpose.
    places.retain(|place| !exclusive_with(facts, *place, Verdict::Deny).is_empty());
    let kinds = [render, config, imex];
    kinds.into_iter().filter_map(|kind| places.iter().find_map(|place| kind(facts, tenant, *place))).collect()
}

fn render(facts: &mut Facts<'_>, tenant: &Tenant, place: usize) -> Option<Finding> {
    let modeset = facts.inspection.observation().gpu_facts.files.get(MODESET)?;
    if modeset.trim() != "Y" {
        return None;
    }
    let denied: Vec<Gpu> = exclusive_with(facts, place, Verdict::Deny)
        .into_iter()
        .map(|at| facts.inspection.gpus()[at].clone())
        .collect();
    let nodes = denied.iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).flat_map(|gpu| {
        gpu.nodes.iter().filter(|node| !node.gate && node.major == DRM).map(move |node| (gpu, node))
    });
    let open: Vec<_> =
        nodes.filter(|(_, node)| opens(facts, place, (node.major, node.minor), Request::ReadWrite)).collect();
    let numbers: Vec<(u32, u32)> = open.iter().map(|(_, node)| (node.major, node.minor)).collect();
    let owner = wording::owner(&tenant.sets.owner);
    let summary = format!("{owner} may open DRM nodes of GPUs that it may not open");
    let mut found = report(facts, RENDER, place, &numbers, Request::ReadWrite, summary)?;
    for (device, (gpu, _)) in found.devices.iter_mut().zip(&open) {
        *device = crate::report::FindingDevice {
            number: device.number.take(),
            name: device.name.take(),
            ..finding::gpu(gpu)
        };
    }
    found.evidence.push(format!("{MODESET} is Y: memory of the GPU can be allocated through the node"));
    found.advice = "list the DRM nodes in gres.conf beside the GPUs', or give them mode 0660".to_owned();
    Some(found)
}

fn config(facts: &mut Facts<'_>, tenant: &Tenant, place: usize) -> Option<Finding> {
    let gpu_facts = &facts.inspection.observation().gpu_facts;
    let text = gpu_facts.files.get(MIG_CONFIG)?;
    let minor = text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok())?;
    let number = (gpu::char_major(gpu_facts, "nvidia-caps")?, minor);
    let open = is_default_allow(facts, place) && opens(facts, place, number, Request::Read);
    let numbers = if open { vec![number] } else { Vec::new() };
    let summary =
        format!("{} may change the MIG configuration of every GPU", wording::owner(&tenant.sets.owner));
    let mut found = report(facts, CONFIG, place, &numbers, Request::Read, summary)?;
    found.advice = "restore mode 0400 of the node, and run nothing of tenants as root".to_owned();
    Some(found)
}

fn imex(facts: &mut Facts<'_>, tenant: &Tenant, place: usize) -> Option<Finding> {
    if gpus_with(facts, place, Verdict::Allow).is_empty() || !is_default_allow(facts, place) {
        return None;
    }
    let nodes = facts.inspection.observation().gpu_facts.nodes.iter();
    let channels: Vec<(u32, u32)> = nodes
        .filter(|node| node.path.starts_with(gpu::IMEX_CHANNELS))
        .map(|node| (node.major, node.minor))
        .collect();
    let open: Vec<(u32, u32)> =
        channels.into_iter().filter(|number| opens(facts, place, *number, Request::ReadWrite)).collect();
    let summary =
        format!("{} may open IMEX channels that nothing gave to it", wording::owner(&tenant.sets.owner));
    let mut found = report(facts, IMEX, place, &open, Request::ReadWrite, summary)?;
    found.advice = "give each job a channel of its own and deny the others".to_owned();
    Some(found)
}

/// Whether program and file permissions both let somebody in.
fn opens(facts: &mut Facts<'_>, place: usize, number: (u32, u32), request: Request) -> bool {
    // The letters' bits of modes are not those of requests.
    let bits = if request == Request::Read { 4 } else { 6 };
    let Some(node) = node(facts, number) else { return false };
    dac(node, &facts.cgroups()[place], bits) != Dac::Nobody
        && facts.verdict(place, number, request) == Verdict::Allow
}

fn is_default_allow(facts: &Facts<'_>, place: usize) -> bool {
    let payload = facts.inspection.payload();
    let policy = payload.policies.as_ref().and_then(|all| all.get(&facts.cgroups()[place].policy));
    policy.is_some_and(|policy| policy.default == Verdict::Allow)
}

fn report(
    facts: &mut Facts<'_>,
    kind: Kind,
    place: usize,
    open: &[(u32, u32)],
    request: Request,
    summary: String,
) -> Option<Finding> {
    let first = *open.first()?;
    let mut found = about(facts, &kind, place, summary);
    found.programs = facts.decisions(place, first, request);
    for number in open {
        let Some(node) = node(facts, *number) else { continue };
        found
            .devices
            .push(finding::device(*number, Some(node.path.strip_prefix("/dev/").unwrap_or(&node.path))));
        let dac = dac(node, &facts.cgroups()[place], if request == Request::Read { 4 } else { 6 });
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
