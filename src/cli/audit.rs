//! `gpumap audit`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};

use super::AllocationArgs;
use super::typed;
use crate::model::FailOn;

/// Audit GPU isolation on this node.
///
/// Each finding has an id that never changes, a severity, the evidence down to the
/// program and the instruction that decided, the excuses that were ruled out, and
/// what to do. `critical` means that isolation does not hold, `warning` that
/// something does not work as somebody expects, `note` that it is worth
/// knowing. --explain documents a finding, --list lists them all.
///
/// gpumap always observes the whole node. PATHs, or the job of --from-env, choose
/// which findings are shown.
///
/// The exit status is 1 if a finding is as severe as --fail-on says, whatever
/// else could not be seen; 3 if there is none but not everything could be seen;
/// 2 if gpumap could not work; else 0. With --from-env and without --fail-on it
/// is always 0, because Slurm drains a node whose Prolog or Epilog fails.
/// gpumap-audit(1) says more.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  gpumap audit
  gpumap audit /system.slice/slurmstepd.scope --fail-on critical
  gpumap audit --report audit.json
  gpumap audit --baseline audit.json        What is new since then.
  gpumap --from audit.json audit -v         The same audit, made again.
  gpumap audit --explain double-grant
  gpumap audit --from-env --timeout 5s      In a Prolog or Epilog.
  gpumap audit --nagios")]
pub struct AuditArgs {
    /// Show only what concerns these cgroups and those below them.
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup(), help_heading = "Arguments")]
    pub paths: Vec<PathBuf>,
    /// Exit with 1 from this severity on [default: warning; never with
    /// --from-env].
    #[arg(long, value_name = "SEVERITY", value_enum, conflicts_with = "nagios")]
    pub fail_on: Option<FailOn>,
    /// Save the findings with the observation they rest on.
    ///
    /// The file is one JSON document; `gpumap --from FILE audit` makes the same
    /// audit from it. It replaces an older one whole or not at all, and only
    /// its owner may read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// Write the page of `gpumap report` too, with these findings.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Show only findings that a former audit of this node did not have.
    ///
    /// FILE is what --report saved or --json printed. Findings are the same if
    /// their fingerprints are.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Exceptions that this node is meant to have.
    ///
    /// The default is /etc/gpumap.toml if there is one; see the section
    /// CONFIGURATION of gpumap-audit(1).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Ask the kernel too, from inside the cgroups.
    ///
    /// gpumap moves a child process of its own into one cgroup for each policy. The
    /// child asks the kernel whether it could open each GPU, opens none, and ends. A
    /// kernel that disagrees with the decoder is a critical finding. A child that does
    /// not answer in time, or that somebody moves, answers nothing, which is said; all
    /// of them together have five seconds.
    #[arg(long)]
    pub verify: bool,
    /// Print one line for Nagios and compatible monitors.
    ///
    /// The exit status is theirs: 0 nothing worse than a note, 1 a warning, 2 a
    /// critical finding, 3 if it is not known.
    #[arg(long, conflicts_with_all = ["explain", "list"])]
    pub nagios: bool,
    /// Explain a finding; observe nothing.
    #[arg(long, value_name = "ID", conflicts_with = "list")]
    pub explain: Option<String>,
    /// List all kinds of findings; observe nothing.
    #[arg(long)]
    pub list: bool,
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

/// The words of `--fail-on`.
impl ValueEnum for FailOn {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Critical, Self::Warning, Self::Note, Self::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Critical => "Isolation does not hold",
            Self::Warning => "Something does not work as somebody expects",
            Self::Note => "Anything at all",
            Self::Never => "Nothing",
        };
        Some(PossibleValue::new(<&'static str>::from(self)).help(help))
    }
}

impl AuditArgs {
    /// Whether the exit status must be 0 whatever happens. This holds in a hook
    /// whose failure drains the node, unless its author chose otherwise with
    /// `--fail-on`.
    pub fn fails_open(&self) -> bool {
        self.allocation.slurm.from_env && self.fail_on.is_none() && !self.nagios
    }

    /// From which severity on findings fail.
    pub fn limit(&self) -> FailOn {
        let usual = if self.allocation.slurm.from_env { FailOn::Never } else { FailOn::Warning };
        self.fail_on.unwrap_or(usual)
    }
}
