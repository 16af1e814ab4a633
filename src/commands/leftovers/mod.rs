//! `gpumap leftovers`: processes that still hold GPUs of a job.

mod kill;

use kill::Looked;

use super::subject::job;
use crate::analyse::{self, CallerAllocation};
use crate::cli::{Exit, LeftoversArgs};
use crate::commands::files::{self, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::node;
use crate::commands::subject::allocation;
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem};
use crate::observe::{self, JobHook};
use crate::owner::JobName;
use crate::report::{Free, Leftover, LeftoversAnswer};
use crate::{audit, render};

/// Runs the command. One that is found is an answer, whatever else could not
/// be seen; that none was found is one only if everything was seen.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &LeftoversArgs) -> Result<Exit, Failure> {
    if args.porcelain && invocation.global.json {
        return Err(Failure::new(
            ProblemCode::Usage,
            "--porcelain",
            "does not go with --json",
            "choose one of the two",
        ));
    }
    if args.kill.is_some() {
        kill::refuse(invocation)?;
    }
    allocation::request(invocation, &args.allocation.slurm)?;
    let job = job::one(invocation, args.job(), args.allocation.slurm.from_env)?;
    let granted = allocation::granted(&args.allocation);
    let options = invocation.options();
    let mut look = || -> Result<Looked, Failure> {
        let observation = observe(invocation, args, &job)?;
        let payload = analyse::leftovers(&observation, &job, &granted, &invocation.decoding)?;
        Ok((observation, payload))
    };
    let mut looked = look()?;
    if let Some(signal) = args.kill {
        let leftovers = looked.1.leftovers.iter_mut();
        kill::end(leftovers, signal, &mut || Ok(look()?.1))?;
        if kill::is_needed(&looked, &mut look)? {
            looked = kill::end_frozen(&options, &job, signal, &looked, &mut look)?.unwrap_or(looked);
        }
    }
    let (observation, mut payload) = looked;
    payload.free = others(invocation, args, &job, &granted, &observation)?.map(Box::new);
    let found = is_found(&payload);
    let complete = answer(invocation, args.porcelain, &job::text(&job), &observation, payload)?;
    Ok(if found { Exit::No } else { complete })
}

fn observe(
    invocation: &mut Invocation<'_>,
    args: &LeftoversArgs,
    job: &JobName,
) -> Result<Observation, Failure> {
    let slurm = &args.allocation.slurm;
    if let Some(mut observation) = saved::from_option(invocation)? {
        observation.errors.extend(undetailed(&observation));
        return Ok(observation);
    }
    let hook = match slurm.from_env {
        true => job::hook(),
        // The caller or this job's own hook named the job. Its start time shows
        // which processes cannot belong to it. Its user was not asked for.
        false if job::is_hooks(job) => JobHook { uid: None, ..job::hook() },
        false => JobHook::default(),
    };
    Ok(observe::leftovers(&invocation.options(), job, hook)?)
}

/// Who else holds the GPUs that the job was allocated. In a hook that is `gpumap free`'s to
/// say: there every process of the node would have to be looked into.
fn others(
    invocation: &mut Invocation<'_>,
    args: &LeftoversArgs,
    job: &JobName,
    granted: &CallerAllocation,
    observation: &Observation,
) -> Result<Option<Free>, Failure> {
    if args.allocation.slurm.from_env || args.porcelain || granted.list.is_none() {
        return Ok(None);
    }
    let (config, _) = files::config(invocation, None, None)?;
    let whole = match invocation.global.from {
        Some(_) => None,
        None => Some(node::whole(invocation, None)?),
    };
    let observation = whole.as_ref().unwrap_or(observation);
    Ok(Some(audit::free(observation, Some(job), granted, &config, &invocation.decoding)?.free))
}

/// The problem of an observation without details of any process: a process that left
/// the job could not be found in it.
fn undetailed(observation: &Observation) -> Option<Problem> {
    if observation.processes.iter().any(|process| process.detail.is_some()) {
        return None;
    }
    Some(Problem {
        code: ProblemCode::NoDetails,
        what: "the saved observation".to_owned(),
        why: "does not tell what processes ask for and hold".to_owned(),
        needs: "take it anew with gpumap snapshot".to_owned(),
    })
}

fn answer(
    invocation: &mut Invocation<'_>,
    porcelain: bool,
    job: &str,
    observation: &Observation,
    payload: LeftoversAnswer,
) -> Result<Exit, Failure> {
    if porcelain {
        return invocation.answer(observation, payload, render::porcelain);
    }
    if !invocation.global.json {
        let _nobody_reads = render::notes(invocation.err, invocation.style.all, &payload.notes);
    }
    invocation.answer(observation, payload, |out, style, payload| render::leftovers(out, style, payload, job))
}

/// Whether one of the job's was seen to hold a GPU; others may be unknown.
fn is_found(payload: &LeftoversAnswer) -> bool {
    payload.leftovers.iter().any(Leftover::is_found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Process;

    /// Make sure that a process that could not be looked into is not reported as
    /// found.
    #[test]
    fn unseen_is_not_found() {
        let leftover = |held: Option<Vec<crate::model::GpuKey>>| {
            let process = Process { held, ..Process::default() };
            Leftover { process, ..Leftover::default() }
        };
        let payload = |all: Vec<Leftover>| LeftoversAnswer { leftovers: all, ..LeftoversAnswer::default() };
        let some = || Some(vec!["GPU-1".into()]);
        assert!(!is_found(&payload(vec![])));
        assert!(!is_found(&payload(vec![leftover(None)])));
        assert!(is_found(&payload(vec![leftover(None), leftover(some())])));
    }
}
