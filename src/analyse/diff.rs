//! The answers of `gpumap diff`: how two policies differ, and what changed on a node
//! between two observations of it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::allocated::CallerAllocation;
use super::gpu_verdicts::gpu_verdicts;
use super::joined_node::{by_cgroup, in_scope};
use super::node;
use super::policies::{self, Policies};
use super::subject::{AnalyseError, Subject};
use crate::gpu;
use crate::model::{GpuKey, Owner, OwnerKind};
use crate::observation::{Cgroup, Observation};
use crate::policy::{AlwaysListed, Decoder, Policy, TimeLimit};
use crate::report::{
    AllocationChange, Change, Diff, DiffAnswer, GpuChange, GpuSet, ListedRule, NodeDiff, Omitted, OwnerAt,
    OwnerGpus, OwnerSets, PolicyChange, ProgramMove,
};

/// The answer of `gpumap diff`: the two policies may come from different
/// observations. `names` are the sources as the user wrote them.
pub fn diff(
    a: (&Observation, &Subject),
    b: (&Observation, &Subject),
    names: (&str, &str),
    limit: &TimeLimit,
) -> Result<DiffAnswer, AnalyseError> {
    let mut decoder = Decoder::within(limit);
    let from = Policies::new(a.0).of_subject(a.1, &mut decoder)?;
    let to = Policies::new(b.0).of_subject(b.1, &mut decoder)?;
    let mut facts = &b.0.gpu_facts;
    let mut gpus = gpu::inventory(facts);
    if gpus.is_empty() {
        facts = &a.0.gpu_facts;
        gpus = gpu::inventory(facts);
    }
    let (changes, omitted) = changes(&mut decoder, from, to, &policies::always_listed(facts));
    let before = gpu_verdicts(&gpus, from, &decoder);
    let after = gpu_verdicts(&gpus, to, &decoder);
    let flipped = before.into_iter().zip(after).filter(|(before, after)| before.verdict != after.verdict);
    let gpus_changed =
        flipped.map(|(before, after)| GpuChange { gpu: before.gpu, from: before.verdict, to: after.verdict });
    let unknown = !decoder.is_known(from) || !decoder.is_known(to);
    let diff = Diff {
        a: names.0.to_owned(),
        b: names.1.to_owned(),
        a_cgroup: None,
        b_cgroup: None,
        equal: from == to && !unknown,
        unknown,
        changes,
        gpus: gpus_changed.collect(),
        omitted,
        node: None,
    };
    Ok(DiffAnswer { gpus, diff })
}

/// The differences of two policies, and how many are left out because they have no
/// short form. Differences about devices in `always_listed` are never left out.
pub(super) fn changes(
    decoder: &mut Decoder,
    from: Policy,
    to: Policy,
    always_listed: &AlwaysListed,
) -> (Vec<Change>, Option<Omitted>) {
    let regions = decoder.changes_with(from, to, always_listed);
    let omitted = regions.iter().filter_map(|change| change.omitted).reduce(|sum, count| sum + count);
    let changes = regions
        .into_iter()
        .flat_map(|change| {
            let (from, to) = (change.from, change.to);
            let rules: Vec<_> = change.rules.into_iter().map(ListedRule::from).collect();
            rules.into_iter().map(move |rule| Change { from, to, rule })
        })
        .collect();
    (changes, omitted.map(|questions| Omitted { questions }))
}

