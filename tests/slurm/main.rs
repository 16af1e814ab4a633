//! Tests with other software: a real Slurm, container runtimes, languages and
//! tools. They need root and what each module names. Where that is missing,
//! each test says so and passes, unless `GPUMAP_REQUIRE_ROOT=1` makes it fail.

#![allow(
    unreachable_pub,
    unsafe_code,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is test code: a surprise ends the test, and tests talk to the kernel by themselves"
)]

mod activity;
mod broken_isolation;
mod components;
mod examples;
mod first_contact;
mod fleet;
mod hooks;
mod job_cgroups;
mod job_sets;
mod one_process;
mod other_versions;
mod page;
mod pinned;
mod prometheus;
mod refused;
mod repair;
mod repair_jobs;
mod runtimes;
#[path = "../support/mod.rs"]
mod support;
mod systemd;
mod top;
mod vgpu;
mod watch;
