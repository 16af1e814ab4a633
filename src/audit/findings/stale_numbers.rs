//! Finds GPUs that may be opened but not used, because a shared node that their libraries
//! need is denied, and rules whose device numbers mean another device than when they were
//! written.

use std::collections::BTreeSet;

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant};
use crate::audit::{finding, wording};
use crate::gpu;
use crate::gpu::SharedNode;
use crate::model::{Confidence, DeviceType, OwnerKind, Request, Rule, Severity, Vendor, Verdict};
use crate::report::{Finding, Gpu};

const START: Kind = Kind {
    id: "cuda-cannot-start",
    severity: Severity::Warning,
    title: "a GPU is allowed, but a node that it takes is denied",
    page: "\
A job, container or systemd unit may open a GPU, but not a node that all GPUs of the vendor share and that \
every program needs: nvidiactl and nvidia-uvm for CUDA, kfd for ROCm. cuInit fails, or finds no device.

Causes: an allow-list (DeviceAllow= of a unit) that names /dev/nvidiaN alone; nvidia-uvm was loaded only \
after the list was written; a second program, such as systemd's after a daemon-reload, that does not know \
the node.

Excuses: another cgroup of the tenant in which the same vendor's GPUs can be used, or a finding \
stale-major, which names the cause. A container that renders and does not compute \
(NVIDIA_DRIVER_CAPABILITIES without compute) needs no nvidia-uvm: accept the finding in the configuration.

What to do: add the nodes to the specification (CDI lists them) or to DeviceAllow= of the unit, and start \
it again.",
};

/// Tenants, and units with rules, that may open GPUs and not the nodes that these take.
fn find_start(facts: &Facts<'_>) -> Vec<Finding> {
    let units = facts.units_with_rules();
    let tenants = facts.tenants.iter().chain(&units);
    tenants
        .flat_map(|tenant| [Vendor::Nvidia, Vendor::Amd].map(|vendor| start(facts, tenant, &vendor)))
        .flatten()
        .collect()
}

fn start(facts: &Facts<'_>, tenant: &Tenant<'_>, vendor: &Vendor) -> Option<Finding> {
    let mut places = tenant.views();
    places.retain(|place| !gpus_of(facts, *place, vendor).is_empty());
    let nodes = facts.inspection.shared_nodes().iter();
    let needed: Vec<&SharedNode> = nodes.filter(|node| belongs(node, vendor)).collect();
    let mut first = None;
    for place in places {
        let denied = denied(facts, place, &needed);
        if denied.is_empty() {
            return None;
        }
        first = first.or(Some((place, denied)));
    }
    let (place, denied) = first?;
    if *vendor == Vendor::Nvidia && outdated(facts, tenant).is_some() {
        return None;
    }
    Some(report_start(facts, tenant, vendor, place, &denied))
}

fn gpus_of<'a>(facts: &Facts<'a>, place: Place<'_>, vendor: &Vendor) -> Vec<&'a Gpu> {
    let mut gpus = facts.gpus_with(place, Verdict::Allow);
    gpus.retain(|gpu| gpu.vendor == *vendor);
    gpus
}

fn belongs(node: &SharedNode, vendor: &Vendor) -> bool {
    node.needed && node.role.needed_by().as_ref() == Some(vendor)
}

fn denied<'n>(facts: &Facts<'_>, place: Place<'_>, needed: &[&'n SharedNode]) -> Vec<&'n SharedNode> {
    let verdict = |node: &SharedNode| facts.verdict(place, (node.major, node.minor), Request::ReadWrite);
    needed.iter().copied().filter(|node| verdict(node) == Verdict::Deny).collect()
}

fn report_start(
    facts: &Facts<'_>,
    tenant: &Tenant<'_>,
    vendor: &Vendor,
    place: Place<'_>,
    denied: &[&SharedNode],
) -> Finding {
    let gpus = gpus_of(facts, place, vendor);
    let roles: BTreeSet<String> = denied.iter().map(|node| node.role.to_string()).collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(" and ");
    let owner = wording::owner(tenant.owner());
    let api = if *vendor == Vendor::Amd { "ROCm" } else { "CUDA" };
    let summary =
        format!("{owner} may open {} but not {roles}: {api} cannot start", wording::count(gpus.len()));
    let mut found = finding::about_gpus(facts, &START, place, &[], summary);
    let name = |node: &SharedNode| node.path.strip_prefix("/dev/").unwrap_or(&node.path).to_owned();
    found.devices =
        denied.iter().map(|node| finding::device((node.major, node.minor), Some(&name(node)))).collect();
    found.devices.extend(gpus.iter().map(|gpu| finding::gpu(gpu)));
    if let Some(node) = denied.first() {
        found.programs = facts.decisions(place, (node.major, node.minor), Request::ReadWrite);
    }
    found.excuses.push("in no other of its cgroups can these GPUs be used".to_owned());
    let held = place.cgroup.processes.iter().any(|process| !process.held_shared.is_empty());
    if held {
        found
            .evidence
            .push("a process has a shared node open from before: it goes on, new ones fail".to_owned());
    }
    let where_to = if tenant.owner().kind == OwnerKind::Unit {
        "with DeviceAllow= in the unit's file"
    } else {
        "(CDI lists all nodes that a GPU takes)"
    };
    found.advice = format!("allow {roles} too {where_to}, and start it again");
    found
}

