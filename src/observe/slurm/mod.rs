//! Slurm: its configuration of GPUs, and the daemons of its steps.

pub(super) mod config;
pub(super) mod step_daemon;
