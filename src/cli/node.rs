//! `gpumap node`, which is also `gpumap` alone.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::AllocationArgs;

/// Show this node's GPUs and who was allocated, may open, asks for and holds
/// each.
///
/// First the GPUs in every numbering there is. Then jobs with their steps and
/// tasks, pods, containers, virtual machines, and whoever else holds a GPU,
/// each with four sets that are never inferred from one another: ALLOCATED by
/// the scheduler, ALLOWED by the kernel, ASKS FOR in the environment of its
/// processes, HOLDS open. In the table `-` is none, `?` not known, and
/// `~nvidia0` is only claimed by the owner's own environment.
///
/// Services, sessions and other cgroups are listed only if they are known to
/// hold a GPU, else counted; -v lists all.
///
/// The exit status is 0 when everything could be seen and 3 when something is
/// missing or unknown. An unknown allocation alone is not missing: outside of
/// Prolog and Epilog it is normal.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  gpumap
  gpumap node -v
  gpumap --from node.json node --json
  gpumap node --json --compact > /shared/$(hostname).json")]
pub struct NodeArgs {
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// Print a few kilobytes for `gpumap fleet` instead of every cgroup and process;
    /// with --json alone.
    ///
    /// Jobs and other owners stay, with their sets as bit masks over the GPUs;
    /// gpumap-fleet(1) describes the form.
    #[arg(long)]
    pub compact: bool,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
