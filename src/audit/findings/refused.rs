//! Finds processes that try GPUs of others and are refused, in what a running `gpumap denials
//! --state` sums.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, may_share, names, number, owners};
use crate::audit::{finding, wording};
use crate::model::{Confidence, DeviceType, GpuKey, Request, Severity, Verdict};
use crate::observation::RefusedDevice;
use crate::report::{Finding, FindingProcess, Gpu};

/// How often a process may try the one GPU that it is denied and pass for a program that tries
/// every node: such programs try a node a few times.
const FEW: u64 = 8;
/// Refusals before that moment are not reported.
const LATELY: SignedDuration = SignedDuration::from_hours(1);

const FOREIGN_TRIED: Kind = Kind {
    id: "foreign-gpu-tried",
    severity: Severity::Note,
    title: "a process tries a GPU of another job and is refused",
    page: "\
A process of a job, container or pod asked for a GPU that another one has, and the kernel refused it, within \
the last hour. Isolation holds. It is a program with a wrong GPU number, or a user who probes.

It takes a running gpumap denials --state FILE: an audit by itself sees no refusals. Without that file, and \
for what was refused before it was begun, there is no finding.

Excuses: a process that was refused every GPU that its rules deny, none of them more than twice as often as \
another, tries every node, as nvidia-smi and many libraries do; where the rules deny one GPU alone, up to 8 \
refusals are such. So whoever tries all GPUs alike is not found. A GPU that nobody else is known to have, \
that the process's job was allocated, or that the configuration shares (sharing.gpus, sharing.whole_node). \
A cgroup that is gone, or may open the GPU by now.

What to do: look at CUDA_VISIBLE_DEVICES of these processes (gpumap pid), and ask the user.",
};

pub(super) const FAMILY: Family = Family { kinds: &[FOREIGN_TRIED], find };

/// One finding for each cgroup.
fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let found = by_place(facts).into_iter().filter_map(|(place, refused)| {
        let tenant = facts.tenant_at(place)?;
        let tried = foreign(facts, place, tenant, &refused);
        let gpus: Vec<&Gpu> = facts.gpus().iter().filter(|gpu| tried.contains_key(&gpu.key)).collect();
        (!gpus.is_empty()).then(|| report(facts, place, tenant, &gpus, &tried))
    });
    found.collect()
}

/// Says that refusals are missing among those that are kept, if some are: a process that tried
/// a GPU of another job may be among them.
pub(in crate::audit) fn lost(facts: &Facts<'_>) -> Option<String> {
    let refusals = facts.observation().refusals.as_ref()?;
    let why = match (refusals.lost, refusals.missed) {
        (0, 0) => return None,
        (lost, 0) => format!("had no room for refusals ({lost} since it began)"),
        (0, missed) => format!("did not see {missed} checks of devices since it began"),
        (lost, missed) => format!(
            "had no room for refusals ({lost} since it began) and did not see {missed} checks of devices"
        ),
    };
    Some(format!("gpumap denials {why}: who tried GPUs of others may be missing"))
}

/// How often processes of a tenant were lately refused a GPU that it was allocated, as a clause.
pub(super) fn in_vain(facts: &Facts<'_>, tenant: &Tenant<'_>, gpu: &Gpu) -> Option<String> {
    let places = by_place(facts).into_iter().filter(|(place, _)| tenant.own.contains(place));
    let refused = places.flat_map(|(_, refused)| refused);
    let its: Vec<&RefusedDevice> = refused.filter(|one| is_of(one, gpu)).collect();
    let last = its.iter().map(|one| &one.last).max()?;
    let count: u64 = its.iter().map(|one| one.count).sum();
    Some(format!("its processes were refused {} {}, last at {last}", wording::gpu(gpu), times(count)))
}

/// What was refused lately, by the cgroup in which it was.
fn by_place<'a>(facts: &Facts<'a>) -> BTreeMap<Place<'a>, Vec<&'a RefusedDevice>> {
    let observation = facts.observation();
    let mut by_id: BTreeMap<u64, Vec<&RefusedDevice>> = BTreeMap::new();
    let is_late =
        |one: &&RefusedDevice| observation.taken_at.since(&one.last).is_some_and(|ago| ago < LATELY);
    for one in observation.refusals.iter().flat_map(|sums| &sums.refused).filter(is_late) {
        by_id.entry(one.cgroup).or_default().push(one);
    }
    let of_place = by_id.into_iter().filter_map(|(id, refused)| {
        let path = &observation.cgroups.iter().find(|cgroup| cgroup.id == id)?.path;
        Some((facts.places.iter().copied().find(|place| place.path == path)?, refused))
    });
    of_place.collect()
}

/// Whether it is the node that gates a GPU.
fn is_of(one: &RefusedDevice, gpu: &Gpu) -> bool {
    one.kind == DeviceType::Char && number(gpu) == Some((one.major, one.minor))
}

