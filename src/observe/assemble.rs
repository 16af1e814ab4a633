//! Puts an observation together: walks the cgroups that are asked for and reads
//! the programs, processes and GPUs that belong to them.

use std::collections::BTreeSet;

use super::cgroups::hierarchy::Hierarchy;
use super::cgroups::walk::{self, VisitedCgroup, WalkPlan};
use super::cgroups::{devices_v1, recheck};
use super::error::ObserveError;
use super::options::{CgroupTarget, Options};
use super::problems::{self, Log};
use super::processes::{by_pid, collect, users};
use super::programs::cache::{self, ProgramCache};
use super::programs::symbols;
use super::{containers, gpu, host, rights, slurm_config as config, slurm_daemon, units, view};
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem, Process, Text, take_regions};
use crate::owner;
use crate::sys::bpf::CGROUP_DEVICE_PROGRAM;
use crate::sys::caps::Capability::SysAdmin;

/// Observes cgroups: their programs with maps, their processes, and the node's
/// GPUs. Ancestors up to the root are included.
///
/// Lists since Linux 4.15; the rights it takes are `CAP_SYS_ADMIN` (with
/// `CAP_SYSLOG` for programs that call helpers), and less gives less.
///
/// # Errors
///
/// A target that does not exist, is no cgroup or lies elsewhere; no cgroup
/// hierarchy at all.
pub fn cgroups(options: &Options, targets: &[CgroupTarget]) -> Result<Observation, ObserveError> {
    let log = Log::new(options.deadline);
    let hierarchy = Hierarchy::find(options)?;
    let (plan, scope) = WalkPlan::new(&hierarchy, targets)?;
    let node = host::blank(options, Some(&hierarchy));
    let whole = plan.is_whole();
    let seen =
        |seen: &[VisitedCgroup], log: &mut Log| collect::collect(options, &hierarchy, seen, whole, log);
    let mut observation = observe(options, &hierarchy, &plan, Observation { scope, ..node }, seen, log);
    pass_over_gone(&mut observation);
    Ok(observation)
}

/// Turns problems about cgroups that were removed while observing into remarks,
/// because they no longer matter. A cgroup that the caller named stays a problem.
fn pass_over_gone(observation: &mut Observation) {
    let named: BTreeSet<_> = observation.scope.iter().map(|scope| scope.path.lossy()).collect();
    let is_passed =
        |problem: &Problem| problem.code == ProblemCode::CgroupGone && !named.contains(problem.what.as_str());
    let (passed, errors) = std::mem::take(&mut observation.errors).into_iter().partition(is_passed);
    (observation.remarks, observation.errors) = (passed, errors);
}

/// Walks the planned cgroups and reads their programs, their processes and the
/// GPUs.
pub(super) fn observe(
    options: &Options,
    hierarchy: &Hierarchy,
    plan: &WalkPlan,
    mut observation: Observation,
    processes: impl FnOnce(&[VisitedCgroup], &mut Log) -> Vec<Process>,
    mut log: Log,
) -> Observation {
    let mut seen = walk::walk(hierarchy, plan, &mut log);
    let view = view::look(options, hierarchy, &mut seen, plan, &mut log);
    let mut cache = ProgramCache::new();
    recheck::settle(hierarchy, &mut seen, &mut cache, &mut log);
    recheck::fill(&mut seen, &mut log);
    observation.processes = processes(&seen, &mut log);
    let named = !observation.pids.is_empty();
    view.finish(options, hierarchy, &mut seen, &observation.processes, named, &mut log);
    let details = observation.processes.iter_mut().filter_map(|process| process.detail.as_mut());
    observation.regions = take_regions(details.filter_map(|detail| detail.vgpu.as_deref_mut()));
    if let Some(mount) = &hierarchy.devices {
        observation.devices_v1 = Some(devices_v1::collect(mount, &observation.processes, &mut log));
    }
    observation.gpu_facts = gpu::of_node(options, &mut log);
    if options.detail || options.users {
        observation.users = users::of(options, &observation.processes, &mut log);
    }
    if options.detail || options.slurm {
        let is_seen = observation.processes.iter().any(slurm_daemon::is_called);
        let is_slurm = |one: &VisitedCgroup| {
            owner::of_path(one.cgroup.path.as_bytes()).is_some_and(|one| one.kind.is_slurm())
        };
        let is_here = seen.iter().any(is_slurm);
        let (cgroups, processes) = (Some(hierarchy.mount.point.as_path()), &observation.processes);
        let places = config::places(options, cgroups, processes, is_here, &mut log);
        observation.slurm = config::collect(options, &places, &mut log);
        if is_here || is_seen {
            // It may use other files than those that were known before it was seen.
            observation.host.slurm_cluster = config::cluster(options, &places, &mut log);
        }
    }
    if options.units {
        observation.units = units::collect(options, &seen, &mut cache, &mut log);
    }
    let visited: Vec<_> = seen.iter().map(|seen| &seen.cgroup).collect();
    observation.pods = containers::pods(options, &visited, &mut log);
    if options.containers {
        let seen = visited;
        observation.containers = containers::collect(options, &observation.host.cgroup_root, &seen, &mut log);
    }
    shelve(&mut observation, options, cache, &mut log);
    observation.cgroups = seen.into_iter().map(|VisitedCgroup { cgroup, .. }| cgroup).collect();
    observation.errors.extend(log.problems);
    observation
}

