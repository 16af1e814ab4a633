//! `gpumap free`.

use clap::Args;

use super::AllocationArgs;

/// Say whether GPUs are free for the next job.
///
/// A GPU is held by every process that has its device node open or mapped, whosever it is:
/// another job's, a container's, a user's outside of all jobs. With --job, processes in that
/// job's own cgroup do not count. The daemons of the driver, monitoring, display servers and
/// the scheduler itself, which hold GPUs all the time, are told apart and do not count either;
/// /etc/gpumap.toml can name more. If no GPU is named, by DEVICE, --allocated or --from-env,
/// those that the job of --job was allocated are asked about, else all of the node.
///
/// The exit status is 0 if every GPU is free, 1 if one is held, 3 if none is seen to be held
/// but not everything could be seen, 2 if gpumap could not work.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap free                              Every GPU of the node.
  gpumap free /dev/nvidia0 195:3           These two.
  gpumap free --from-env --timeout 5s      In a Prolog: the GPUs of the job that begins.
  gpumap free --job 4711                   The job's GPUs, by everybody but the job.")]
pub struct FreeArgs {
    /// GPUs: nodes, numbers as Slurm counts GPUs, UUIDs, PCI addresses.
    #[arg(value_name = "DEVICE", conflicts_with_all = ["allocated", "from_env"], help_heading = "Arguments")]
    pub devices: Vec<String>,
    /// The job whose own processes do not count, by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
