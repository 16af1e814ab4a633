//! The options that tell what Slurm allocated: `--allocated`, `--from-env`,
//! `--gres-conf`.

use std::path::Path;

use crate::analyse::CallerAllocation;
use crate::cli::{AllocationArgs, SlurmArgs};
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observation::{ConfigFile, Observation};

/// The allocation that the caller names.
pub(crate) fn granted(args: &AllocationArgs) -> CallerAllocation {
    CallerAllocation { list: args.allocated.clone() }
}

/// Asks observation to look for it. A saved observation has its own hook
/// environment, or none: this process's is of another moment.
pub(crate) fn request(invocation: &mut Invocation<'_>, args: &SlurmArgs) -> Result<(), Failure> {
    if args.from_env && invocation.global.from.is_some() {
        let needs = "name the job, and what it was allocated with --allocated";
        return Err(Failure::new(ProblemCode::Usage, "--from-env", "does not go with --from", needs));
    }
    invocation.wanted_facts.detail = true;
    invocation.wanted_facts.hook = args.from_env;
    invocation.wanted_facts.gres_conf.clone_from(&args.file.gres_conf);
    Ok(())
}

/// Puts `--gres-conf` into a saved observation, in place of what it holds.
pub(crate) fn add(
    invocation: &mut Invocation<'_>,
    args: &SlurmArgs,
    observation: &mut Observation,
) -> Result<(), Failure> {
    add_gres_conf(invocation, args.file.gres_conf.as_deref(), observation)
}

/// The same, for commands that have no other option of Slurm's.
pub(crate) fn add_gres_conf(
    invocation: &mut Invocation<'_>,
    path: Option<&Path>,
    observation: &mut Observation,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = files::read(invocation, path)?.into();
    let path = files::name(path);
    observation.slurm.gres_conf = Some(ConfigFile { path, text, ..ConfigFile::default() });
    observation.slurm.gres_conf_modified_at = None;
    Ok(())
}
