//! The four sets of each owner, and the GPUs that it used.

use super::catalogue::{
    ALLOCATED, ALLOWED, ASKED, GPU_UNKNOWN, HELD, HELD_DENIED, OWNERS, OWNERS_LEFT_OUT, OWNERS_LIMIT,
    PROCESSES, SET_UNKNOWN, SHARES, USED,
};
use super::metric::{Family, Metric, count};
use super::owner_name::{OwnerName, OwnerNames};
use crate::model::InstanceKey;
use crate::report::{GpuSet, OwnerSets};

/// A set of an owner, as the label `set` names it. `None` where the owner has no such
/// set: services are allocated nothing.
type NamedSet = (&'static str, fn(&OwnerSets) -> Option<&GpuSet>);

const SETS: [NamedSet; 5] = [
    ("allocated", |row| row.owner.is_workload().then_some(&row.allocated)),
    ("allowed", |row| Some(&row.allowed)),
    ("asked", |row| Some(&row.visible)),
    ("held", |row| Some(&row.held)),
    ("used", |row| row.used.as_ref()),
];

pub(super) fn families(names: &OwnerNames<'_>) -> Vec<Family> {
    let number = |number: usize| count(number as u64);
    let processes = names
        .kept
        .iter()
        .map(|(name, rows)| (name.after([]), number(rows.iter().map(|row| row.processes).sum())));
    let shares =
        rows(names).flat_map(|(name, row)| row.shares.iter().map(move |mode| name.after([mode.to_string()])));
    let denied =
        rows(names).flat_map(|(name, row)| row.held_denied.iter().map(move |gpu| name.after([gpu.clone()])));
    vec![
        Family::one(OWNERS, number(names.kept.len() + names.left_out)),
        Family::one(OWNERS_LIMIT, number(names.limit)),
        Family::one(OWNERS_LEFT_OUT, number(names.left_out)),
        Family::of(PROCESSES, processes),
        Family::ones(SHARES, shares),
        allocated(names),
        members(ALLOWED, names, |row| Some(&row.allowed)),
        members(ASKED, names, |row| Some(&row.visible)),
        members(HELD, names, |row| Some(&row.held)),
        members(USED, names, |row| row.used.as_ref()),
        Family::ones(HELD_DENIED, denied),
        Family::ones(GPU_UNKNOWN, rows(names).flat_map(|(name, row)| unknown_gpus(name, row))),
        Family::ones(SET_UNKNOWN, rows(names).flat_map(|(name, row)| unknown_sets(name, row))),
    ]
}

fn rows<'n>(names: &'n OwnerNames<'_>) -> impl Iterator<Item = (&'n OwnerName, &'n OwnerSets)> {
    names.kept.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, *row)))
}

/// The family of the GPUs in a set.
fn members(
    metric: &'static Metric,
    names: &OwnerNames<'_>,
    set: fn(&OwnerSets) -> Option<&GpuSet>,
) -> Family {
    let of = |(name, row): (&OwnerName, &OwnerSets)| {
        let devices = set(row).map(devices).unwrap_or_default();
        devices.into_iter().map(|device| name.after(device)).collect::<Vec<_>>()
    };
    Family::ones(metric, rows(names).flat_map(of))
}

/// The same for the allocation, which has a source.
fn allocated(names: &OwnerNames<'_>) -> Family {
    let of = |(name, row): (&OwnerName, &OwnerSets)| {
        let with_source =
            |[gpu, instance]: [String; 2]| name.after([gpu, instance, row.allocated.source_name()]);
        devices(&row.allocated).into_iter().map(with_source).collect::<Vec<_>>()
    };
    Family::ones(ALLOCATED, rows(names).flat_map(of))
}

/// The labels `UUID` and `GPU_I_ID` of what is certainly in a set: its GPU instances,
/// and the GPUs of which it has no instance but the whole. So counting samples counts
/// devices, and each has the labels that DCGM gives it.
fn devices(set: &GpuSet) -> Vec<[String; 2]> {
    let instances: Vec<[String; 2]> = set.instances.iter().filter_map(|key| gpu_instance(key)).collect();
    let is_whole = |gpu: &&String| !instances.iter().any(|[of, _]| of == *gpu);
    let whole = set.gpus.iter().flatten().filter(is_whole).map(|gpu| [gpu.clone(), String::new()]);
    whole.chain(instances.iter().cloned()).collect()
}

/// GPU and GPU instance of `KEY/GI/CI` or `KEY/GI`.
fn gpu_instance(key: &str) -> Option<[String; 2]> {
    let InstanceKey { gpu, gi, .. } = InstanceKey::parse(key)?;
    Some([gpu.to_owned(), gi.to_string()])
}

fn unknown_gpus(name: &OwnerName, row: &OwnerSets) -> Vec<Vec<String>> {
    let of = |(set, pick): &NamedSet| {
        let gpus = pick(row).map(|set| set.unknown.clone()).unwrap_or_default();
        gpus.into_iter().map(|gpu| name.after([(*set).to_owned(), gpu])).collect::<Vec<_>>()
    };
    SETS.iter().flat_map(of).collect()
}

fn unknown_sets(name: &OwnerName, row: &OwnerSets) -> Vec<Vec<String>> {
    let is_unknown = |(_, pick): &&NamedSet| pick(row).is_some_and(|set| set.gpus.is_none());
    SETS.iter().filter(is_unknown).map(|(set, _)| name.after([(*set).to_owned()])).collect()
}
