//! Finds IMEX channels that the rules of two unrelated owners let both open.

use super::grants::may_share;
use crate::audit::access::{TenantAccess, is_deny_list};
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::audit::wording;
use crate::gpu::IMEX_CHANNELS;
use crate::model::{Confidence, Owner, Request, Severity, Verdict};
use crate::report::Finding;

const SHARED: Kind = Kind {
    id: "imex-channel-shared",
    severity: Severity::Warning,
    title: "two tenants were given the same IMEX channel",
    page: "\
The rules of two owners that have nothing to do with each other let both open one IMEX channel. All who share a channel \
can import GPU memory that others export through it, on all nodes of an NVLink domain.

Causes: a device plugin or runtime that gives channel 0 to everybody; a channel that was given on before its last user \
ended.

Excuses: owners of one job or pod; sharing.whole_node; owners whose rules allow every device that they do not deny by \
name, which imex-channel-open reports. Pods of one workload on one node share a channel on purpose, which gpumap cannot \
see: accept the finding in the configuration.

What to do: give each workload a channel of its own (Slurm: SwitchType=switch/nvidia_imex; Kubernetes: a ComputeDomain \
for each workload).",
};

pub(super) const FAMILY: Family = Family { kinds: &[SHARED], find };

/// A tenant, and its cgroup from which it may open the channel.
type Opener = (usize, usize);

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    if facts.config.sharing.whole_node {
        return Vec::new();
    }
    let nodes = facts.inspection.observation().gpu_facts.nodes.iter();
    let channels = nodes.filter(|node| node.path.starts_with(IMEX_CHANNELS));
    let channels: Vec<(String, (u32, u32))> =
        channels.map(|node| (node.path.clone(), (node.major, node.minor))).collect();
    if channels.is_empty() {
        return Vec::new();
    }
    let access = TenantAccess::new(facts);
    channels.into_iter().filter_map(|(path, number)| look(facts, &access, &path, number)).collect()
}

fn look(facts: &mut Facts<'_>, access: &TenantAccess, path: &str, number: (u32, u32)) -> Option<Finding> {
    let openers = openers(facts, access, number);
    let has_stranger =
        |(one, _): &&Opener| openers.iter().any(|(other, _)| one != other && !may_share(facts, *one, *other));
    let strangers: Vec<Opener> = openers.iter().filter(has_stranger).copied().collect();
    let (_, place) = *strangers.first()?;
    let owners: Vec<Owner> = strangers
        .iter()
        .filter_map(|(tenant, _)| Some(facts.tenants.get(*tenant)?.sets.owner.clone()))
        .collect();
    let names: Vec<String> = owners.iter().map(wording::owner).collect();
    let channel = path.strip_prefix("/dev/").unwrap_or(path);
    let clause = |(name, (_, place)): (&String, &Opener)| {
        format!("the rules of {name} let it open {channel} from {}", facts.path(*place).lossy())
    };
    let evidence = wording::clauses(names.iter().zip(&strangers).map(clause).collect());
    let processes = strangers.iter().filter_map(|(_, place)| facts.cgroups().get(*place));
    let processes = processes.flat_map(|cgroup| &cgroup.processes).take(finding::LISTED);
    let processes = processes.map(finding::process).collect();
    let shown = strangers.iter().take(wording::SHOWN).map(|(_, place)| *place).collect::<Vec<_>>();
    let programs =
        shown.into_iter().flat_map(|place| facts.decisions(place, number, Request::ReadWrite)).collect();
    Some(Finding {
        owner: owners.first().cloned(),
        others: owners.into_iter().skip(1).take(wording::SHOWN).collect(),
        processes,
        devices: vec![finding::device(number, Some(channel))],
        programs,
        confidence: Confidence::Likely,
        evidence,
        excuses: vec![
            "they are not of one job or pod, and none is inside another".to_owned(),
            "the configuration says nothing of whole nodes".to_owned(),
        ],
        advice: "give each workload a channel of its own".to_owned(),
        ..finding::at(
            &SHARED,
            facts.cgroups().get(place)?,
            format!("{channel} may be opened by {}", wording::list(&names)),
        )
    })
}

/// The tenants with processes whose rules name the channel and let it be opened.
fn openers(facts: &mut Facts<'_>, access: &TenantAccess, number: (u32, u32)) -> Vec<Opener> {
    let mut found = Vec::new();
    for (tenant, own) in access.own.iter().enumerate() {
        let place = own.occupied.iter().copied().find(|place| {
            !is_deny_list(facts, *place)
                && facts.verdict(*place, number, Request::ReadWrite) == Verdict::Allow
        });
        found.extend(place.map(|place| (tenant, place)));
    }
    found
}
