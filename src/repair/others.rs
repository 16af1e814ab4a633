//! What a repair would give to others: a job gets no more than it was allocated, nobody
//! gets what another owner has alone, and no other cgroup that the same program rules
//! gains anything.

use std::collections::{BTreeSet, HashMap};

use super::slurm;
use crate::model::{CgroupPath, Device, DeviceType, IntentionSource, Owner, Request, Verdict};
use crate::observation::{Observation, Text};
use crate::owner::Directory;
use crate::policy::{Decoder, Policy};
use crate::report::Gpu;
use crate::{analyse, gpu};

/// Refuses to give what somebody else has, or more than the job was given.
///
/// # Errors
///
/// The reason, a sentence.
pub(super) fn refuse_claimed(
    observation: &Observation,
    path: &Text,
    missing: Policy,
    source: &IntentionSource,
    decoder: &mut Decoder,
) -> Result<(), String> {
    let directory = Directory::new(observation);
    if let Some(job) = directory.of(path).and_then(job) {
        refuse_more_than_job(observation, path, &job, &directory, missing, source, decoder)?;
    }
    let is_said = matches!(source, IntentionSource::Asked | IntentionSource::SlurmAllocation);
    refuse_exclusive(observation, path, &directory, missing, is_said, decoder)
}

/// The Slurm job that an owner is in or is.
fn job(owner: &Owner) -> Option<Owner> {
    let mut around = std::iter::successors(Some(owner), |owner| owner.outer.as_deref());
    let is_job = |owner: &&Owner| owner.kind.is_slurm() && (owner.job_id.is_some() || owner.sluid.is_some());
    around.find(is_job).map(identity)
}

/// Job number and SLUID alone.
fn identity(owner: &Owner) -> Owner {
    Owner { kind: owner.kind.clone(), job_id: owner.job_id, sluid: owner.sluid.clone(), ..Owner::default() }
}

/// What Slurm allocated to a job is what the job's own cgroup allows: its steps and
/// their tasks get parts of that. Where another has replaced Slurm's program there, the
/// source may be Slurm's allocation itself, and is then the limit.
fn refuse_more_than_job(
    observation: &Observation,
    path: &Text,
    mine: &Owner,
    directory: &Directory,
    missing: Policy,
    source: &IntentionSource,
    decoder: &mut Decoder,
) -> Result<(), String> {
    let name = slurm::name(mine);
    let of_job = |path: &Text| directory.of(path).and_then(job).as_ref() == Some(mine);
    let around = observation.cgroups.iter().filter(|cgroup| {
        CgroupPath::new(path).is_at_or_below(CgroupPath::new(&cgroup.path)) && of_job(&cgroup.path)
    });
    let top = around.min_by_key(|cgroup| cgroup.path.as_bytes().len());
    let own = top.and_then(|top| Some((top, top.own.known()?)));
    let is_allocation = *source == IntentionSource::SlurmAllocation;
    let Some((top, own)) = own.filter(|(_, own)| !own.programs.is_empty()) else {
        if is_allocation {
            return Ok(());
        }
        return Err(format!(
            "the cgroup of job {name} has no program of Slurm's: what was allocated to the job is not known; \
             name it with --allocated, as scontrol -d show job {name} prints it behind IDX"
        ));
    };
    let stack = analyse::stack(observation, &top.path, decoder).map_err(|error| error.to_string())?;
    let here = stack.programs.iter().filter(|program| own.programs.contains(&program.place.id));
    let (slurms, others): (Vec<_>, Vec<_>) = here.partition(|program| slurm::is_slurms(program));
    let policies: Vec<Policy> = match slurms.as_slice() {
        [] if is_allocation => return Ok(()),
        [] => others.iter().map(|program| program.policy).collect(),
        slurms => slurms.iter().map(|program| program.policy).collect(),
    };
    let allocated = decoder.all_of(&policies);
    if decoder.is_known(allocated) && decoder.allows_no_more(missing, allocated) {
        return Ok(());
    }
    Err(format!(
        "it is more than Slurm gave job {name}: the program at {} denies some of it; correct gres.conf or \
         the allocation, and start a new step",
        top.path.lossy()
    ))
}

