//! `gpumap vgpu`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Show what a shared region of HAMi's libvgpu.so or of SoftMig says.
///
/// The libraries share a GPU by intercepting CUDA calls. They keep limits, use and
/// processes in a file that all processes of a container map, the shared region:
/// `/tmp/cudevshr.cache`, or the one that CUDA_DEVICE_MEMORY_SHARED_CACHE names. The
/// size, the version and the contents of the file show which build wrote it. A file
/// that two builds have written to is `mixed`, and no value is read from it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap vgpu --region /tmp/cudevshr.cache
  gpumap vgpu --region /proc/4711/root/tmp/cudevshr.cache --json

Exit status: 0 read, 2 could not read the file, 3 its layout is mixed or unknown.")]
pub struct VgpuArgs {
    /// A shared region; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
    pub region: PathBuf,
}
