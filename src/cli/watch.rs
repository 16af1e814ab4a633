//! `gpumap watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

/// Report what changes, as it happens.
///
/// A process that changes its visible devices while it runs (setenv and its
/// kin of every C library in use), with what it asked for before and asks for
/// now inside the set its cgroup allows; new processes with their values; the
/// initialisation of CUDA, HIP and ROCr, after which a change has no effect;
/// device programs that are attached, replaced or lost, as the exact difference
/// of rules; GPUs that processes open and close. One line an event, with --json
/// one JSON document a line.
///
/// Programs and open devices are looked at once a second; what was opened and
/// closed in between is not seen. One that is replaced by another with
/// the same rules, as Slurm does at every step, is shown with -v and in JSON
/// only.
///
/// Programs are loaded into the kernel for it, which takes root and Linux 5.8
/// with BTF. They are gone when gpumap ends, however it ends. What cannot be
/// seen is said: programs that edit their environment without the C library
/// (perl, shells), static programs, Go. Environments are read again in turn,
/// so that such a change is found later, as `memory`.
///
/// The exit status is 0 when it was ended as asked, 1 if --until-change saw no
/// change before --for was over, 2 if it could not watch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap watch
  gpumap watch --job 4711 --json
  gpumap watch --pid 31337 --until-change --for 5m
  gpumap watch --state /run/gpumap.state")]
pub struct WatchArgs {
    /// Cgroups, with everything below them.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Jobs, by number or SLUID.
    #[arg(long, value_name = "ID")]
    pub job: Vec<String>,
    /// Processes; not their children.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// End after this time, such as 30s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = super::duration::parse)]
    pub lasting: Option<Duration>,
    /// End after the first change.
    #[arg(long)]
    pub until_change: bool,
    /// Keep the last change of each process in this file, for gpumap pid.
    ///
    /// Only its owner may read it; it is replaced as a whole.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
}
