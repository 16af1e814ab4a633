//! Options that say what the scheduler allocated, and where Slurm says it.

use std::path::PathBuf;

use clap::{Args, ValueHint};

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
    /// The path of Slurm's gres.conf, which says what its GPU numbers mean.
    ///
    /// The default is the usual places.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub gres_conf: Option<PathBuf>,
}