/// The GPUs of others that processes tried which do not try every node.
fn foreign<'r>(
    facts: &Facts<'_>,
    place: Place<'_>,
    tenant: &Tenant<'_>,
    refused: &[&'r RefusedDevice],
) -> BTreeMap<GpuKey, Vec<&'r RefusedDevice>> {
    let denied = facts.gpus_with(place, Verdict::Deny);
    let mut processes: BTreeMap<(u32, u64), BTreeMap<GpuKey, &'r RefusedDevice>> = BTreeMap::new();
    for one in refused {
        if let Some(gpu) = denied.iter().find(|gpu| is_of(one, gpu)) {
            processes.entry((one.pid, one.start_time)).or_default().insert(gpu.key.clone(), one);
        }
    }
    processes.retain(|_, tried| !tries_every_node(&denied, tried));
    let mut found: BTreeMap<GpuKey, Vec<&'r RefusedDevice>> = BTreeMap::new();
    for (key, one) in processes.into_values().flatten() {
        let gpu = denied.iter().find(|gpu| gpu.key == key);
        if gpu.is_some_and(|gpu| is_foreign(facts, tenant, gpu)) {
            found.entry(key).or_default().push(one);
        }
    }
    found
}

/// Whether a process tried all that its rules deny, and nothing much more often than the rest.
fn tries_every_node(denied: &[&Gpu], tried: &BTreeMap<GpuKey, &RefusedDevice>) -> bool {
    let counts: Vec<u64> = tried.values().map(|one| one.count).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(one), Some(_)) if denied.len() == 1 => *one <= FEW,
        (Some(least), Some(most)) => counts.len() == denied.len() && *most <= least.saturating_mul(2),
        _ => true,
    }
}

/// Whether a GPU is known to be somebody else's, and not this tenant's.
fn is_foreign(facts: &Facts<'_>, tenant: &Tenant<'_>, gpu: &Gpu) -> bool {
    let is_its = tenant.was_allocated(gpu) || tenant.sets.allocated.unknown.contains(&gpu.key);
    !is_its && !facts.is_shared(gpu) && !others(facts, tenant, gpu).is_empty()
}

/// The strangers that have a GPU.
fn others<'f, 'a>(facts: &'f Facts<'a>, tenant: &Tenant<'_>, gpu: &Gpu) -> Vec<&'f Tenant<'a>> {
    let mut others = facts.having(gpu, Some(tenant));
    others.retain(|other| !may_share(tenant, other));
    others
}

fn report(
    facts: &Facts<'_>,
    place: Place<'_>,
    tenant: &Tenant<'_>,
    gpus: &[&Gpu],
    tried: &BTreeMap<GpuKey, Vec<&RefusedDevice>>,
) -> Finding {
    let mut having: Vec<&Tenant<'_>> = Vec::new();
    for other in gpus.iter().flat_map(|gpu| others(facts, tenant, gpu)) {
        if !having.iter().any(|known| known.is(other)) {
            having.push(other);
        }
    }
    let refused =
        || gpus.iter().flat_map(|gpu| tried.get(&gpu.key).into_iter().flatten().map(move |one| (gpu, one)));
    let clause = |(gpu, one): (&&Gpu, &&RefusedDevice)| {
        let (comm, name) = (wording::short(&one.comm.lossy(), 16), wording::gpu(gpu));
        let (pid, uid, count) = (one.pid, one.uid, times(one.count));
        format!("{comm} (pid {pid}) of uid {uid} was refused {name} {count}, last at {}", one.last)
    };
    let is_certain = |other: &&Tenant<'_>| {
        other.sets.allocated.is_trusted()
            || other.is_granted() && gpus.iter().any(|gpu| other.allows(gpu).is_some())
    };
    let mut processes: Vec<FindingProcess> = Vec::new();
    for (_, one) in refused() {
        if processes.len() < finding::LISTED && !processes.iter().any(|known| known.pid == one.pid) {
            processes.push(process(place, one));
        }
    }
    let verb = if gpus.len() == 1 { "is" } else { "are" };
    Finding {
        owner: Some(tenant.owner().clone()),
        others: owners(&having),
        processes,
        devices: gpus.iter().map(|gpu| finding::gpu(gpu)).collect(),
        programs: gpus
            .first()
            .and_then(|gpu| number(gpu))
            .map(|gpu| facts.decisions(place, gpu, Request::ReadWrite))
            .unwrap_or_default(),
        confidence: if having.iter().all(is_certain) { Confidence::Certain } else { Confidence::Claimed },
        evidence: wording::clauses(refused().map(clause).collect()),
        excuses: vec![
            "these processes do not try every node alike, as nvidia-smi does".to_owned(),
            "the configuration shares neither the GPU (sharing.gpus) nor the node (sharing.whole_node)"
                .to_owned(),
        ],
        advice: "Look at CUDA_VISIBLE_DEVICES of these processes (gpumap pid), and ask the user.".to_owned(),
        ..finding::at(
            &FOREIGN_TRIED,
            place.cgroup,
            format!(
                "{} tries {}, which {verb} there for {}",
                wording::owner(tenant.owner()),
                wording::gpus(gpus.iter().copied()),
                names(&having)
            ),
        )
    }
}

/// A process that was refused something, which may have ended.
fn process(place: Place<'_>, one: &RefusedDevice) -> FindingProcess {
    let mut there = place.cgroup.processes.iter();
    let it = there.find(|process| (process.pid, process.start_time) == (one.pid, one.start_time));
    it.map(finding::process).unwrap_or_else(|| FindingProcess {
        pid: one.pid,
        start_time: one.start_time,
        uid: one.uid,
        comm: one.comm.lossy().into_owned(),
        ..FindingProcess::default()
    })
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
