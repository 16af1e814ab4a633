//! `gpumap activity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// Show what processes do with their GPUs, as they do it.
///
/// A line for each process and GPU, the busiest first: kernels launched and bytes
/// copied per second, memory allocated, the share of time spent waiting, failed
/// calls, and how long ago the last call was; with -v each stream and how long calls
/// took. With --json one document a line for each interval.
///
/// The calls of NVIDIA's driver library and of AMD's HIP runtime are counted in the
/// kernel, whatever runtime a program uses and however it was linked; nothing has to
/// be restarted. A launch is work that was handed to the GPU: how long the GPU works
/// on it is not seen.
///
/// BY says what tells which GPU it is: `driver` (the driver named it to the process),
/// `resolved` (the process's variables, read inside what its rules allow) or `held`
/// (the one GPU that it has open).
///
/// gpumap loads BPF programs into the kernel for this, which takes root. They are
/// gone when gpumap ends, however it ends. gpumap-activity(1) says what is counted,
/// what is not, and what it costs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap activity                               Every 2 seconds, until Ctrl-C.
  gpumap activity --job 4711 -v                 One job, by stream.
  gpumap activity --every 10s --for 1h --json
  gpumap activity --once --json                 One interval, for scripts.
  gpumap activity --state /run/gpumap/activity.json --every 10s
  gpumap --from activity.json activity          What a state file holds.")]
pub struct ActivityArgs {
    /// Cgroups, with everything below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Jobs, by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Processes; not their children.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// How long an interval is.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "2s")]
    pub every: Duration,
    /// Time one launch out of so many, and look whether it failed; 1 is every one.
    ///
    /// Launches are all counted, whatever this says.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true)]
    pub time_one_in: u32,
    /// Count functions too that can only be seen at some 15 microseconds a call.
    #[arg(long, hide_short_help = true)]
    pub costly: bool,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration::parse, conflicts_with = "once")]
    pub lasting: Option<Duration>,
    /// Show one interval and end.
    #[arg(long)]
    pub once: bool,
    /// Keep the newest counts in this file, for gpumap node, job, pid and audit.
    ///
    /// They look for /run/gpumap/activity.json by themselves. Only its owner may read
    /// it; it is replaced as a whole.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}
