//! The answer of `gpumap cgroup`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::gpu;
use crate::observation::{self, Observation, Text};
use crate::policy::device::{Device, DeviceType, Request, RequestSet, Verdict};
use crate::policy::{Decoder, Policy};
use crate::report::{Cgroup, Gpu, GpuVerdict, Payload, Process};

use super::attachment::Tree;
use super::policies::Policies;
use super::rules::Table;
use super::{AnalyseError, programs};

/// The answer of `gpumap cgroup`: every cgroup in the observation's scope.
pub fn cgroups(observation: &Observation) -> Result<Payload, AnalyseError> {
    let mut decoder = Decoder::new();
    let mut policies = Policies::new(observation);
    let mut table = Table::default();
    let gpus = gpu::inventory(&observation.gpu_facts);
    let tree = Tree::new(&observation.cgroups);
    let inside = by_cgroup(&observation.processes);
    let mut verdicts: HashMap<Policy, Vec<GpuVerdict>> = HashMap::new();
    let mut answer = Vec::new();
    for cgroup in in_scope(observation)? {
        let inside = inside.get(&cgroup.path).map(Vec::as_slice).unwrap_or_default();
        let policy = policies.of_cgroup(cgroup, inside, &mut decoder);
        let gpus = verdicts.entry(policy).or_insert_with(|| gpu_verdicts(&gpus, policy, &decoder));
        answer.push(Cgroup {
            path: cgroup.path.lossy().into_owned(),
            path_hex: cgroup.path.hex(),
            id: cgroup.id,
            owner: None,
            programs: tree.effective(cgroup),
            programs_unknown: cgroup.effective.missing().map(str::to_owned),
            policy: table.add(policy, &mut decoder),
            gpus: gpus.clone(),
            processes: inside.iter().map(|process| self::process(process)).collect(),
        });
    }
    let used: BTreeSet<u32> =
        answer.iter().flat_map(|cgroup| &cgroup.programs).map(|program| program.id).collect();
    Ok(Payload {
        programs: Some(programs::table(observation, &used, &mut policies, &mut table, &mut decoder)),
        cgroups: Some(answer),
        policies: Some(table.policies),
        gpus: Some(gpus),
        ..Payload::default()
    })
}

/// The cgroups asked for, in walk order.
fn in_scope(observation: &Observation) -> Result<Vec<&observation::Cgroup>, AnalyseError> {
    let exact: BTreeSet<&Text> = observation.scope.iter().map(|scope| &scope.path).collect();
    let below: Vec<&[u8]> =
        observation.scope.iter().filter(|scope| scope.recursive).map(|scope| scope.path.as_bytes()).collect();
    let gone = |path: &Text| observation.errors.iter().any(|error| error.what == path.lossy());
    for path in &exact {
        if !observation.cgroups.iter().any(|cgroup| cgroup.path == **path) && !gone(path) {
            return Err(AnalyseError::NoCgroup((*path).clone()));
        }
    }
    let asked = |cgroup: &&observation::Cgroup| {
        exact.contains(&cgroup.path) || below.iter().any(|top| is_below(cgroup.path.as_bytes(), top))
    };
    Ok(observation.cgroups.iter().filter(asked).collect())
}

fn is_below(path: &[u8], top: &[u8]) -> bool {
    top == b"/" || path.strip_prefix(top).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn by_cgroup(processes: &[observation::Process]) -> BTreeMap<Text, Vec<&observation::Process>> {
    let mut inside: BTreeMap<Text, Vec<&observation::Process>> = BTreeMap::new();
    for process in processes {
        inside.entry(process.cgroup.clone()).or_default().push(process);
    }
    inside
}

fn process(process: &observation::Process) -> Process {
    Process {
        pid: process.pid,
        start_time: process.start_time,
        uid: process.uid,
        comm: process.comm.lossy().into_owned(),
        comm_hex: process.comm.hex(),
        cgroup: process.cgroup.lossy().into_owned(),
        ..Process::default()
    }
}

/// What a policy says of every GPU.
pub(super) fn gpu_verdicts(gpus: &[Gpu], policy: Policy, decoder: &Decoder) -> Vec<GpuVerdict> {
    gpus.iter().map(|gpu| gpu_verdict(gpu, policy, decoder)).collect()
}

fn gpu_verdict(gpu: &Gpu, policy: Policy, decoder: &Decoder) -> GpuVerdict {
    let mut verdict =
        GpuVerdict { gpu: gpu.key.clone(), major: gpu.major, minor: gpu.minor, ..GpuVerdict::default() };
    let (Some(major), Some(minor)) = (gpu.major, gpu.minor) else {
        let why = if gpu.excluded {
            "the driver excludes it: it has no device node"
        } else {
            "it has no device node"
        };
        verdict.verdict = Verdict::Deny.to_string();
        verdict.why = Some(why.to_owned());
        return verdict;
    };
    let device = Device { kind: DeviceType::Char, major, minor };
    let answer = decoder.verdict(policy, device, Request::ReadWrite);
    let allowed = |request: &Request| decoder.verdict(policy, device, *request) == Verdict::Allow;
    let requests: RequestSet = Request::ALL.into_iter().filter(allowed).collect();
    verdict.verdict = answer.to_string();
    verdict.requests = requests.to_string();
    if answer == Verdict::Unknown {
        verdict.why = Some(decoder.why(policy, device, Request::ReadWrite).join("; "));
    }
    verdict
}
