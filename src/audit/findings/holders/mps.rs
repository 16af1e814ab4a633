//! Finds GPUs on which two servers of MPS run at a time.

use super::daemon;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::audit::tenants::holds;
use crate::audit::wording;
use crate::model::Severity;
use crate::report::{Finding, Gpu, Process};

pub(super) const MPS_OVERLAP: Kind = Kind {
    id: "mps-overlap",
    severity: Severity::Warning,
    title: "two MPS servers on one GPU",
    page: "\
Two servers of NVIDIA's MPS have one GPU open. A control daemon runs one server at a time, so these are of \
two daemons that do not know of each other: their clients take turns on the GPU in place of sharing it, and \
the limits that each daemon enforces (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, pinned memory) hold for its own \
clients alone.

Causes: a daemon for each job or container (CUDA_MPS_PIPE_DIRECTORY) without CUDA_VISIBLE_DEVICES that keeps \
it to the job's GPUs; a daemon of the node beside that of Kubernetes or of a user.

Excuses: a GPU with MIG, of which each server has an instance; the configuration shares the GPU \
(sharing.gpus).

What to do: start each daemon with CUDA_VISIBLE_DEVICES set to the GPUs that it is for, or end one of them.",
};

/// One finding for each GPU.
pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let servers: Vec<&Process> =
        facts.processes().filter(|process| daemon::is_mps_server(facts, process)).collect();
    let gpus =
        facts.gpus().iter().filter(|gpu| gpu.mig.is_empty() && !facts.config.sharing.has_gpu(&gpu.key));
    gpus.filter_map(|gpu| on_gpu(facts, gpu, &servers)).collect()
}

fn on_gpu(facts: &Facts<'_>, gpu: &Gpu, servers: &[&Process]) -> Option<Finding> {
    let here: Vec<&Process> = servers.iter().copied().filter(|server| holds(server, gpu)).collect();
    let [first, _, ..] = here.as_slice() else { return None };
    let place = facts.place_of(first)?;
    let summary = format!("{} MPS servers have {} open", here.len(), wording::gpu(gpu));
    let server = |process: &&Process| {
        format!("{} of uid {} is in {}", wording::process(process), process.uid, process.cgroup)
    };
    Some(Finding {
        devices: vec![finding::gpu(gpu)],
        processes: finding::processes(here.iter().copied()),
        evidence: wording::clauses(here.iter().map(server).collect()),
        excuses: vec!["the configuration does not share it (sharing.gpus)".to_owned()],
        advice: "start each MPS daemon with CUDA_VISIBLE_DEVICES set to the GPUs that it is for, or end one \
                 of them"
            .to_owned(),
        ..finding::at(&MPS_OVERLAP, place.cgroup, summary)
    })
}
