//! `gpumap diff`.

use std::ffi::OsString;

use clap::{Args, ValueHint};

/// Show exactly where two policies, or two moments of a node, differ.
///
/// A and B are each a cgroup path, a program id, a program file, or a saved
/// observation: FILE, or FILE:/CGROUP/PATH for one cgroup of it. A name that
/// is an existing file is taken as a file.
///
/// Two files that were saved of the same cgroups are compared as moments of a
/// node: jobs, containers and units that came and went, programs attached and
/// gone, GPUs that owners lost or gained, allocations, and the exact difference
/// of every policy that changed.
///
/// The exit status is 0 if the policies are equal and nothing else changed, 1 if they differ and 3 if
/// part of either is unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap diff /system.slice/slurmstepd.scope/job_42 /system.slice/slurmstepd.scope/job_43
  gpumap diff before.json:/machine.slice after.json:/machine.slice
  gpumap diff 812 device.xlated
  gpumap diff before.json after.json              What happened in between?")]
pub struct DiffArgs {
    /// The first policy.
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub a: OsString,
    /// The second policy.
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub b: OsString,
}
