//! `gpumap snapshot`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::SlurmArgs;
use super::typed;

/// Save what can be seen now, to be read later or on another machine.
///
/// The observation holds facts, not meanings: instruction bytes, map contents,
/// attach flags, processes with their open devices and the variables about GPUs
/// and Slurm of their environments (no others). --from reads it back, also in a
/// newer gpumap. The file replaces an older one whole or not at all, and only
/// its owner may read it, because it names users and their processes.
///
/// The exit status is 3 if something could not be read, such as the memory of a
/// process. The file is saved all the same, and says what is missing. Nothing is
/// missing of kernel threads and zombies, nor of what ends or is removed
/// meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap snapshot -o node.json
  gpumap snapshot /system.slice/slurmstepd.scope -r -o jobs.json
  ssh node7 gpumap snapshot | gpumap --from - cgroup -r /")]
pub struct SnapshotArgs {
    /// Cgroups to save [default: all].
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup())]
    pub paths: Vec<PathBuf>,
    /// Save everything below the paths too; implied without a path.
    #[arg(short, long)]
    pub recursive: bool,
    /// Where to save it; `-` is standard output.
    ///
    /// A regular file is replaced as a whole, and only its owner may read it;
    /// anything else is written to (see FILES in gpumap(1)).
    #[arg(short, long, value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Save too how the node is set up, which `gpumap --from FILE doctor` judges.
    #[arg(long)]
    pub setup: bool,
    /// Options that say where Slurm names its allocation.
    #[command(flatten)]
    pub slurm: SlurmArgs,
}
