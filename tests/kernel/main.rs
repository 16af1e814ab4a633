//! Tests against the running kernel: they need root, a cgroup2 mount, bpf(2)
//! and a C compiler. Where these are missing, each test says so and passes,
//! unless `GPUMAP_REQUIRE_ROOT=1` makes it fail.

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

mod assumptions;
mod audit_verify;
mod commands;
mod compiled;
mod doctor;
mod export;
mod find_jobs;
mod forged_jobs;
mod generated;
mod hostile_processes;
mod hostile_threads;
mod leftovers;
mod listings;
mod many_uids;
mod mig_program;
mod named_files;
mod observation;
mod own_access;
mod partial_views;
mod privileges;
mod processes;
mod program_lists;
mod releases;
mod repair;
mod restricted;
mod scanner;
mod short_lived;
#[path = "../support/mod.rs"]
mod support;
mod user_names;
mod vgpu;
mod views;
