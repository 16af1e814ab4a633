//! `gpumap audit` and `gpumap report`, and the options of all commands that say what the
//! scheduler allocated.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum, ValueHint};

use super::target;
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
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup(), help_heading = "Arguments")]
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
    /// Add what the kernel refused to processes, as a running `gpumap denials --state`
    /// sums it; FILE is the file that it keeps.
    ///
    /// The default is /run/gpumap/denials.json if root keeps it there.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub denials: Option<PathBuf>,
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
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = target::cgroup(), help_heading = "Arguments")]
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

/// Options that name the allocation.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Allocation")]
pub struct AllocationArgs {
    /// The GPUs that were allocated, separated by commas.
    ///
    /// Each is a UUID, a PCI address, a node such as /dev/nvidia0, or a number as
    /// Slurm counts GPUs (gres.conf says which GPU a number means).
    #[arg(long, value_name = "LIST", conflicts_with = "from_env")]
    pub allocated: Option<String>,
    /// Options that say where Slurm names its allocation.
    #[command(flatten)]
    pub slurm: SlurmArgs,
}

/// Options that say where Slurm tells what it allocated.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Allocation")]
pub struct SlurmArgs {
    /// Take the allocation, the job and its user from the environment that
    /// Slurm gives Prolog and Epilog.
    ///
    /// These are SLURM_JOB_GPUS, SLURM_JOB_ID and SLURM_JOB_UID. Only for use
    /// in such a script: elsewhere a user may have set them.
    #[arg(long)]
    pub from_env: bool,
}
