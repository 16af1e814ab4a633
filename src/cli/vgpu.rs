//! `gpumap vgpu`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::typed;

/// Show the GPU limits that HAMi's libvgpu.so and SoftMig set, and whether they are
/// in force.
///
/// Both libraries divide a GPU among processes by intercepting CUDA calls. All these
/// processes may open the GPU, so the device cgroup cannot tell them apart. For each
/// process and GPU gpumap shows the limits that the process was meant to have, the
/// limits in the shared region that it maps, and what the region counts as used.
/// The meant limits come from the environment at exec, from SoftMig's file of the
/// job, or, if the environment was wiped, from another process of the container.
///
/// For the memory limit and the SM limit gpumap says whether each is in force: yes,
/// no, partly or unknown, with the reason, or `none` if no limit is set. Yes means
/// that the process has loaded the library, that the region lists the process, and
/// that the region has this limit. A program that is registered and bypasses the
/// library on purpose cannot be seen from outside.
///
/// Without an option gpumap shows all processes of the node.
///
/// --region reads one shared region, `/tmp/cudevshr.cache` or the file that
/// CUDA_DEVICE_MEMORY_SHARED_CACHE names. It needs no right but to read the file.
/// Size, version and contents show which build of the library wrote it. A file that
/// two builds have written to is `mixed`, and gpumap takes no value from it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap vgpu
  gpumap vgpu --pid 31337
  gpumap vgpu --job 4711 --json
  gpumap --from node.json vgpu --cgroup /kubepods.slice
  gpumap vgpu --region /proc/4711/root/tmp/cudevshr.cache --json

Exit status: 0 every limit that was meant is in force, 1 a limit is not in force,
2 gpumap could not work, 3 a limit is unknown and none is known to be out of force.
A process that has no GPU open and has not called the library does not count, unless
--pid names it. With --region: 0 read, 2 could not read the file, 3 its layout is
mixed or unknown.")]
pub struct VgpuArgs {
    /// Show the processes of this job or step; a job is named by number or SLUID.
    #[arg(long, value_name = "ID", conflicts_with_all = ["pid", "cgroup", "region"])]
    pub job: Option<String>,
    /// Show this process.
    #[arg(long, value_name = "PID", value_parser = typed::pid, conflicts_with_all = ["cgroup", "region"])]
    pub pid: Option<u32>,
    /// Show the processes of this cgroup and of those below it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, value_parser = typed::cgroup(), conflicts_with = "region")]
    pub cgroup: Option<PathBuf>,
    /// Read this shared region; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub region: Option<PathBuf>,
}
