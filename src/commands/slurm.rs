//! What Slurm says, for commands that ask about allocations.

use super::{Failure, Session, input};
use crate::analyse::Granted;
use crate::cli::{AllocationArgs, SlurmArgs};
use crate::observation::{ConfigFile, Observation};

/// What the caller says was allocated.
pub(super) fn granted(args: &AllocationArgs) -> Granted {
    Granted { list: args.allocated.clone() }
}

/// Asks observation to look for it. A saved observation has its own hook
/// environment, or none: this process's is of another moment.
pub(super) fn look(session: &mut Session<'_>, args: &SlurmArgs) -> Result<(), Failure> {
    if args.from_env && session.global.from.is_some() {
        let needs = "name the job, and what it was allocated with --allocated";
        return Err(Failure::new("usage", "--from-env", "does not go with --from", needs));
    }
    session.look.detail = true;
    session.look.hook = args.from_env;
    session.look.gres_conf.clone_from(&args.gres_conf);
    Ok(())
}

/// Puts `--gres-conf` into a saved observation, in place of what it holds.
pub(super) fn add(
    session: &mut Session<'_>,
    args: &SlurmArgs,
    observation: &mut Observation,
) -> Result<(), Failure> {
    let Some(path) = &args.gres_conf else { return Ok(()) };
    let text = input::read(session, path)?.into();
    observation.slurm.gres_conf = Some(ConfigFile { path: input::name(path), text });
    Ok(())
}