/// Observes processes: their details, their cgroups with ancestors, the node's GPUs.
/// Other processes of those cgroups are listed there, but not read. Processes that
/// do not exist are problems (`no-process`) if others do exist; the number of a mere
/// thread is no process.
///
/// # Errors
///
/// None of the processes exists or has a cgroup that can be seen from here; no
/// cgroup hierarchy.
pub fn processes(options: &Options, pids: &[u32]) -> Result<Observation, ObserveError> {
    processes_and(options, pids, &[])
}

/// Observes processes, and further cgroups. Cgroups that are gone are left out.
///
/// # Errors
///
/// As [`processes`].
pub fn processes_and(
    options: &Options,
    pids: &[u32],
    others: &[CgroupTarget],
) -> Result<Observation, ObserveError> {
    let mut log = Log::new(options.deadline);
    let hierarchy = Hierarchy::find(options)?;
    let processes = by_pid::read_all(options, &hierarchy, pids, &mut log)?;
    let paths: BTreeSet<&Text> = processes.iter().map(|process| &process.cgroup).collect();
    let targets = paths.into_iter().map(|path| CgroupTarget::observed(path, false));
    let targets = targets.chain(others.iter().cloned());
    // One that is removed in this moment loses its process, not the others.
    let mut there = Vec::new();
    for target in targets {
        match hierarchy.find_target(&target) {
            Ok(_) => there.push(target),
            Err(ObserveError::NoSuchCgroup { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let (plan, scope) = WalkPlan::new(&hierarchy, &there)?;
    let node = host::blank(options, Some(&hierarchy));
    let node = Observation { scope, pids: pids.to_vec(), ..node };
    Ok(observe(
        options,
        &hierarchy,
        &plan,
        node,
        |seen, log| by_pid::keep_in_cgroups(processes, seen, log),
        log,
    ))
}

/// Observes one program by id, wherever it is attached.
///
/// # Errors
///
/// No such program, one of another type, or no right to open it.
pub fn program(options: &Options, id: u32) -> Result<Observation, ObserveError> {
    let mut log = Log::new(options.deadline);
    let info = cache::info(id).map_err(|error| match error {
        error if error.is_gone() => ObserveError::NoSuchProgram { id },
        error if error.is_refused() => {
            let why = problems::refusal(error, &[SysAdmin]);
            ObserveError::NoRight { id, why, needs: rights::unless_held(&[SysAdmin], "CAP_SYS_ADMIN") }
        }
        error => ObserveError::Program { id, why: error.to_string() },
    })?;
    if info.kind != CGROUP_DEVICE_PROGRAM {
        return Err(ObserveError::NotADeviceProgram { id, kind: info.kind });
    }
    let mut cache = ProgramCache::new();
    let program = cache.add(info, &mut log);
    cache.programs.insert(id, program);
    let mut observation = host::without_cgroups(options);
    shelve(&mut observation, options, cache, &mut log);
    observation.errors.extend(log.problems);
    Ok(observation)
}

/// Adds the cgroups that the programs of an observation are attached to. Its scope is
/// then all cgroups that can be seen from here, if all of them were asked.
///
/// # Errors
///
/// No cgroup hierarchy.
pub fn add_places(options: &Options, observation: &mut Observation) -> Result<(), ObserveError> {
    let mut log = Log::new(options.deadline);
    let hierarchy = Hierarchy::find(options)?;
    let (plan, scope) = WalkPlan::new(&hierarchy, &[CgroupTarget::all()])?;
    let mut seen = walk::walk(&hierarchy, &plan, &mut log);
    let ids: BTreeSet<u32> = observation.programs.iter().map(|program| program.id).collect();
    seen.retain(|seen| {
        seen.cgroup.own.known().is_some_and(|own| own.programs.iter().any(|id| ids.contains(id)))
    });
    recheck::fill(&mut seen, &mut log);
    let mut places = Observation { errors: log.problems, ..Observation::default() };
    pass_over_gone(&mut places);
    if places.errors.is_empty() {
        observation.scope = scope;
    }
    observation.cgroups.extend(seen.into_iter().map(|VisitedCgroup { cgroup, .. }| cgroup));
    observation.errors.extend(places.errors);
    Ok(())
}

/// Observes the node's GPUs alone. Never fails: a node without GPUs, or
/// without cgroups, is a fact too.
pub fn gpus(options: &Options) -> Observation {
    let mut observation = host::without_cgroups(options);
    let mut log = Log::new(None);
    observation.gpu_facts = gpu::of_node(options, &mut log);
    observation.errors.extend(log.problems);
    observation
}

/// Names the calls of the programs and moves programs and maps into the
/// observation.
pub(super) fn shelve(
    observation: &mut Observation,
    options: &Options,
    mut cache: ProgramCache,
    log: &mut Log,
) {
    let called = cache.maps.values_mut().flat_map(|map| &mut map.programs);
    symbols::resolve(&options.proc, cache.programs.values_mut().chain(called), log);
    observation.programs = cache.programs.into_values().collect();
    observation.maps = cache.maps.into_values().collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Scope;

    /// Make sure that a cgroup that went is missed only where it was asked for by
    /// name.
    #[test]
    fn gone_cgroups() {
        let problem = |code: &str, what: &str| Problem {
            code: ProblemCode::of(code),
            what: what.to_owned(),
            ..Problem::default()
        };
        let scope = vec![Scope { path: "/a".into(), recursive: true }];
        let (named, other) = (problem("cgroup-gone", "/a"), problem("cgroup-gone", "/a/b"));
        let unread = problem("no-right", "/a/c");
        let errors = vec![other.clone(), named.clone(), unread.clone()];
        let mut observation = Observation { scope, errors, ..Observation::default() };
        pass_over_gone(&mut observation);
        assert_eq!(observation.errors, [named, unread]);
        assert_eq!(observation.remarks, [other]);
    }
}
