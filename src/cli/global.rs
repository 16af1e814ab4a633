//! Options that every command takes, before or after its name.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Print one JSON document instead of a table.
    ///
    /// The document is valid even when gpumap fails: `errors` then says why.
    /// `gpumap schema` prints its schema.
    #[arg(long, global = true)]
    pub json: bool,
    /// Read a saved observation instead of the live node; `-` is standard
    /// input.
    ///
    /// Observations are saved with `gpumap snapshot`, and with `gpumap audit
    /// --report` as part of a report. No right is needed to read one.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// Where cgroup2 is mounted.
    ///
    /// The default is the first cgroup2 mount that no later mount hides.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub cgroup_root: Option<PathBuf>,
    /// Where the proc file system is mounted.
    ///
    /// Processes and mounts are read from it.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/proc",
        hide_short_help = true)]
    pub proc: PathBuf,
    /// Directory with the proc, sys and dev from which GPUs are listed.
    ///
    /// In a container that sees the host's files under /host, give /host. Paths of
    /// device nodes, as in `gpumap check /dev/nvidia0`, are looked up below it too.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/",
        hide_short_help = true)]
    pub gpu_root: PathBuf,
    /// Stop observing after this time, such as 500ms or 2s, and answer with what
    /// was seen.
    ///
    /// Decoding may take a quarter of this time more; policies that are not decoded
    /// by then are unknown.
    #[arg(long, global = true, value_name = "DURATION", value_parser = super::duration::parse)]
    pub timeout: Option<Duration>,
    /// When to colour verdicts.
    ///
    /// `auto` colours on a terminal and honours NO_COLOR.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto, hide_short_help = true)]
    pub color: Color,
    /// Print every problem and reason on standard error, and every row of a table.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Even in a pipe.
    Always,
    /// Not at all.
    Never,
}
