//! `gpumap leftovers`.

use clap::Args;

use super::AllocationArgs;

/// List processes that still hold GPUs of a job.
///
/// Those in the job's cgroup, and those that left it and whose environment
/// names the job; with --from-env only processes of the job's user. Where it is
/// not known which GPUs were the job's, every GPU counts.
///
/// The environment of a heterogeneous job names the job of its leader in every
/// component: a process that left its component is listed for the leader's
/// number and cannot be found by the component's.
///
/// gpumap never ends a process. --porcelain prints one line for each, to be
/// read by a script: pid, start time, uid, why it is the job's, GPUs; separated
/// by tabs. gpumap-leftovers(1) says how to act on them safely.
///
/// The exit status is 1 if there is such a process, 0 if there is none, 3 if
/// none was found but not everything could be seen, 2 if gpumap could not work.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap leftovers --job 4711
  gpumap leftovers --job 4711 --allocated GPU-5f3c0c9e-2b1d-4c59-9d3a-0a6f1c1b7a11
  gpumap leftovers --from-env --porcelain --timeout 5s      In an Epilog.")]
pub struct LeftoversArgs {
    /// The job, by number or SLUID.
    #[arg(long, value_name = "ID", required_unless_present = "from_env")]
    pub job: Option<String>,
    /// Print lines for scripts, in a format that stays.
    #[arg(long)]
    pub porcelain: bool,
    /// What was allocated.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
