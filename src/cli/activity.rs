//! `gpumap activity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::typed;

/// Show what processes do with their GPUs, as they do it.
///
/// gpumap prints one line for each process and GPU, the busiest first: kernels
/// launched and bytes copied per second, memory allocated, the share of time spent
/// waiting, failed calls, and the time since the last call. With -v it adds each
/// stream and how long calls took. With --json it prints one document for each
/// interval, on one line.
///
/// Probes in the kernel count the calls of NVIDIA's driver library and of AMD's HIP
/// runtime, whatever runtime a program uses and however it was linked. Programs need
/// no restart. A launch hands work to the GPU; gpumap does not see how long the GPU
/// works on it.
///
/// The column BY says how the GPU is known: `driver` (the driver named it to the
/// process), `resolved` (it follows from the process's variables and from what its
/// rules allow) or `held` (it is the one GPU that the process has open).
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
  gpumap activity --job 4711 --summary          In an Epilog: what it did with each GPU.
  gpumap --from activity.json activity          What a state file holds.")]
pub struct ActivityArgs {
    /// Count processes in these cgroups and in those below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup())]
    pub cgroup: Vec<PathBuf>,
    /// Count processes of these jobs, named by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Count these processes, without their children.
    #[arg(long, value_name = "PID", value_parser = typed::pid)]
    pub pid: Vec<u32>,
    /// Length of an interval.
    #[arg(long, value_name = "DURATION", value_parser = super::duration::parse, default_value = "2s")]
    pub every: Duration,
    /// Time one launch in N and check its result; 1 does so for every launch.
    ///
    /// Every launch is counted, whatever N is.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..),
        hide_short_help = true)]
    pub time_one_in: u32,
    /// Also count functions whose probes cost some 15 microseconds per call.
    ///
    /// Without it, gpumap leaves out functions that programs call often where a probe
    /// makes each call take two traps, and lists them as not counted.
    #[arg(long, hide_short_help = true)]
    pub costly: bool,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration::parse, conflicts_with = "once")]
    pub lasting: Option<Duration>,
    /// Show one interval and end.
    #[arg(long)]
    pub once: bool,
    /// Show what jobs did with each GPU from begin to end, and end.
    ///
    /// It comes from the state file of a running gpumap activity (--state, else
    /// /run/gpumap/activity.json), which keeps it when a job is gone: an Epilog can ask.
    /// gpumap waits for the first reading after the question. Without --job it shows all
    /// that the file has. Here --job takes the job's own number or SLUID.
    #[arg(long, conflicts_with_all = ["once", "lasting", "cgroup", "pid"])]
    pub summary: bool,
    /// Keep the newest counts in this file, for gpumap node, job, pid and audit.
    ///
    /// These commands read /run/gpumap/activity.json without being told. gpumap
    /// replaces the file as a whole, and only its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}