/// Compares two observations that were taken for the same cgroups; `None` if they
/// were not, because an owner that one lacks may then exist.
///
/// # Errors
///
/// As [`super::node()`].
pub fn node_diff(
    a: &Observation,
    b: &Observation,
    limit: &TimeLimit,
) -> Result<Option<NodeDiff>, AnalyseError> {
    let scope = |it: &Observation| -> BTreeSet<_> {
        it.scope.iter().map(|scope| (scope.path.clone(), scope.recursive)).collect()
    };
    if scope(a) != scope(b) {
        return Ok(None);
    }
    let rows = |it: &Observation| -> Result<Vec<OwnerSets>, AnalyseError> {
        Ok(node(it, &CallerAllocation::default(), limit)?.owners.unwrap_or_default())
    };
    let (before, after) = (rows(a)?, rows(b)?);
    let pairs = pairs(a, b)?;
    let both = both(&before, &after);
    let diff = NodeDiff {
        equal: false,
        rebooted: a.host.boot_id != b.host.boot_id,
        come: only_in(&after, &before, a),
        gone: only_in(&before, &after, b),
        programs: pairs.iter().filter_map(|(a, b)| programs(a, b)).collect(),
        policies: changed_policies(a, b, &pairs, limit),
        gpus: flips(&both),
        allocations: both.iter().filter_map(|(a, b)| allocation(a, b)).collect(),
    };
    let quiet = NodeDiff { equal: false, rebooted: diff.rebooted, ..NodeDiff::default() };
    Ok(Some(NodeDiff { equal: diff == quiet && !diff.rebooted, ..diff }))
}

type Pair<'a> = (&'a Cgroup, &'a Cgroup);

/// The cgroups that are in both, in walk order.
fn pairs<'a>(a: &'a Observation, b: &'a Observation) -> Result<Vec<Pair<'a>>, AnalyseError> {
    let before: HashMap<_, _> = in_scope(a)?.into_iter().map(|cgroup| (&cgroup.path, cgroup)).collect();
    let after = in_scope(b)?.into_iter();
    Ok(after.filter_map(|cgroup| Some((*before.get(&cgroup.path)?, cgroup))).collect())
}

fn programs(a: &Cgroup, b: &Cgroup) -> Option<ProgramMove> {
    let (before, after) = (&a.own.known()?.programs, &b.own.known()?.programs);
    let missing = |from: &[u32], of: &[u32]| -> Vec<u32> {
        of.iter().copied().filter(|id| !from.contains(id)).collect()
    };
    let (attached, gone) = (missing(before, after), missing(after, before));
    let cgroup = b.path.lossy().into_owned();
    (!attached.is_empty() || !gone.is_empty()).then_some(ProgramMove { cgroup, attached, gone })
}

/// Each change of policy with the cgroups that it happened to.
fn changed_policies(
    a: &Observation,
    b: &Observation,
    pairs: &[Pair<'_>],
    limit: &TimeLimit,
) -> Vec<PolicyChange> {
    let mut decoder = Decoder::of_programs(a.programs.iter().chain(&b.programs), limit);
    let (before, after) = (Policies::new(a), Policies::new(b));
    let (inside_a, inside_b) = (by_cgroup(a), by_cgroup(b));
    let always_listed = policies::always_listed(&b.gpu_facts);
    let mut index: HashMap<(Policy, Policy), usize> = HashMap::new();
    let mut answer: Vec<PolicyChange> = Vec::new();
    for (old, new) in pairs {
        let inside =
            |all: &std::collections::BTreeMap<_, Vec<_>>| all.get(&new.path).cloned().unwrap_or_default();
        let from = before.of_cgroup(old, &inside(&inside_a), &mut decoder);
        let to = after.of_cgroup(new, &inside(&inside_b), &mut decoder);
        if from == to {
            continue;
        }
        let place = *index.entry((from, to)).or_insert_with(|| {
            let (changes, omitted) = changes(&mut decoder, from, to, &always_listed);
            answer.push(PolicyChange { cgroups: Vec::new(), changes, omitted });
            answer.len() - 1
        });
        if let Some(change) = answer.get_mut(place) {
            change.cgroups.push(new.path.lossy().into_owned());
        }
    }
    answer
}

/// What identifies an owner in both observations. How its name was found does not
/// count.
fn key(row: &OwnerSets) -> (String, usize, Owner) {
    let owner = Owner { job_id_source: None, submitted_at: None, user: None, ..row.owner.clone() };
    (row.cgroup.clone(), row.depth, owner)
}

fn both<'a>(a: &'a [OwnerSets], b: &'a [OwnerSets]) -> Vec<(&'a OwnerSets, &'a OwnerSets)> {
    let before: HashMap<_, _> = a.iter().map(|row| (key(row), row)).collect();
    b.iter().filter_map(|row| Some((*before.get(&key(row))?, row))).collect()
}

