//! `gpumap watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::typed;

/// Report what changes, as it happens.
///
/// gpumap prints one line for each event, with --json one JSON document a line.
/// Events are: a process changes the variables that choose its devices (with setenv
/// and similar functions of every C library in use); a new process asks for devices;
/// a process initialises CUDA, HIP or ROCr, after which a change has no effect;
/// device programs are attached, replaced or lost, with the exact difference of
/// their rules; a process is moved to another cgroup, with the GPUs that it gained
/// or lost; a process opens or closes GPUs. Programs that take long to decode delay no
/// event: their policy is told as not known yet, and again when it is known.
///
/// The first line names the kernel interfaces in use and the time after which
/// everything was in place. If changes of some processes are not seen as they
/// happen, a second line counts these processes, and -v names them.
///
/// gpumap loads BPF programs into the kernel for this, which takes root and Linux
/// 5.8 or later with BTF. The kernel removes them when gpumap ends, however it ends.
///
/// The manual page gpumap-watch(1) describes every event, the cost, and the limits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap watch
  gpumap watch --job 4711 --json
  gpumap watch --pid 31337 --until-change --for 5m
  gpumap watch --state /run/gpumap.state")]
pub struct WatchArgs {
    /// Watch processes and programs in these cgroups and in those below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup())]
    pub cgroup: Vec<PathBuf>,
    /// Watch these jobs, named by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Watch these processes, without their children.
    #[arg(long, value_name = "PID", value_parser = typed::pid)]
    pub pid: Vec<u32>,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration::parse)]
    pub lasting: Option<Duration>,
    /// End after the first change.
    #[arg(long)]
    pub until_change: bool,
    /// Keep the last change of each process in this file, for gpumap pid.
    ///
    /// gpumap replaces the file as a whole, and only its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}
