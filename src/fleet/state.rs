//! What `fleet` keeps of a node's state: its properties and its jobs.

use std::collections::BTreeMap;

use super::answer::{Gaps, Identity, JobRow, State};
use super::compact_form::Compact;
use super::document::{self, Answer};
use super::inventory::{Inventory, Tables};
use super::kept::Kept;
use super::limits::{CELLS, Refusal, Word, cut};
use super::owners::job_of_text;
use super::text::{DEVICES, Key, Mask, Str};
use crate::observation::Observation;

/// Drivers and kinds of owners that count of one node.
const KINDS: usize = 32;

/// Codes of problems that count of one node.
const CODES: usize = 64;

/// Properties with their values.
type Properties = Vec<(Word, Word)>;

fn add(tables: &mut Tables, properties: &mut Properties, what: &str, value: &str) {
    properties.push((tables.words.number(what), tables.words.number(value)));
}

/// What every document says of its node.
#[derive(Clone, Copy, Debug)]
struct Basics<'a> {
    version: &'a str,
    kernel: &'a str,
    mode: &'a str,
    cluster: Option<&'a str>,
    boot: &'a str,
}

impl<'a> Basics<'a> {
    fn of(answer: &'a Answer<'_>) -> Self {
        let host = &answer.host;
        Self {
            version: &answer.version,
            kernel: &host.kernel,
            mode: &host.cgroup_mode,
            cluster: host.slurm_cluster.as_deref(),
            boot: &host.boot_id,
        }
    }

    /// A state with these properties and no job.
    fn state(self, tables: &mut Tables, gpus: &str) -> State {
        let mut properties = Properties::new();
        let always =
            [("gpumap", self.version), ("kernel", self.kernel), ("cgroups", self.mode), ("gpus", gpus)];
        for (what, value) in always.into_iter().chain(self.cluster.map(|name| ("slurm cluster", name))) {
            add(tables, &mut properties, what, value);
        }
        let cluster = self.cluster.map(|name| tables.words.number(name));
        let (identities, jobs) = (Vec::new(), Vec::new());
        State { properties, cluster, has_drivers: false, identities, jobs, kept: Kept::Unwanted }
    }
}

/// The state in an answer of `node`, by its compact form.
pub(super) fn of_answer(
    tables: &mut Tables,
    answer: &Answer<'_>,
    node: &Compact<'_>,
) -> Result<State, Refusal> {
    compact(tables, Basics::of(answer), node)
}

/// The state in an observation, by its compact form.
pub(super) fn of_observation(
    tables: &mut Tables,
    observation: &Observation,
    node: &Compact<'_>,
) -> Result<State, Refusal> {
    let host = &observation.host;
    let mode = serde_json::to_string(&host.cgroup_mode).unwrap_or_default();
    let basics = Basics {
        version: &observation.version,
        kernel: &host.kernel,
        mode: mode.trim_matches('"'),
        cluster: host.slurm_cluster.as_deref(),
        boot: &host.boot_id,
    };
    let mut state = compact(tables, basics, node)?;
    if let Some(setup) = &observation.setup {
        let settings = [
            ("slurm TaskPlugin", setup.slurm.slurm_conf.as_ref(), "taskplugin"),
            ("slurm ConstrainDevices", setup.slurm.cgroup_conf.as_ref(), "constraindevices"),
        ];
        for (what, file, key) in settings {
            if let Some(value) = file.and_then(|file| file.value(key)) {
                add(tables, &mut state.properties, what, value);
            }
        }
    }
    Ok(state)
}

fn compact(tables: &mut Tables, basics: Basics<'_>, node: &Compact<'_>) -> Result<State, Refusal> {
    let devices = node.gpus.0.len() + node.instances.0.len();
    if devices > DEVICES {
        return Err(Refusal::why("it has more GPUs than any node"));
    }
    if devices.saturating_mul(node.owners.owner.0.len()) > CELLS {
        return Err(Refusal::why("it has more GPUs and owners than any node"));
    }
    let inventory = Inventory::of(tables, node);
    let mut state = basics.state(tables, &inventory.text(&tables.words));
    state.has_drivers = !node.lacks_files;
    // Keys of other GPUs are addresses, which are the same on many nodes.
    let gpus = node.gpus.0.iter().filter(|gpu| gpu.key.starts_with("GPU-"));
    state.identities = gpus.map(|gpu| Identity::Gpu(Key::of(&gpu.key))).collect();
    // That of the kernel, and no stand-in for it.
    let is_boot = basics.boot.len() == 36 && basics.boot.bytes().filter(|byte| *byte == b'-').count() == 4;
    state.identities.extend(is_boot.then(|| Identity::Boot(Key::of(basics.boot))));
    let properties = &mut state.properties;
    if let Some(instances) = instances(node) {
        add(tables, properties, "MIG instances", &instances);
    }
    if !node.lacks_files {
        add(tables, properties, "gres.conf", node.gres_conf.as_deref().unwrap_or("none"));
    }
    for (name, version) in node.drivers.0.iter().take(KINDS) {
        add(tables, properties, &format!("driver {}", cut(name)), version);
    }
    for (kind, shapes) in node.programs.0.iter().take(KINDS) {
        let shapes: Vec<&str> = shapes.0.iter().map(|shape| &**shape).collect();
        add(tables, properties, &format!("programs of {}", cut(kind)), &shapes.join(" | "));
    }
    state.jobs = compact_jobs(tables, &inventory, node)?;
    Ok(state)
}

