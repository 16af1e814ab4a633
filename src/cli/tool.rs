//! Commands about gpumap itself (schemas, completions, manual pages), and `gpumap
//! snapshot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::{SlurmArgs, target};

/// Print the JSON schema of what gpumap writes.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which schema.
    #[arg(value_name = "OF", value_enum, default_value_t = SchemaOf::Document)]
    pub of: SchemaOf,
}

/// The documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// The answers that --json prints.
    Document,
    /// The events that watch --json prints, each on a line of its own.
    Events,
    /// The observations that snapshot saves.
    Observation,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap completions bash > /etc/bash_completion.d/gpumap
  gpumap completions zsh > \"${fpath[1]}/_gpumap\"
  gpumap completions fish > ~/.config/fish/completions/gpumap.fish")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Write the manual pages into a directory.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// An existing directory.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

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
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup())]
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
