//! How the node is set up for gpumap: the facts that `gpumap doctor` judges.
//!
//! Nothing here is started, changed or waited for. BPF programs are loaded to see
//! which the kernel takes, and are gone again before the answer is given.

mod kernel;
mod own;
mod slurm_files;
mod slurm_plugins;

use std::os::fd::AsFd as _;

use super::cgroups::hierarchy::Hierarchy;
use super::cgroups::mounts::{Mount, Mounts};
use super::cgroups::query::{UNMOUNTED, right};
use super::monitor::cgroups::{CgroupMonitor, Walk};
use super::mountinfo::hidepid;
use super::options::{CgroupTarget, Options};
use super::problems::refusal;
use super::{scanner, view};
use crate::model::{EngineTask, ProblemCode};
use crate::observation::{Answer, CgroupMount, Setup, Trial};
use crate::sys::bpf::{ListKind, query};
use crate::sys::heap;

/// Collects the setup of the node. Slurm's files are read below `gpu_root`, like the
/// GPUs. What `watch` needs of the kernel is not asked here.
pub fn setup(options: &Options) -> Setup {
    let (settings, btf) = (kernel::settings(&options.proc), kernel::btf());
    let hidepid = hidepid(&options.proc);
    let mut setup = Setup {
        rights: own::rights(&options.proc),
        settings,
        btf,
        symbols: kernel::symbols(&options.proc),
        // Where it is not known, `hidepid` says so.
        hidepid_exempt: matches!(hidepid, Ok(Some((_, true)))),
        hidepid_unknown: hidepid.as_ref().err().map(|errno| errno.desc().to_owned()),
        // Why it is not known is told above.
        hidepid: hidepid.ok().flatten().map(|(value, _)| value),
        slurm: slurm_files::collect(options),
        software: kernel::running(&options.proc),
        clock_synchronized: kernel::clock(),
        own_file: own::file(),
        ..Setup::default()
    };
    collect(options, &mut setup);
    setup.trials = try_all(options);
    setup
}

/// Bytes of the ring of the iterator that is tried: one cgroup is not read.
const ROOM: usize = 4096;

/// What works of processes, lists of programs and changes of cgroups.
fn try_all(options: &Options) -> Vec<Trial> {
    let trials = vec![processes(options), lists(options), changes(options)];
    heap::give_back();
    trials
}

fn trial(what: EngineTask, engine: Result<String, String>, instead: Option<&str>) -> Trial {
    match engine {
        Ok(engine) => Trial { what, engine: Some(engine), refused: None },
        Err(why) => Trial { what, engine: instead.map(str::to_owned), refused: Some(why) },
    }
}

fn processes(options: &Options) -> Trial {
    let what = EngineTask::Processes;
    match scanner::start(options, None) {
        Ok(chosen) => {
            Trial { what, engine: Some(chosen.scanner.engine().name().to_owned()), refused: chosen.refused }
        }
        Err(error) => Trial { what, engine: None, refused: Some(error.to_string()) },
    }
}

/// The iterator over cgroups, which nodes of many cgroups are read with.
fn lists(options: &Options) -> Trial {
    let load = || {
        let hierarchy = Hierarchy::find(options).map_err(|error| error.to_string())?;
        Walk::load(&hierarchy.handle, ROOM).map_err(|error| error.to_string())
    };
    let asks = || {
        // Why not is told with the mounts.
        Hierarchy::find(options).is_ok_and(|hierarchy| queries(&hierarchy).known().is_some())
    };
    let instead = if asks() { Some("queries") } else { None };
    trial(EngineTask::ProgramLists, load().map(|_| "cgroup iterator".to_owned()), instead)
}

/// How a change of programs or cgroups is noticed. Without the right to ask for
/// programs it is not.
fn changes(options: &Options) -> Trial {
    let root = CgroupTarget::observed("/", false);
    let start = || {
        let mut monitor = CgroupMonitor::start(options, &[root], None).map_err(|error| error.to_string())?;
        let refused = monitor.problems().into_iter().find(|problem| problem.code == ProblemCode::NoRight);
        refused.map_or_else(|| Ok(monitor.engine()), |problem| Err(problem.why))
    };
    trial(EngineTask::CgroupChanges, start(), None)
}

/// Adds both to the setup.
fn collect(options: &Options, setup: &mut Setup) {
    // The hierarchy is not found either then, which is told below.
    if let Ok(mounts) = Mounts::read(&options.proc) {
        let describe = |mount: &Mount| CgroupMount {
            point: mount.point.to_string_lossy().into_owned(),
            root: String::from_utf8_lossy(&mount.root).into_owned(),
            // One that cannot be looked at is not reached either, which is told below.
            hidden: matches!(Mounts::visible(std::slice::from_ref(mount), &options.proc), Ok(None)),
        };
        setup.cgroup2 = mounts.cgroup2.iter().map(describe).collect();
        // One that cannot be opened is mounted all the same.
        let devices = Mounts::visible(&mounts.devices, &options.proc);
        let point =
            devices.map_or_else(|(point, _)| Some(point), |found| found.map(|(mount, _)| mount.point));
        setup.devices_v1 = point.map(|point| point.to_string_lossy().into_owned());
    }
    match Hierarchy::find(options) {
        Err(error) => {
            setup.hierarchy = Answer::Missing(error.to_string());
            setup.queries = Answer::Missing("no cgroup hierarchy can be reached".to_owned());
        }
        Ok(hierarchy) => {
            setup.hierarchy = Answer::Known(hierarchy.mount.point.to_string_lossy().into_owned());
            setup.queries = queries(&hierarchy);
            setup.hides_cgroup2 = hierarchy.hides_cgroup2;
            // An error leaves it unknown.
            setup.whole_hierarchy = view::is_whole(&hierarchy).unwrap_or_default();
        }
    }
}

/// Asks for the programs of the root, as every command does for its cgroups.
fn queries(hierarchy: &Hierarchy) -> Answer<()> {
    if hierarchy.hides_cgroup2 {
        return Answer::Missing(UNMOUNTED.to_owned());
    }
    if hierarchy.is_legacy() {
        return Answer::Missing("without cgroup2 there are no device programs".to_owned());
    }
    match query(hierarchy.handle.as_fd(), ListKind::Effective) {
        Ok(_) => Answer::Known(()),
        Err(error) if error.is_refused() => Answer::Missing(refusal(error, right().0)),
        Err(error) => Answer::Missing(error.to_string()),
    }
}
