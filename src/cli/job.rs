//! `gpumap job`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::AllocationArgs;

/// Show what jobs were allocated, may open, ask for and hold.
///
/// For each job: the four sets of the job, its steps and tasks; its GPUs; its
/// processes with what each asks for (`unset` and `empty` are opposites; `→`
/// is a change at run time) and which GPUs result; rules and programs.
///
/// ID is a job number, or a SLUID such as sEKNKTV3WPV500. Job 4711's steps are
/// 4711.0, 4711.batch, 4711.extern. An array task (4711_3) and a component of a
/// heterogeneous job (4711+1) are found by what the environments of their
/// processes say; by their own number they are always found.
///
/// The exit status is that of `gpumap node`, or 2 if there is no such job here.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap job 4711
  gpumap job 4711.0                       One step.
  gpumap job                              Which jobs are here.
  gpumap job 4711,4712 --json
  gpumap job --from-env                   In a Prolog or Epilog.
  gpumap --from node.json job 4711")]
pub struct JobArgs {
    /// Jobs, by number or SLUID, or steps [default: list the jobs that are here].
    #[arg(value_name = "ID", value_delimiter = ',', help_heading = "Arguments")]
    pub ids: Vec<String>,
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
