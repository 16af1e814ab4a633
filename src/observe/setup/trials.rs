//! Tries each way of looking, the best first, as the commands that use it do.

use super::cgroup_mounts;
use crate::model::{EngineTask, ProblemCode};
use crate::observation::Trial;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::monitor::cgroups::{CgroupMonitor, Walk};
use crate::observe::options::{CgroupTarget, Options};
use crate::observe::scanner;
use crate::sys::heap;

/// Bytes of the ring of the iterator that is tried: one cgroup is not read.
const ROOM: usize = 4096;

/// What works of processes, lists of programs and changes of cgroups.
pub(super) fn try_all(options: &Options) -> Vec<Trial> {
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
        Hierarchy::find(options).is_ok_and(|hierarchy| cgroup_mounts::queries(&hierarchy).known().is_some())
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
