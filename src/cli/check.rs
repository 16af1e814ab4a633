//! `gpumap check` and `gpumap explain`: the same targets, many devices or one.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::TargetArgs;

/// Answer allow, deny or unknown for each device.
///
/// Prints one line per device: the verdict, a tab, the device as asked.
/// `mixed` is the answer where a `*` or `rwm` covers both allowed and denied
/// questions. Reasons for unknown verdicts go to standard error.
///
/// DEVICE is `TYPE MAJOR:MINOR [REQUEST]` as one argument, the path of a device
/// node, or a name. TYPE is c, b or a (both); a number may be `*`. REQUEST is
/// one of r, w, rw (the default), m (mknod) and f (existence test); rwm asks
/// for all of them.
///
/// A name is that of a GPU or of its node as gpumap prints it (nvidia0,
/// renderD128), a UUID or the beginning of one, a PCI address with or without
/// its domain, or an NVIDIA GPU's number. What may mean several devices is an
/// error that lists them. Paths and names are looked up below --gpu-root, or in
/// what --from has.
///
/// The exit status is 2 if a line of standard input is not a device, else 3 if
/// a verdict is unknown, else 1 if one is deny or mixed, else 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap check --cgroup /system.slice/slurmstepd.scope/job_42 'c 195:0 rw'
  gpumap check --pid 31337 /dev/nvidia0 /dev/nvidia1
  gpumap check --job 4711 nvidia0
  gpumap check --job 4711.0 GPU-5f3c0c9e
  gpumap check --prog device.xlated 'c 195:* rwm'
  gpumap check --self /dev/nvidia0
  seq -f 'c 195:%g' 0 7 | gpumap check --pid 31337 -")]
pub struct CheckArgs {
    /// The policy to ask.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Ask the kernel, with access(2), what gpumap itself may open.
    ///
    /// Needs no right and decodes nothing. File permissions count too. The
    /// device must have a node, in the dev of --gpu-root or in /dev; access(2) cannot
    /// ask for mknod.
    #[arg(long = "self", conflicts_with_all = ["cgroup", "pid", "job", "prog"])]
    pub own: bool,
    /// Devices, such as 'c 195:3 rw', /dev/nvidia3 or nvidia3; `-` reads them
    /// from standard input, one per line.
    #[arg(value_name = "DEVICE", required = true, help_heading = "Arguments", value_hint = ValueHint::FilePath)]
    pub devices: Vec<OsString>,
}

/// Prove one verdict, instruction by instruction.
///
/// Shows every program in run order: the instructions that the kernel would
/// execute for this one question, what each means, and which one decided; then how
/// the kernel combines the programs. Of a loop with many rounds, the first round
/// and the end of the path are printed, with a count of what was left out; -v and
/// --json have every instruction.
///
/// The exit status is 0 for allow, 1 for deny and 3 for unknown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap explain --cgroup /system.slice/slurmstepd.scope/job_42 'c 195:3 rw'
  gpumap explain --prog device.xlated /dev/nvidia3")]
pub struct ExplainArgs {
    /// The policy to ask.
    #[command(flatten)]
    pub target: TargetArgs,
    /// One device and one request, such as 'c 195:3 rw', /dev/nvidia3 or
    /// nvidia3.
    #[arg(value_name = "DEVICE", help_heading = "Arguments", value_hint = ValueHint::FilePath)]
    pub device: OsString,
}