/// The MIG instances of each GPU that has some, by the GPU's number: `0: 1/0 2/0`;
/// `None` where there are none.
fn instances(node: &Compact<'_>) -> Option<String> {
    let mut by_gpu: BTreeMap<u32, Vec<(u16, u16)>> = BTreeMap::new();
    for (place, gpu) in (0..).zip(&node.gpus.0) {
        let key = Key::of(&gpu.key);
        let on = node.instances.0.iter().filter(|one| one.gpu == key).filter_map(|one| one.instance);
        let mut all: Vec<(u16, u16)> = on.collect();
        all.sort_unstable();
        if !all.is_empty() {
            by_gpu.entry(gpu.nvml.or(gpu.minor).unwrap_or(place)).or_default().extend(all);
        }
    }
    let one = |(gpu, all): (u32, Vec<(u16, u16)>)| {
        let all: Vec<String> = all.iter().map(|(gi, ci)| format!("{gi}/{ci}")).collect();
        format!("{gpu}: {}", all.join(" "))
    };
    let text = by_gpu.into_iter().map(one).collect::<Vec<_>>().join(", ");
    (!text.is_empty()).then_some(text)
}

fn compact_jobs(
    tables: &mut Tables,
    inventory: &Inventory,
    node: &Compact<'_>,
) -> Result<Vec<JobRow>, Refusal> {
    let owners = &node.owners;
    let rows = owners.owner.0.len();
    let lengths = [owners.depth.0.len(), owners.allocated.0.len(), owners.allowed.0.len()];
    if lengths.into_iter().any(|length| length != rows) {
        return Err(Refusal::why("its columns of owners are not of one length"));
    }
    let bad = || Refusal::why("a set of its owners is no mask over its GPUs");
    let read = |text: &Option<Str<'_>>| match text {
        Some(text) => Mask::read(text).map(Some).ok_or_else(bad),
        None => Ok(None),
    };
    let mut jobs = Vec::new();
    let columns = owners.owner.0.iter().zip(&owners.depth.0).zip(&owners.allowed.0).zip(&owners.allocated.0);
    for (((owner, depth), allowed), allocated) in columns {
        let Some(job) = job_of_text(owner).filter(|_| *depth == 0) else { continue };
        let (allowed, allocated) = (read(allowed)?, read(allocated)?);
        let allocated = allocated.filter(|mask| !mask.claimed);
        let job = tables.words.number(job);
        let allowed = inventory.of_mask(tables, allowed.as_ref()).ok_or_else(bad)?;
        let allocated = match allocated {
            Some(mask) => Some(inventory.of_mask(tables, Some(&mask)).ok_or_else(bad)?),
            None => None,
        };
        jobs.push(JobRow { job, allowed, allocated });
    }
    Ok(jobs)
}

/// What an answer could not see.
pub(super) fn gaps(tables: &mut Tables, answer: &Answer<'_>) -> Gaps {
    let mut gaps = Gaps { complete: answer.complete, ..Gaps::default() };
    for problem in &answer.errors.0 {
        gap(tables, &mut gaps, &problem.code, problem);
    }
    for (code, count) in answer.compact.iter().flat_map(|node| &node.problems.0).take(CODES) {
        let code = tables.words.number(code);
        if let Some((counted, _)) = gaps.problems.get_mut(&code) {
            *counted = *count;
        }
    }
    gaps
}

/// What an observation could not see.
pub(super) fn gaps_of(tables: &mut Tables, observation: &Observation, unknown: bool) -> Gaps {
    let complete = observation.errors.is_empty() && !unknown;
    let mut gaps = Gaps { complete, ..Gaps::default() };
    for problem in &observation.errors {
        let text = format!("{}: {}", cut(&problem.what), cut(&problem.why));
        count(tables, &mut gaps, problem.code.as_str(), &text);
    }
    gaps
}

fn gap(tables: &mut Tables, gaps: &mut Gaps, code: &str, problem: &document::Problem<'_>) {
    let what = if problem.what.is_empty() { String::new() } else { format!("{}: ", cut(&problem.what)) };
    count(tables, gaps, code, &format!("{what}{}", cut(&problem.why)));
}

/// Counts a problem; its example is the first by its words.
fn count(tables: &mut Tables, gaps: &mut Gaps, code: &str, text: &str) {
    let code = tables.words.number(code);
    if gaps.problems.len() >= CODES && !gaps.problems.contains_key(&code) {
        return;
    }
    match gaps.problems.get_mut(&code) {
        Some((count, _)) => *count += 1,
        None => {
            let example = tables.words.number(text);
            gaps.problems.insert(code, (1, example));
        }
    }
}
