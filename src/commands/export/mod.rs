//! `gpumap export`: a node's answers as metrics for Prometheus.

mod look;

use std::io::Write as _;
use std::path::Path;

use super::files;
use super::invocation::{Failure, Invocation};
use crate::cli::{Exit, ExportArgs};
use crate::model::ProblemCode;
use crate::render::{self, MetricsFormat};
use look::Looker;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    if invocation.global.json {
        let needs = "use gpumap node --json and gpumap audit --json";
        return Err(Failure::new(ProblemCode::Usage, "--json", "metrics are no JSON", needs));
    }
    if let Some(path) = &args.textfile {
        check_name(path)?;
    }
    let mut looker = Looker::new(invocation, args)?;
    let look = looker.look(invocation)?;
    match &args.textfile {
        Some(path) => {
            files::save_public(path, |out| render::metrics(out, MetricsFormat::Classic, &look.families))?;
        }
        None => {
            let format = if args.open_metrics { MetricsFormat::OpenMetrics } else { MetricsFormat::Classic };
            render::metrics(invocation.out, format, &look.families)?;
            invocation.out.flush()?;
        }
    }
    invocation.problems(&look.errors)?;
    Ok(if look.complete { Exit::Yes } else { Exit::Incomplete })
}

/// node_exporter reads files of this ending alone; another would be written and never
/// be read.
fn check_name(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending == "prom") {
        return Ok(());
    }
    let why = "node_exporter reads files alone whose names end in .prom";
    let needs = "write --textfile DIRECTORY/gpumap.prom";
    Err(Failure::new(ProblemCode::Usage, path.to_string_lossy(), why, needs))
}
