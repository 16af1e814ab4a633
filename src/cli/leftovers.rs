//! `gpumap leftovers`.

use clap::{Args, ValueEnum};

use super::AllocationArgs;

/// List processes that still hold GPUs of a job.
///
/// These are processes in the job's cgroup, and processes that left it but name the
/// job in their environment; of the latter, with --from-env, only those of the
/// job's user. If nobody says which GPUs the job was allocated (--allocated or
/// --from-env), every GPU counts.
///
/// The environment of a heterogeneous job names the job of its leader in every
/// component: a process that left its component is listed for the leader's
/// number and cannot be found by the component's.
///
/// --kill ends processes that demonstrably belong to the job; without it gpumap ends
/// none. Where processes of the job begin and end faster than they can be looked at,
/// --kill freezes the job's cgroups for that time. --porcelain prints one line of tab-separated fields for each process, for
/// scripts: pid, start time, uid, why it is the job's, GPUs, and with --kill what
/// was done.
///
/// The exit status is 1 if there is such a process, 0 if there is none, 3 if
/// none was found but not everything could be seen (a process that cannot be read, or
/// processes that come and go too fast), 2 if gpumap could not work.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap leftovers 4711
  gpumap leftovers --job 4711 --allocated GPU-5f3c0c9e-2b1d-4c59-9d3a-0a6f1c1b7a11
  gpumap leftovers --from-env --kill --porcelain --timeout 5s      In an Epilog.")]
pub struct LeftoversArgs {
    /// The job, by number or SLUID.
    #[arg(long, value_name = "ID", required_unless_present_any = ["from_env", "id"])]
    job: Option<String>,
    /// The job, as --job names it.
    #[arg(value_name = "ID", id = "id", conflicts_with = "job", help_heading = "Arguments")]
    named: Option<String>,
    /// Print lines for scripts, in a format that never changes.
    #[arg(long)]
    pub porcelain: bool,
    /// End processes that demonstrably belong to the job, with this signal.
    ///
    /// gpumap opens a pidfd of each and observes it again before it sends the signal.
    /// It never ends processes of root, of other users than the job's (where a hook
    /// says whose the job is), of the scheduler, of other jobs, processes that
    /// started gpumap, and those that only their environment connects with the job.
    /// gpumap-leftovers(1) has the whole rule.
    #[arg(
        long,
        value_name = "SIGNAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "KILL",
        ignore_case = true
    )]
    pub kill: Option<KillSignal>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}

impl LeftoversArgs {
    /// The job that was named.
    pub fn job(&self) -> Option<&str> {
        self.job.as_deref().or(self.named.as_deref())
    }
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
    /// Hang up: as if its terminal were closed.
    Hup,
}
