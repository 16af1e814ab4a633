//! `gpumap free`: whether GPUs are free for the next job.

use super::files;
use super::invocation::{Failure, Invocation};
use super::node::whole;
use super::subject::{allocation, job};
use crate::analyse::{AnalyseError, CallerAllocation};
use crate::cli::{Exit, FreeArgs};
use crate::model::{ProblemCode, Vacancy};
use crate::{audit, render};

/// Runs the command. A holder that was seen is an answer, whatever else could not be seen.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &FreeArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    let named = args.job.is_some() || args.allocation.slurm.from_env;
    let job = match named {
        true => Some(job::one(invocation, args.job.as_deref(), args.allocation.slurm.from_env)?),
        false => None,
    };
    let granted = match args.devices.is_empty() {
        true => allocation::granted(&args.allocation),
        false => CallerAllocation { list: Some(args.devices.join(",")) },
    };
    let (config, _) = files::config(invocation, None, None)?;
    let observation = whole(invocation, None)?;
    let payload = audit::free(&observation, job.as_ref(), &granted, &config, &invocation.decoding);
    let payload = payload.map_err(|error| match error {
        // The devices were no option's.
        AnalyseError::Allocated(why) if !args.devices.is_empty() => {
            Failure::new(ProblemCode::Usage, "", why, "`gpumap node` lists the GPUs of this node")
        }
        error => error.into(),
    })?;
    let state = payload.free.state;
    let complete = invocation.answer(&observation, payload, render::free)?;
    Ok(match state {
        Vacancy::Held => Exit::No,
        Vacancy::Unknown => Exit::Incomplete,
        Vacancy::Free => complete,
    })
}
