//! `gpumap doctor`.

use clap::Args;

/// Check what gpumap can find out on this node, and how to mend what it cannot.
///
/// gpumap checks its rights, the kernel's settings, BTF and the BPF engines, the
/// mounts of cgroups, what drivers offer, Slurm's files, other software that detaches
/// device programs, and gpumap's own file. It starts no other program and changes
/// nothing. It loads BPF programs for a moment to see which of them the kernel takes.
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

Exit status: 0 nothing is missing, 1 something is missing, 2 gpumap could not work, 3 a check could not be made.")]
pub struct DoctorArgs {
    /// Leave out the node's name, its boot id and the site's own paths.
    #[arg(long)]
    pub redact: bool,
}
