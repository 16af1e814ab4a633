//! What Slurm allocated to a job, a step or a task, as a source of what should be
//! allowed.
//!
//! Slurm's own record of an allocation that is left on a node is the program that it
//! attached: it denies the GPUs of `gres.conf` that were not allocated, and allows
//! everything else. So the source says which of the GPUs of `gres.conf` should open,
//! MIG capabilities included, and nothing of any other device: what Slurm leaves open
//! to everybody was not allocated. Where Slurm's program is gone, the caller repeats
//! what `scontrol -d show job` says (`--allocated`). Environments are written by
//! users, and are never asked.

use crate::allocation::{Numbering, caller_list};
use crate::analyse::{self, ProgramInForce, Stack};
use crate::gpu;
use crate::model::{
    CgroupPath, Device, DeviceType, InOrder as _, IntentionSource, Numbers, Owner, Request, RequestSet, Rule,
    Time, Verdict, Writer,
};
use crate::observation::{Answer, Observation, Text};
use crate::owner::Directory;
use crate::policy::{Decoder, Policy};
use crate::report::{Gpu, GpuSet, Intention};

use super::intention::Target;

/// Where the source stands in the answer's cautions.
pub(super) const CAUTION: &str = "Slurm allocates GPUs alone: of control nodes such as /dev/nvidiactl and \
                                  /dev/nvidia-uvm it says nothing; if they are denied too, name them with \
                                  --allow";

/// Whether a program is Slurm's, by its name and shape: other software writes the same
/// shape, which by itself is no record of an allocation.
pub(super) fn is_slurms(program: &ProgramInForce) -> bool {
    program.writer == Some(Writer::Slurm)
}

/// The Slurm job, step or task that a cgroup of Slurm's own belongs to; `None` for
/// others, and for containers and names that users made inside of a job.
pub(super) fn of(directory: &Directory, path: &Text) -> Option<Owner> {
    let owner = directory.of(path)?;
    let has_job = owner.job_id.is_some() || owner.sluid.is_some();
    (owner.kind.is_slurm() && has_job && owner.claims.is_empty()).then(|| owner.clone())
}

/// How a job is called in a sentence.
pub(super) fn name(owner: &Owner) -> String {
    owner.job_id.map(|id| id.to_string()).or_else(|| owner.sluid.clone()).unwrap_or_default()
}

/// The allocation that the caller repeats, with what is in force.
///
/// # Errors
///
/// The cgroup is no Slurm job's, or an entry of the list names no GPU for certain.
pub(super) fn named(
    observation: &Observation,
    path: &Text,
    list: &str,
    now: Policy,
    decoder: &mut Decoder,
) -> Result<Target, String> {
    let owner = of(&Directory::new(observation), path)
        .ok_or_else(|| format!("--allocated: {} is no cgroup of a Slurm job", path.lossy()))?;
    let gpus = gpu::inventory(&observation.gpu_facts);
    let numbering = Numbering::new(&observation.slurm, &observation.host.name, &gpus);
    let set = caller_list(list, &numbering, &gpus).map_err(|why| format!("--allocated: {why}"))?;
    let rules = rules(&set, &gpus)?;
    let is_number = |entry: &str| entry.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_by_number = list.split(',').map(str::trim).any(is_number);
    let gres = if is_by_number { by_gres(observation, &numbering) } else { String::new() };
    let what = format!("--allocated {list}, for {}{gres}", part(&owner));
    Ok(target(what, None, &rules, now, decoder))
}

