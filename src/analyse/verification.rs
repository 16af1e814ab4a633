//! Chooses what `audit --verify` asks the kernel: one cgroup for each set of programs
//! in force on processes, and the device nodes that decide whether GPUs can be
//! used.

use std::collections::BTreeSet;

use super::allocated::CallerAllocation;
use super::error::AnalyseError;
use super::inspection::Inspection;
use crate::observation::{Observation, Text};
use crate::policy::TimeLimit;

/// The questions of `--verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToVerify {
    /// Cgroups with processes; of those with the same programs and policy one.
    pub cgroups: Vec<Text>,
    /// Nodes: path, major and minor number.
    pub nodes: Vec<(String, u32, u32)>,
}

/// Chooses the cgroups and nodes to ask the kernel about.
///
/// # Errors
///
/// As [`super::node()`].
pub fn to_verify(observation: &Observation, limit: &TimeLimit) -> Result<ToVerify, AnalyseError> {
    let inspection = Inspection::new(observation, &CallerAllocation::default(), limit);
    inspection.map(|inspection| questions(&inspection))
}

/// The same of a node that is analysed already.
pub(crate) fn questions(inspection: &Inspection<'_>) -> ToVerify {
    let mut seen = BTreeSet::new();
    let cgroups = inspection.payload().cgroups.iter().flatten().zip(inspection.paths());
    let different = cgroups.filter(|(cgroup, path)| {
        let observed = inspection.cgroup(path);
        let has_processes = observed.is_some_and(|observed| !observed.pids.is_empty());
        let ids: Vec<u32> = cgroup.programs.iter().map(|program| program.id).collect();
        has_processes && seen.insert((ids, cgroup.policy.clone()))
    });
    let cgroups = different.map(|(_, path)| path.clone()).collect();
    ToVerify { cgroups, nodes: nodes(inspection) }
}

fn nodes(inspection: &Inspection<'_>) -> Vec<(String, u32, u32)> {
    let gates = inspection.gpus().iter().flat_map(|gpu| {
        let number = gpu.major.zip(gpu.minor);
        let gate = gpu.nodes.iter().find(|node| node.gate);
        gate.zip(number).map(|(node, (major, minor))| (node.path.clone(), major, minor))
    });
    let shared = inspection.shared_nodes().iter().filter(|node| node.needed && node.present);
    gates.chain(shared.map(|node| (node.path.clone(), node.major, node.minor))).collect()
}
