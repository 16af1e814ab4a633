//! Commands about gpumap itself: schemas, completions, manual pages.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::Shell;

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
