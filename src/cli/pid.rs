//! `gpumap pid`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::AllocationArgs;
use super::typed;

/// Show what processes may open, ask for and hold.
///
/// For each process: its user, state, age and owner, what its environment says
/// of its job, every variable about GPUs at the last execve and now in memory,
/// the GPUs that result and how sure that is, the devices it has open; then the
/// verdicts, rules and programs of its cgroup.
///
/// The exit status is that of `gpumap node`, or 2 if there is no such process.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap pid 31337
  gpumap pid $(pidof python3)
  gpumap --from node.json pid 31337 --json")]
pub struct PidArgs {
    /// Processes.
    #[arg(value_name = "PID", value_parser = typed::pid, required = true, help_heading = "Arguments")]
    pub pids: Vec<u32>,
    /// Add the last change of each process that a running `gpumap watch --state`
    /// saw, or what processes do with their GPUs, as a running `gpumap activity
    /// --state` counts it; FILE is the file that it keeps. May be repeated.
    ///
    /// Of activity the default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Vec<PathBuf>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
