//! `gpumap doctor`: what gpumap can know on a node, and what is missing.

use super::files::saved;
use super::invocation::{Failure, Invocation};
use crate::activity::{Mode, Session};
use crate::cli::{DoctorArgs, Exit};
use crate::model::{CheckState, EngineTask, ProblemCode};
use crate::observation::{Problem, Setup, Trial};
use crate::observe;
use crate::watch::FactSource;
use crate::{doctor, render};

/// A failure of the command with `--redact`: it does not name what the caller typed. Names
/// of options stay, and reasons without a path.
pub(super) fn redacted(failure: Failure) -> Failure {
    let Failure::Problem(problem) = failure else { return failure };
    let option = problem.what.split([' ', '=']).next().filter(|word| word.starts_with("--"));
    let what = option.unwrap_or(doctor::REDACTED).to_owned();
    let why = if problem.why.contains('/') { doctor::REDACTED.to_owned() } else { problem.why };
    Failure::Problem(Box::new(Problem { what, why, ..*problem }))
}

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &DoctorArgs) -> Result<Exit, Failure> {
    let (mut observation, mut setup) = match saved::from_option(invocation)? {
        Some(mut observation) => {
            let setup = observation.setup.take().ok_or_else(|| {
                let why = "it does not hold the setup of the node";
                Failure::new(ProblemCode::NoSetup, "--from", why, "save it with gpumap snapshot --setup")
            })?;
            (observation, *setup)
        }
        None => (observe::gpus(&invocation.options()), setup(invocation)),
    };
    if args.redact {
        doctor::redact(&mut observation, &mut setup);
    }
    let payload = doctor::examine(&observation, &setup);
    let is_missing = payload.doctor.iter().any(|check| check.state == CheckState::Missing);
    let seen = invocation.answer(&observation, payload, render::doctor)?;
    Ok(if is_missing { Exit::No } else { seen })
}

/// The setup of this node, with what `watch` and `activity` need of it.
pub(super) fn setup(invocation: &Invocation<'_>) -> Setup {
    let options = invocation.options();
    let mut setup = observe::setup(&options);
    let trial = |what, mode: Result<Mode, String>| match mode {
        Ok(mode) => Trial { what, engine: Some(mode.engine().to_string()), refused: None },
        Err(error) => Trial { what, engine: None, refused: Some(error) },
    };
    let changes = FactSource::possible_mode().map_err(|error| error.to_string());
    let calls = Session::possible_mode().map_err(|error| error.to_string());
    setup.trials.push(trial(EngineTask::EnvironmentChanges, changes));
    setup.trials.push(trial(EngineTask::CallCounts, calls));
    let found = FactSource::installed_drivers(&options.gpu_root);
    setup.libraries = found.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let unread = found.unread.first().map(|(place, why)| format!("{}: {why}", place.display()));
    setup.libraries_unknown = unread;
    setup
}