const MAJOR: Kind = Kind {
    id: "stale-major",
    severity: Severity::Warning,
    title: "a rule names another boot's number of nvidia-uvm",
    page: "\
The driver of /dev/nvidia-uvm gets whatever major number is free when it is loaded. A job or container may \
open a GPU and is denied nvidia-uvm under the number of this boot, while its rules allow minors 0 and 1 of \
another dynamic major, which was nvidia-uvm's in another boot. CUDA does not start, and if the number \
belongs to another driver now, the rule opens that driver's devices.

Causes: a specification with numbers instead of names (lxc.cgroup2.devices.allow, DeviceAllow=char-510, a \
container's config.json) that outlived a reboot or a reload of the driver.

Excuses: the number of this boot is allowed too; the major is one of the NVIDIA driver's.

What to do: write names (DeviceAllow=char-nvidia-uvm) or let CDI write the numbers at each start; start the \
container again.",
};

const MINOR: Kind = Kind {
    id: "stale-minor",
    severity: Severity::Warning,
    title: "a rule allows an NVIDIA GPU that does not exist",
    page: "\
The rules of a tenant allow c 195:N, but no GPU of the node has this minor. The tenant lacks a GPU that it \
was allocated, and it will have the GPU that gets this minor next: the driver assigns minors again when a \
GPU is bound, hot-plugged, or its MIG mode changes.

Causes: a GPU fell off the bus or was unbound after the tenant started; numbers in a specification that was \
written for another node.

Excuses: a rule for a whole range of the major, such as c 195:* or char-nvidia; GPUs whose minor the driver \
does not tell (lost or excluded ones), since it may be theirs. Whether the driver was loaded again after \
the program, so that an existing number means another GPU, cannot be seen and is not looked for.

What to do: see whether the GPU is there (lspci, dmesg) and start the tenant again with the GPUs that are.",
};

pub(super) const FAMILY: Family = Family { kinds: &[START, MAJOR, MINOR], find };

/// Major of the NVIDIA GPUs and the last minor that is one.
const NVIDIA: u32 = 195;
const LAST_GPU: u32 = 247;
/// A rule for more minors than any node has GPUs names no particular one.
const WIDE: u32 = 32;
/// Majors that the kernel hands out by itself (`fs/char_dev.c`).
const DYNAMIC: [std::ops::RangeInclusive<u32>; 2] = [234..=254, 384..=511];

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let numbers = facts.tenants.iter().flat_map(|tenant| [major(facts, tenant), minor(facts, tenant)]);
    find_start(facts).into_iter().chain(numbers.flatten()).collect()
}

/// Where a tenant's rules deny nvidia-uvm.
struct Outdated<'a> {
    /// The cgroup.
    place: Place<'a>,
    /// The major of nvidia-uvm.
    uvm: u32,
    /// The dynamic majors that the rules allow in its place: one of them was
    /// nvidia-uvm's.
    majors: Vec<u32>,
}

/// The dynamic majors that a tenant's rules may take for nvidia-uvm's, and where.
fn outdated<'a>(facts: &Facts<'_>, tenant: &Tenant<'a>) -> Option<Outdated<'a>> {
    let uvm = gpu::char_major(&facts.observation().gpu_facts, "nvidia-uvm")?;
    tenant.views().into_iter().find_map(|place| {
        let has_gpu = !gpus_of(facts, place, &Vendor::Nvidia).is_empty();
        let denied = has_gpu && facts.verdict(place, (uvm, 0), Request::ReadWrite) == Verdict::Deny;
        let mut majors = if denied { allowed_majors(facts, place) } else { Vec::new() };
        majors.retain(|major| {
            let minors = [0, 1].into_iter();
            minors.map(|minor| (*major, minor)).all(|number| facts.allows(place, number, Request::ReadWrite))
        });
        (!majors.is_empty()).then_some(Outdated { place, uvm, majors })
    })
}

/// Dynamic majors, not the NVIDIA driver's, of which a rule allows devices by
/// name while everything else is denied.
fn allowed_majors(facts: &Facts<'_>, place: Place<'_>) -> Vec<u32> {
    let gpu_facts = &facts.observation().gpu_facts;
    let is_ours = |major: u32| {
        gpu::driver_names(gpu_facts, DeviceType::Char, major).iter().any(|name| name.starts_with("nvidia"))
    };
    let rules = allowing(facts, place).into_iter().filter_map(|rule| rule.major.single());
    let mut majors: Vec<u32> = rules.collect();
    majors.retain(|major| DYNAMIC.iter().any(|range| range.contains(major)) && !is_ours(*major));
    majors.sort_unstable();
    majors.dedup();
    majors
}