/// Owners that only one observation has. Owners inside one of them are left out, and a
/// cgroup without a known owner that is in `other` too: it has a row while it has processes.
fn only_in(rows: &[OwnerSets], others: &[OwnerSets], other: &Observation) -> Vec<OwnerAt> {
    let known: HashSet<_> = others.iter().map(key).collect();
    let there: HashSet<_> = other.cgroups.iter().map(|cgroup| cgroup.path.lossy()).collect();
    let stays = |row: &OwnerSets| row.owner.kind == OwnerKind::Cgroup && there.contains(row.cgroup.as_str());
    let mut told = None;
    let mut answer = Vec::new();
    for row in rows {
        if told.is_some_and(|depth| row.depth > depth) {
            continue;
        }
        told = (!known.contains(&key(row)) && !stays(row)).then_some(row.depth);
        if told.is_some() {
            answer.push(OwnerAt { owner: row.owner.clone(), cgroup: row.cgroup.clone() });
        }
    }
    answer
}

/// GPUs that owners lost or gained. An owner inside another with the same change is
/// left out.
fn flips(both: &[(&OwnerSets, &OwnerSets)]) -> Vec<OwnerGpus> {
    let mut around: Vec<OwnerGpus> = Vec::new();
    let mut answer = Vec::new();
    for (a, b) in both {
        let flip = flip(a, b);
        around.truncate(b.depth);
        let same =
            |it: &OwnerGpus| (&it.lost, &it.gained, &it.unknown) == (&flip.lost, &flip.gained, &flip.unknown);
        let is_any = !(flip.lost.is_empty() && flip.gained.is_empty() && flip.unknown.is_empty());
        if is_any && !around.last().is_some_and(same) {
            answer.push(flip.clone());
        }
        around.push(flip);
    }
    answer
}

fn flip(a: &OwnerSets, b: &OwnerSets) -> OwnerGpus {
    let keys: BTreeSet<&GpuKey> = [a, b].into_iter().flat_map(|row| all(&row.allowed)).collect();
    let of = |from: Option<bool>, to: Option<bool>| -> Vec<GpuKey> {
        let is_it = |key: &&&GpuKey| (has(&a.allowed, key), has(&b.allowed, key)) == (from, to);
        keys.iter().filter(is_it).map(|key| (*key).clone()).collect()
    };
    let unknown = [(None, Some(true)), (None, Some(false)), (Some(true), None), (Some(false), None)];
    OwnerGpus {
        owner: b.owner.clone(),
        cgroup: b.cgroup.clone(),
        lost: of(Some(true), Some(false)),
        gained: of(Some(false), Some(true)),
        unknown: unknown.into_iter().flat_map(|(from, to)| of(from, to)).collect(),
    }
}

fn all(set: &GpuSet) -> impl Iterator<Item = &GpuKey> {
    set.gpus.iter().flatten().chain(&set.unknown)
}

fn has(set: &GpuSet, key: &GpuKey) -> Option<bool> {
    let gpus = set.gpus.as_ref()?;
    if set.unknown.contains(key) { None } else { Some(gpus.contains(key)) }
}

fn allocation(a: &OwnerSets, b: &OwnerSets) -> Option<AllocationChange> {
    let what = |set: &GpuSet| (set.gpus.clone(), set.instances.clone(), set.unknown.clone());
    // Where neither is known, nothing is seen to differ.
    let is_known = a.allocated.gpus.is_some() || b.allocated.gpus.is_some();
    (is_known && what(&a.allocated) != what(&b.allocated)).then(|| AllocationChange {
        owner: b.owner.clone(),
        cgroup: b.cgroup.clone(),
        from: a.allocated.clone(),
        to: b.allocated.clone(),
    })
}
