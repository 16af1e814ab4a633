//! Tests of `gpumap watch` against the running kernel: they need root, a
//! cgroup2 mount, bpf(2), a C compiler and uprobes. Where these are missing,
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
mod denials;
mod environments;
mod exec;
mod gpu_opens;
mod hostile_files;
mod hostile_users;
mod load;
mod moves;
mod one_process;
mod overlays;
mod probe_places;
mod program_changes;
#[path = "../support/mod.rs"]
mod support;
mod top;
mod uprobe_stacks;
