//! `gpumap top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};

use crate::model::MatrixOrder;

/// Show owners and GPUs as a matrix, kept up to date: who was allocated, may open, asks
/// for and holds which GPU, in one glyph and colour.
///
/// Rows are jobs, pods, containers and whoever else holds a GPU; they open to steps,
/// tasks and processes. Columns are the node's GPUs, and their MIG instances. Below are
/// the findings of an audit and what happens to device programs. Enter on a cell shows
/// why, instruction by instruction, as `gpumap explain` does.
///
/// The shape of a glyph says whether the GPU was allocated, as far as that is known:
/// a diamond was, of a circle nobody knows, a triangle was not. It is the fuller the
/// more is done with the GPU. `?` lists all glyphs and keys; gpumap-top(1) has them, too.
///
/// The screen is drawn when something changed, at most four times a second. Saved nodes
/// are replayed with --from, or as FILEs through which `<` and `>` step; one of several
/// that cannot be read says why in its place. The mouse is left to the terminal, so that
/// text can be selected and copied.
///
/// The exit status of --once is 0 when everything could be seen and 3 when something is
/// missing or unknown. Else it is 0 when the user ended it, and 2 if gpumap could not
/// work or lost its terminal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap top
  gpumap top --filter user:alice --sort held
  gpumap top --once                       The matrix as a table, for scripts.
  gpumap --from node.json top             A saved node.
  gpumap top monday.json tuesday.json     Two moments: < and > step.")]
pub struct TopArgs {
    /// Saved nodes (`gpumap snapshot`, `audit --report`) to step through.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Print the matrix as a table and end.
    #[arg(long)]
    pub once: bool,
    /// Show only rows that match these words, and the owners around them.
    ///
    /// `user:NAME`, `job:ID` and `gpu:NAME` ask for a user, a job and a GPU that a row
    /// has to do with; any other word is looked for in names, commands and cgroups.
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Sort owners by this.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = MatrixOrder::Owner)]
    pub sort: MatrixOrder,
    /// Use ASCII alone.
    ///
    /// Without it the screen uses UTF-8 if the locale (LC_ALL, LC_CTYPE, LANG) does, and
    /// --once always.
    #[arg(long)]
    pub ascii: bool,
    /// Look this often whether anything changed.
    ///
    /// Cgroups that come and go are seen at once where the kernel reports them.
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1s")]
    pub every: Duration,
    /// How much of one processor looks at the whole node may take on average, in
    /// percent.
    #[arg(long, value_name = "PERCENT", value_parser = super::export::percent, default_value = "5",
        hide_short_help = true)]
    pub cpu: f64,
    /// Add what processes do with their GPUs, as a running `gpumap activity --state`
    /// counts it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/activity.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// Exceptions that this node is meant to have, as for `gpumap audit`.
    ///
    /// The default is /etc/gpumap.toml if there is one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// A quarter of a second is the least.
fn interval(text: &str) -> Result<Duration, String> {
    let every = super::duration::parse(text)?;
    if every < Duration::from_millis(250) { Err("write 250ms or more".to_owned()) } else { Ok(every) }
}

impl ValueEnum for MatrixOrder {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Owner => "jobs by number, then containers, virtual machines, anything else",
            Self::User => "by the name of the user",
            Self::Finding => "the worst finding first",
            Self::Held => "who holds the most GPUs first",
            Self::Allowed => "who may open the most GPUs first",
            Self::Launches => "who launches the most first",
            Self::Memory => "who allocated the most memory first",
            Self::Processes => "who has the most processes first",
        };
        Some(PossibleValue::new(<&'static str>::from(*self)).help(help))
    }
}
