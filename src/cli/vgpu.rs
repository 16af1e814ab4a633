//! `gpumap vgpu`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Show which limits of HAMi's libvgpu.so or of SoftMig processes have, and
/// whether they are in force.
///
/// The libraries share a GPU by intercepting CUDA calls; the device cgroup cannot
/// tell those who share it apart. For each process and GPU: the limits that it was
/// meant to have (by its environment at exec, by SoftMig's file of its job, or by
/// another process of its container where its environment was wiped), those in the
/// shared region that it maps, what the region counts as used, and whether memory
/// and SM limit are in force: yes, no, partly or unknown, with the reason. Where no
/// limit is set that is `none`. Without an option: all processes of the node.
///
/// A yes means that the library is loaded, has the process in its region, and has
/// this limit there. A program that goes past the library on purpose while it is
/// registered does not show from outside.
///
/// --region reads one shared region by itself, which takes no right but to read
/// it: `/tmp/cudevshr.cache`, or the file that CUDA_DEVICE_MEMORY_SHARED_CACHE
/// names. Which build wrote it is told from its size, its version and its
/// contents. A file that two builds have written to is `mixed`, and no value is
/// read from it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap vgpu
  gpumap vgpu --pid 31337
  gpumap vgpu --job 4711 --json
  gpumap --from node.json vgpu --cgroup /kubepods.slice
  gpumap vgpu --region /proc/4711/root/tmp/cudevshr.cache --json

Exit status: 0 every limit that was meant is in force, 1 one is not, 2 gpumap could
not work, 3 it is not known of one and none is known not to be. A process that has
no GPU open and has not called the library does not count, unless --pid names it.
With --region: 0 read, 2 could not read the file, 3 its layout is mixed or unknown.")]
pub struct VgpuArgs {
    /// The processes of this job, by number or SLUID, or of one of its steps.
    #[arg(long, value_name = "ID", conflicts_with_all = ["pid", "cgroup", "region"])]
    pub job: Option<String>,
    /// This process.
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "region"])]
    pub pid: Option<u32>,
    /// The processes of this cgroup and of those below it.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath, conflicts_with = "region")]
    pub cgroup: Option<PathBuf>,
    /// A shared region by itself; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub region: Option<PathBuf>,
}