/// What Slurm's own program allows of the GPUs of `gres.conf`, with what is in force.
///
/// # Errors
///
/// Why Slurm's programs and files do not tell it, a sentence.
pub(super) fn of_program(
    observation: &Observation,
    path: &Text,
    stack: &Stack,
    decoder: &mut Decoder,
) -> Result<Target, String> {
    let directory = Directory::new(observation);
    let owner = of(&directory, path).ok_or("it is no cgroup of a Slurm job")?;
    let (stack_there, programs) = nearest(observation, &directory, path, &owner, decoder)?;
    let title = |program: &ProgramInForce| format!("program {} (Slurm)", program.place.id);
    let titles: Vec<String> = programs.iter().map(title).collect();
    let as_of = programs.iter().map(|program| program.loaded_at.clone()).max();
    let as_of = as_of.filter(Time::is_known);
    let what = format!("{} of {}", titles.join(" and "), part(&owner));
    // Nobody else has a say: what a GPU is need not be known.
    if stack.programs.iter().all(is_slurms) {
        let intention = Intention { source: IntentionSource::SlurmAllocation, what, as_of };
        return Ok(Target { policy: stack_there.together, intention });
    }
    let changed = observation.slurm.gres_conf_modified_at.as_ref();
    if let Some((changed, loaded)) = changed.zip(as_of.as_ref()).filter(|(changed, loaded)| changed > loaded)
    {
        return Err(format!(
            "gres.conf was changed at {changed}, after Slurm attached its program at {loaded}: GPUs that are \
             listed since then are open without having been allocated; name those of the job with --allocated"
        ));
    }
    let gpus = gpu::inventory(&observation.gpu_facts);
    let numbering = Numbering::new(&observation.slurm, &observation.host.name, &gpus);
    let listed = numbering.listed(&gpus);
    if let Some(why) = listed.why.first() {
        return Err(format!("which GPUs Slurm manages is not known: {why}"));
    }
    let policies: Vec<Policy> = programs.iter().map(|program| program.policy).collect();
    let slurm = decoder.all_of(&policies);
    let listed = rules(&listed, &gpus)?;
    let rules = allowed(&listed, slurm, decoder)?;
    Ok(target(format!("{what}{}", by_gres(observation, &numbering)), as_of, &rules, stack.whole, decoder))
}

fn target(what: String, as_of: Option<Time>, rules: &[Rule], now: Policy, decoder: &mut Decoder) -> Target {
    let named = decoder.naming(rules);
    let intention = Intention { source: IntentionSource::SlurmAllocation, what, as_of };
    Target { policy: decoder.widened(now, named), intention }
}

/// Slurm's programs of exactly this job, step or task, with those in force where they
/// are attached.
///
/// Slurm attaches one to the job, one to each step but the first (the batch script,
/// the one of salloc and the external one, which have the job's) and one to each task.
/// A step may have less than its job, and a task less than its step, on purpose: so
/// the program of the job says nothing of a step that should have its own.
fn nearest(
    observation: &Observation,
    directory: &Directory,
    path: &Text,
    owner: &Owner,
    decoder: &mut Decoder,
) -> Result<(Stack, Vec<ProgramInForce>), String> {
    let is_mine = |at: &Text| of(directory, at).is_some_and(|at| level(&at) == level(owner));
    let mut around: Vec<_> = observation
        .cgroups
        .iter()
        .filter(|cgroup| {
            CgroupPath::new(path).is_at_or_below(CgroupPath::new(&cgroup.path)) && is_mine(&cgroup.path)
        })
        .collect();
    around.order_by_key(|cgroup| std::cmp::Reverse(cgroup.path.as_bytes().len()));
    for cgroup in around {
        let own = match &cgroup.own {
            Answer::Known(own) => own,
            Answer::Missing(why) => {
                return Err(not_known(owner, &format!("the programs of {}: {why}", cgroup.path.lossy())));
            }
        };
        if let Some(why) = own.programs.iter().find_map(|id| unread(observation, *id)) {
            return Err(not_known(owner, &why));
        }
        if own.programs.is_empty() {
            continue;
        }
        let stack = analyse::stack(observation, &cgroup.path, decoder).map_err(|error| error.to_string())?;
        let is_it =
            |program: &&ProgramInForce| own.programs.contains(&program.place.id) && is_slurms(program);
        let programs: Vec<ProgramInForce> = stack.programs.iter().filter(is_it).cloned().collect();
        if !programs.is_empty() {
            return Ok((stack, programs));
        }
    }
    Err(format!(
        "no program of Slurm's is attached for {}, so that what was allocated is not known: name it with \
         --allocated, as scontrol -d show job {} prints it behind IDX, or start a new step, which gets \
         programs of Slurm's",
        part(owner),
        name(owner)
    ))
}

