//! `gpumap report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::AllocationArgs;
use super::typed;

/// Write one HTML file that explains this node.
///
/// It has the matrix of owners and GPUs, findings with their evidence, for each cgroup
/// the levels at which programs allow or deny, the rules, the proof of each verdict down
/// to the instruction that decides, processes with their four sets, and what could not
/// be known. The file needs no network and no other file; scripts are needed for its
/// filters alone.
///
/// The observation is inside: `gpumap --from FILE.html` runs any command on it again.
/// Because it names users and their processes, only its owner may read the file. It
/// replaces an older one whole or not at all.
///
/// With PATHs the page is about these cgroups and those below them; the observation in
/// it is that of the whole node all the same. -v also lists owners and processes that
/// have nothing to do with GPUs.
///
/// The exit status is 0 when everything could be seen and 3 when something is missing or
/// unknown, whatever was found: `gpumap audit --html FILE` writes the same page and
/// judges.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap report -o node.html
  gpumap report /system.slice/slurmstepd.scope/job_4711 -o job.html
  gpumap --from node.json report -o node.html
  gpumap --from node.html explain --cgroup /user.slice 'c 195:3 rw'")]
pub struct ReportArgs {
    /// Cgroups that the page is about [default: all].
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup(), help_heading = "Arguments")]
    pub paths: Vec<PathBuf>,
    /// The HTML file to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Exceptions that this node is meant to have, as in `gpumap audit`.
    ///
    /// The default is /etc/gpumap.toml if there is one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// The allocation.
    #[command(flatten)]
    pub allocation: AllocationArgs,
}