/// The rules for character devices that allow opening, of a policy that denies
/// the rest.
fn allowing<'a>(facts: &Facts<'a>, place: Place<'_>) -> Vec<&'a Rule> {
    let policy = facts.policy(place).filter(|policy| policy.default == Verdict::Deny && policy.exact);
    let rules = policy.into_iter().flat_map(|policy| &policy.rules);
    let opens = |rule: &&Rule| {
        let is_char = rule.kind != Some(DeviceType::Block);
        rule.verdict == Verdict::Allow && is_char && rule.requests.contains(Request::ReadWrite)
    };
    rules.map(|listed| &listed.rule).filter(opens).collect()
}

fn major(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let Outdated { place, uvm, majors } = outdated(facts, tenant)?;
    let owner = wording::owner(tenant.owner());
    let numbers = wording::list(&majors.iter().map(u32::to_string).collect::<Vec<_>>());
    let word = if majors.len() == 1 { "major" } else { "majors" };
    let summary = format!("{owner} is allowed {word} {numbers} and not {uvm}, which is nvidia-uvm's now");
    let mut found = finding::about(&MAJOR, place, summary);
    found.devices = majors.iter().map(|major| finding::device((*major, 0), None)).collect();
    found.devices.push(finding::device((uvm, 0), Some("nvidia-uvm")));
    found.programs = facts.decisions(place, (*majors.first()?, 0), Request::ReadWrite);
    let drivers = majors.iter().map(|major| now(facts, *major)).collect();
    found.evidence.extend(wording::clauses(drivers));
    found.evidence.push(format!("c {uvm}:0 is denied"));
    let assumed =
        "assumed: a rule that allows minors 0 and 1 was written for nvidia-uvm and nvidia-uvm-tools";
    found.evidence.push(assumed.to_owned());
    found.confidence = Confidence::Likely;
    found.advice = advice(&tenant.owner().kind, uvm);
    Some(found)
}

/// What a major is in this boot.
fn now(facts: &Facts<'_>, major: u32) -> String {
    let names = gpu::driver_names(&facts.observation().gpu_facts, DeviceType::Char, major);
    let whose =
        if names.is_empty() { "no driver's".to_owned() } else { format!("that of {}", names.join(", ")) };
    format!("/proc/devices: major {major} is {whose}")
}

/// How a tenant of this kind gets the number of this boot.
fn advice(kind: &OwnerKind, uvm: u32) -> String {
    match kind {
        OwnerKind::Lxc => format!(
            "write c {uvm}:* rwm for lxc.cgroup2.devices.allow into the container's configuration, in place \
             of the old \
             number, and start it again; LXC knows numbers only, and the next boot may need another one"
        ),
        OwnerKind::Unit => {
            "write DeviceAllow=char-nvidia-uvm in place of the number, and start the unit again".to_owned()
        }
        _ => format!(
            "start the tenant again, with names or CDI in place of numbers in its specification; the rule \
             that it \
             lacks is c {uvm}:* rwm"
        ),
    }
}

fn minor(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let ours: Vec<_> = facts.gpus().iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).collect();
    if ours.is_empty() || ours.iter().any(|gpu| gpu.minor.is_none()) {
        return None;
    }
    let exists = |minor: &u32| ours.iter().any(|gpu| gpu.minor == Some(*minor));
    let named = |place: Place<'_>| -> Vec<u32> {
        let rules = allowing(facts, place)
            .into_iter()
            .filter(|rule| (rule.major.first, rule.major.last) == (NVIDIA, NVIDIA));
        let narrow =
            rules.filter(|rule| rule.minor.mask.is_none() && rule.minor.last - rule.minor.first < WIDE);
        narrow
            .flat_map(|rule| rule.minor.first..=rule.minor.last)
            .filter(|minor| *minor <= LAST_GPU && !exists(minor))
            .collect()
    };
    let (place, minors) = tenant.views().into_iter().find_map(|place| {
        let mut minors = named(place);
        minors.retain(|minor| facts.allows(place, (NVIDIA, *minor), Request::ReadWrite));
        (!minors.is_empty()).then_some((place, minors))
    })?;
    let owner = wording::owner(tenant.owner());
    let summary = format!("the rules of {owner} allow NVIDIA GPUs that do not exist");
    let mut found = finding::about(&MINOR, place, summary);
    let device = |minor: &u32| finding::device((NVIDIA, *minor), Some(&format!("nvidia{minor}")));
    found.devices = minors.iter().map(device).collect();
    found.programs = facts.decisions(place, (NVIDIA, *minors.first()?), Request::ReadWrite);
    found.evidence.push("the driver tells the minor of every GPU, and none has this one".to_owned());
    found.excuses.push("no GPU is lost or excluded, whose number it could be".to_owned());
    found.advice = "see whether a GPU is gone, and start the tenant again".to_owned();
    Some(found)
}
