//! gpumap: which GPUs a cgroup, a job or a process may open, and why.
//!
//! There are three stages, in one direction: [`observe`] asks the kernel and writes
//! down plain facts ([`observation`]), [`analyse`] turns facts into answers without
//! touching the system, [`render`] prints them. A saved observation enters at the
//! second stage, so everything that works on a live node works from a file.

pub mod activity;
pub mod allocation;
pub mod analyse;
pub mod audit;
pub mod bytecode;
pub mod cli;
pub mod commands;
pub mod doctor;
pub mod elf;
pub mod export;
pub mod fleet;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod gpu;
pub mod loader;
pub mod model;
pub mod observation;
pub mod observe;
pub mod output_file;
pub mod owner;
pub mod policy;
pub mod probing;
pub mod quota;
pub mod render;
pub mod repair;
pub mod report;
pub mod slurm_conf;
pub mod sys;
pub mod top;
pub mod unit;
pub mod vgpu;
pub mod visible;
pub mod watch;
