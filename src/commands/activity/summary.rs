//! `gpumap activity` of what was kept: `--summary` says what jobs did with their GPUs from
//! begin to end, as a running gpumap keeps it in its state file (the jobs may be gone), and a
//! saved observation has what a state file held.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::analyse::{self, CallerAllocation, Follower};
use crate::cli::{ActivityArgs, Exit};
use crate::commands::files::{activity_state, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::job;
use crate::model::{ProblemCode, Time};
use crate::observation::{Observation, Problem};
use crate::owner::JobName;
use crate::render;
use crate::sys::clock::boot_ns;

/// How often the state file is looked at while a newer reading is awaited, and how much
/// longer than an interval that lasts where `--timeout` does not say it.
const PAUSE: Duration = Duration::from_millis(50);

const LATE: Duration = Duration::from_secs(2);

/// The longest wait for a reading.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs the command.
pub(super) fn run_summary(invocation: &mut Invocation<'_>, args: &ActivityArgs) -> Result<Exit, Failure> {
    let named = &args.job;
    let jobs: Vec<JobName> = named.iter().map(|id| job::own(id)).collect::<Result<_, _>>()?;
    let path = args.state.as_deref().unwrap_or(Path::new(activity_state::USUAL));
    let observation = match saved::from_option(invocation)? {
        Some(observation) => observation,
        None => newest(invocation, path)?,
    };
    if observation.activity.is_none() {
        let needs = "keep some with gpumap activity --state FILE";
        return Err(Failure::new(
            ProblemCode::BadState,
            "--summary",
            "the file holds no counts of calls",
            needs,
        ));
    }
    let (payload, is_unknown) = analyse::activity_summary(&observation, &jobs, &invocation.decoding);
    let mut told = Ok(());
    let exit = invocation.answer_about(&observation, payload, is_unknown, |out, style, payload| {
        told = render::activity_totals(out, style, payload, named);
        Ok(())
    })?;
    told?;
    Ok(exit)
}

/// The state file as soon as it has a reading that is no older than the question, so that
/// nothing is missing of a job that has just ended; else what it has, and a problem that
/// says how old that is.
fn newest(invocation: &mut Invocation<'_>, path: &Path) -> Result<Observation, Failure> {
    let asked = boot_ns();
    let begun = Instant::now();
    loop {
        let mut kept = activity_state::whole(invocation, path)?;
        let reading = kept.activity.as_deref();
        let is_new = reading.is_some_and(|reading| reading.sums.clock_ns >= asked);
        let every = reading.map_or(Duration::ZERO, |reading| Duration::from_millis(reading.every_ms));
        let longest = invocation.global.timeout.unwrap_or_else(|| (every + LATE).min(LONGEST));
        kept.remarks.clear();
        if is_new {
            return Ok(kept);
        }
        if begun.elapsed() >= longest {
            kept.errors.push(old(path, reading.map_or(&Time::default(), |reading| &reading.at)));
            return Ok(kept);
        }
        std::thread::sleep(PAUSE.min(longest.saturating_sub(begun.elapsed())));
    }
}

fn old(path: &Path, at: &Time) -> Problem {
    Problem {
        code: ProblemCode::BadState,
        what: path.to_string_lossy().into_owned(),
        why: format!("its counts are of {at}: what was done after that is not in them"),
        needs: "a gpumap activity --state FILE that runs".to_owned(),
    }
}

/// Shows the counts of an observation since counting began.
pub(super) fn run_saved(invocation: &mut Invocation<'_>, args: &ActivityArgs) -> Result<Exit, Failure> {
    let what = "--from";
    let narrows = !args.cgroup.is_empty() || !args.job.is_empty() || !args.pid.is_empty();
    if narrows || args.lasting.is_some() || args.state.is_some() {
        let why = "shows all that the file holds, once";
        let needs =
            "leave out --cgroup, --job, --pid, --for and --state; gpumap --from FILE job ID shows one job";
        return Err(Failure::new(ProblemCode::Usage, what, why, needs));
    }
    let Some(observation) = saved::from_option(invocation)? else {
        return Err(Failure::new(ProblemCode::Usage, what, "no file is named", ""));
    };
    if observation.activity.is_none() {
        let why = "holds no counts of calls";
        return Err(Failure::new(
            ProblemCode::Usage,
            what,
            why,
            "keep some with gpumap activity --state FILE",
        ));
    }
    let mut follower = Follower::new(invocation.global.verbose > 0);
    let payload = follower.report(&observation, &CallerAllocation::default(), &invocation.decoding)?;
    invocation.answer(&observation, payload, render::activity)
}
