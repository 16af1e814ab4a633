//! `gpumap export`: a node's answers as metrics for Prometheus.

mod listen;
mod outlets;
mod resident;

use outlets::Outlets;
use resident::Collector;

use super::invocation::{Failure, Invocation};
use crate::cli::{Exit, ExportArgs};
use crate::model::ProblemCode;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    if invocation.global.json {
        let needs = "use gpumap node --json and gpumap audit --json";
        return Err(Failure::new(ProblemCode::Usage, "--json", "metrics are no JSON", needs));
    }
    Outlets::check(args)?;
    if args.runs_on() {
        return resident::run(invocation, args);
    }
    let look = Collector::new(invocation, args)?.look(invocation)?;
    let outlets = Outlets::new(args, None);
    outlets.metrics(invocation, &look.families)?;
    let unknown = outlets.mapping(&look.mapping)?;
    let is_mapped = unknown.is_none();
    invocation.problems(&look.errors)?;
    invocation.problems(&Vec::from_iter(unknown))?;
    Ok(if look.complete && is_mapped { Exit::Yes } else { Exit::Incomplete })
}