/// A GPU is somebody's alone if of all owners who may open it and not every other
/// GPU there is just one. What a runtime or a saved state grants may be shared on
/// purpose, so that only the GPUs of Slurm's jobs count there.
fn refuse_exclusive(
    observation: &Observation,
    path: &Text,
    directory: &Directory,
    missing: Policy,
    is_said: bool,
    decoder: &mut Decoder,
) -> Result<(), String> {
    let gpus = gpu::inventory(&observation.gpu_facts);
    let root = Text::from("/");
    let wanted: Vec<&Gpu> =
        gpus.iter().filter(|gpu| verdict(decoder, missing, gpu) == Some(Verdict::Allow)).collect();
    if wanted.is_empty() || gpus.len() < 2 {
        return Ok(());
    }
    let policies = analyse::policies_below(observation, &root, decoder);
    for gpu in wanted {
        let mut holders = BTreeSet::new();
        for (cgroup, policy) in &policies {
            let Some(owner) = directory.of(&cgroup.path).filter(|owner| owner.is_workload()) else {
                continue;
            };
            let is_mine = CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(path))
                || CgroupPath::new(path).is_at_or_below(CgroupPath::new(&cgroup.path))
                || directory.of(path).is_some_and(|mine| is_same(mine, owner));
            let may = |gpu: &Gpu| verdict(decoder, *policy, gpu) == Some(Verdict::Allow);
            let is_limited = gpus.iter().any(|other| verdict(decoder, *policy, other) == Some(Verdict::Deny));
            if !is_mine && is_limited && may(gpu) {
                let title = job(owner).unwrap_or_else(|| owner.identity());
                holders.insert((title.kind.is_slurm(), cgroup.path.lossy().into_owned(), title));
            }
        }
        let owners: BTreeSet<&Owner> = holders.iter().map(|(_, _, owner)| owner).collect();
        let Some((is_slurm, at, _)) = holders.first().filter(|_| owners.len() == 1) else { continue };
        if *is_slurm || is_said {
            return Err(format!("{} is another owner's alone: {at} may open it and not all GPUs", gpu.key));
        }
    }
    Ok(())
}

/// Whether two owners are one or in one: the same job, pod or container.
fn is_same(a: &Owner, b: &Owner) -> bool {
    match (job(a), job(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.identity() == b.identity(),
        _ => false,
    }
}

fn verdict(decoder: &Decoder, policy: Policy, gpu: &Gpu) -> Option<Verdict> {
    let (major, minor) = gpu.major.zip(gpu.minor)?;
    let device = Device { kind: DeviceType::Char, major, minor };
    Some(decoder.verdict(policy, device, Request::ReadWrite))
}

/// A program that would allow more, and where it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widening<'a> {
    /// The program.
    pub(super) program: u32,
    /// What it would decide.
    pub(super) policy: Policy,
    /// The cgroup it is attached to.
    pub(super) level: &'a Text,
    /// The cgroup that is repaired: it and those below it are meant to gain.
    pub(super) meant: &'a Text,
}

/// The other cgroups in which something would be allowed that is not allowed now,
/// or of which that is not known.
pub(super) fn gainers(
    observation: &Observation,
    widening: Widening<'_>,
    decoder: &mut Decoder,
) -> Vec<String> {
    let is_other = |path: &Text| {
        let path = CgroupPath::new(path);
        path.is_at_or_below(CgroupPath::new(widening.level))
            && !path.is_at_or_below(CgroupPath::new(widening.meant))
    };
    let mut known: HashMap<Vec<u32>, bool> = HashMap::new();
    let mut gainers = Vec::new();
    for cgroup in observation.cgroups.iter().filter(|cgroup| is_other(&cgroup.path)) {
        // Nobody is in a level above the one that is repaired but those below it.
        let is_above = CgroupPath::new(widening.meant).is_below(CgroupPath::new(&cgroup.path));
        if is_above && cgroup.is_empty() {
            continue;
        }
        let gains = match cgroup.effective.known() {
            Some(ids) if !ids.contains(&widening.program) => false,
            Some(ids) => match known.get(ids) {
                Some(gains) => *gains,
                None => {
                    let gains = gains(observation, &cgroup.path, widening, decoder);
                    known.insert(ids.clone(), gains);
                    gains
                }
            },
            None => true,
        };
        gainers.extend(gains.then(|| cgroup.path.lossy().into_owned()));
    }
    gainers
}

fn gains(observation: &Observation, path: &Text, widening: Widening<'_>, decoder: &mut Decoder) -> bool {
    // What cannot be decoded may gain.
    let Ok(stack) = analyse::stack(observation, path, decoder) else { return true };
    if stack.programs.iter().any(|program| program.by_place) {
        return true;
    }
    let after = after(&stack, &widening, decoder);
    !decoder.is_known(stack.together) || !decoder.allows_no_more(after, stack.together)
}

/// What the programs decide once one of them is widened.
pub(super) fn after(stack: &analyse::Stack, widening: &Widening<'_>, decoder: &mut Decoder) -> Policy {
    let of = |program: &analyse::ProgramInForce| {
        if program.place.id == widening.program { widening.policy } else { program.policy }
    };
    let policies: Vec<Policy> = stack.programs.iter().map(of).collect();
    decoder.all_of(&policies)
}
