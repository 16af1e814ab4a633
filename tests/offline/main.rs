//! Tests that need nothing but the build: no rights, no packages, no kernel
//! feature.

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

mod activity_state;
mod allocation;
mod audit_reports;
mod captures;
mod command_line;
mod compiler;
mod doctor;
mod export;
mod findings;
mod first_words;
mod fleet;
mod free;
mod gpu_inventory;
mod hooks;
mod html_pages;
mod identity;
mod many_programs;
mod owners;
mod policy_laws;
mod prog_compile;
mod program_formats;
mod proofs;
mod rbpf;
mod regressions;
mod scenarios;
mod settings;
#[path = "../support/mod.rs"]
mod support;
mod tail_calls;
mod top;
mod unit_settings;
mod vgpu_in_force;
mod vgpu_regions;
mod visible_devices;
mod writers;
