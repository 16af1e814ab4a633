//! The options that tell what Slurm allocated: `--allocated` and `--from-env`.

use crate::analyse::CallerAllocation;
use crate::cli::{AllocationArgs, SlurmArgs};
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;

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
    Ok(())
}
