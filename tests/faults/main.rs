//! Every call that gpumap makes to the kernel is made to fail, one after another: the
//! answer is what it was, or says what it lacks. Needs root, cgroup2, bpf(2), gcc.

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

mod answer;
mod apply;
mod command;
mod engine;
mod law;
mod one_shot;
mod resident;
mod scene;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod violations;