/// Why a program may be Slurm's, although its name was not read; `None` where it was.
fn unread(observation: &Observation, id: u32) -> Option<String> {
    match observation.programs.iter().find(|program| program.id == id) {
        // Of a program that was read the tag is known, whatever becomes of its instructions.
        Some(program) if program.tag.is_empty() => {
            program.xlated.missing().map(|why| format!("program {id}: {why}"))
        }
        Some(_) => None,
        None => Some(format!("program {id}: it was not read")),
    }
}

/// The sentence where it is not known whether Slurm's program is there.
fn not_known(owner: &Owner, why: &str) -> String {
    format!(
        "whether a program of Slurm's is attached for {} is not known ({why}), and so not what was \
         allocated: run gpumap as root of the node, or name it with --allocated, as scontrol -d show job {} \
         prints it behind IDX",
        part(owner),
        name(owner)
    )
}

/// The job, and the step and the task where Slurm gives them programs of their own.
fn level(owner: &Owner) -> (Option<u64>, Option<&str>, Option<&str>, Option<&str>) {
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let step = owner.step.as_deref().filter(is_number);
    let task = owner.task.as_deref().filter(is_number).filter(|_| step.is_some());
    (owner.job_id, owner.sluid.as_deref(), step, task)
}

/// The job, step or task in words.
fn part(owner: &Owner) -> String {
    let (_, _, step, task) = level(owner);
    let step = step.map(|step| format!(", step {step}")).unwrap_or_default();
    let task = task.map(|task| format!(", task {task}")).unwrap_or_default();
    format!("job {}{step}{task}", name(owner))
}

/// The file that says what Slurm's numbers mean, with its age.
fn by_gres(observation: &Observation, numbering: &Numbering) -> String {
    let slurm = &observation.slurm;
    let Some(file) = &slurm.gres_conf else { return String::new() };
    let age = slurm.gres_conf_modified_at.as_ref().map(|time| format!(" of {time}")).unwrap_or_default();
    let assumed = numbering.assumes().map(|what| format!(" (if {what})")).unwrap_or_default();
    format!(", and {}{age}{assumed}", file.path)
}

/// The device files of the GPUs and instances of a set that is known.
fn rules(set: &GpuSet, gpus: &[Gpu]) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    for key in set.gpus.iter().flatten() {
        let gpu = gpus.iter().find(|gpu| gpu.key == *key).ok_or_else(|| format!("{key} is no GPU here"))?;
        let gates = gpu.nodes.iter().filter(|node| node.gate).map(|node| (node.major, node.minor));
        let mut numbers: Vec<(u32, u32)> = gates.chain(gpu.major.zip(gpu.minor)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        rules.extend(numbers.into_iter().map(|(major, minor)| device(major, minor)));
    }
    for instance in &set.instances {
        let caps = gpus.iter().find_map(|gpu| {
            let mig = gpu.mig.iter().find(|mig| mig.compute_key(gpu).as_ref() == Some(instance))?;
            Some([(mig.major?, mig.gi_minor?), (mig.major?, mig.ci_minor?)])
        });
        let caps = caps.ok_or_else(|| format!("the capabilities of {instance} are not known"))?;
        rules.extend(caps.map(|(major, minor)| device(major, minor)));
    }
    Ok(rules)
}

fn device(major: u32, minor: u32) -> Rule {
    let number = |number| Numbers { first: number, last: number, mask: None };
    Rule {
        verdict: Verdict::Allow,
        kind: Some(DeviceType::Char),
        major: number(major),
        minor: number(minor),
        requests: Request::ALL.into_iter().collect::<RequestSet>(),
    }
}

/// The rules of which Slurm's program allows every request.
fn allowed(rules: &[Rule], slurm: Policy, decoder: &Decoder) -> Result<Vec<Rule>, String> {
    let mut allowed = Vec::new();
    for rule in rules {
        let device = Device { kind: DeviceType::Char, major: rule.major.first, minor: rule.minor.first };
        let verdicts: Vec<Verdict> =
            Request::ALL.into_iter().map(|request| decoder.verdict(slurm, device, request)).collect();
        if verdicts.contains(&Verdict::Unknown) {
            return Err("what Slurm's program decides is not known exactly".to_owned());
        }
        if verdicts.iter().all(|verdict| *verdict == Verdict::Allow) {
            allowed.push(*rule);
        }
    }
    Ok(allowed)
}
