//! `gpumap doctor`.

use clap::Args;

/// Tell what gpumap can and cannot know on this node, and what would help.
///
/// Looks at rights, the kernel's settings, BTF and the engines that work, where
/// cgroups are mounted, what drivers offer, Slurm's files, other programs that
/// detach device programs, and gpumap's own file. Runs no other program and changes
/// nothing; BPF programs are loaded for a moment to see which the kernel takes.
/// Each check has a stable id, which gpumap-doctor(1) explains.
///
/// With --from it judges the node on which the file was saved with `gpumap snapshot
/// --setup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo gpumap doctor                  What is missing on this node, with the fix.
  sudo gpumap doctor --redact         The same for a bug report.
  gpumap doctor --json | jq '.doctor[] | select(.state == \"missing\")'

Exit status: 0 nothing is missing, 1 something is, 2 could not work, 3 something could not be looked at.")]
pub struct DoctorArgs {
    /// Leave out the node's name, its boot and paths that are the site's own.
    #[arg(long)]
    pub redact: bool,
}
