//! `gpumap cgroup`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::typed;

/// Show what may be opened from cgroups.
///
/// For each cgroup: the GPUs with their verdicts, the decoded rules, the
/// programs in force with the cgroup each is attached to, and the processes
/// with what each asks for and holds.
/// With -r, one line for every cgroup of the subtree, grouped by policy.
///
/// The exit status is 0 when everything could be seen and 3 when something is
/// missing or unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap cgroup /system.slice/slurmstepd.scope/job_42
  gpumap cgroup /sys/fs/cgroup/machine.slice -r
  gpumap --from node.json cgroup --json")]
pub struct CgroupArgs {
    /// Cgroups: file-system paths, or paths from the cgroup root.
    ///
    /// A relative path, such as `.`, starts in the working directory if that is
    /// a cgroup, and else at the cgroup root. With --from and without a path, the
    /// cgroups that were saved are shown.
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup())]
    pub paths: Vec<PathBuf>,
    /// Show the cgroups below the paths too.
    #[arg(short, long)]
    pub recursive: bool,
}
