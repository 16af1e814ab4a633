//! `gpumap leftovers`.

use clap::{Args, ValueEnum};

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
/// --kill ends those that are demonstrably the job's; without it nothing is
/// ended. --porcelain prints one line for each, to be read by a script: pid,
/// start time, uid, why it is the job's, GPUs, with --kill what was done;
/// separated by tabs.
///
/// The exit status is 1 if there is such a process, 0 if there is none, 3 if
/// none was found but not everything could be seen, 2 if gpumap could not work.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap leftovers --job 4711
  gpumap leftovers --job 4711 --allocated GPU-5f3c0c9e-2b1d-4c59-9d3a-0a6f1c1b7a11
  gpumap leftovers --from-env --kill --porcelain --timeout 5s      In an Epilog.")]
pub struct LeftoversArgs {
    /// The job, by number or SLUID.
    #[arg(long, value_name = "ID", required_unless_present = "from_env")]
    pub job: Option<String>,
    /// Print lines for scripts, in a format that stays.
    #[arg(long)]
    pub porcelain: bool,
    /// End processes that are demonstrably the job's, with this signal.
    ///
    /// Each is pinned by a pidfd and looked at again before the signal is sent.
    /// Never ended are processes of root, of other users than the job's (where
    /// a hook tells that), of the scheduler, those in other jobs, those gpumap
    /// was started by, and those that nothing but their environment connects
    /// with the job. gpumap-leftovers(1) has the whole rule.
    #[arg(
        long,
        value_name = "SIGNAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "KILL",
        ignore_case = true
    )]
    pub kill: Option<KillSignal>,
    /// What was allocated.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}

/// Signals that end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum KillSignal {
    /// Cannot be caught.
    Kill,
    /// Asks it to end.
    Term,
    /// As from a keyboard.
    Int,
    /// As from a terminal that is gone.
    Hup,
}
