//! The kernel-verdict test bench: programs are generated, loaded, attached to a
//! scratch cgroup, and every verdict of the decoder is compared with what the
//! kernel answers to a process inside that cgroup.
//!
//! Nothing here shares code with `src/observe` or `src/policy`: the bench is a
//! second opinion, so it talks to bpf(2) by itself and has an interpreter of
//! its own.

#![allow(dead_code, reason = "each test crate uses its own part of the bench")]
#![allow(unreachable_pub, reason = "the modules are shared by several test crates")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is test code: a surprise ends the test"
)]

pub mod asm;
pub mod attacker;
pub mod bench;
pub mod bpf;
pub mod browser;
pub mod captures;
pub mod cgroup;
pub mod concrete;
pub mod container;
pub mod elf;
pub mod fleet;
pub mod generate;
pub mod host;
pub mod inspect;
pub mod kallsyms;
pub mod kernel;
pub mod law;
pub mod meanwhile;
pub mod minimize;
pub mod node;
pub mod oracle;
pub mod probe;
pub mod programs;
pub mod pty;
pub mod rng;
pub mod scenario;
pub mod shell_words;
pub mod skips;
pub mod slurm;
pub mod source;
pub mod sysctl;
pub mod systemd;
pub mod threads;
pub mod tmux;
pub mod v1;
pub mod verify;
pub mod victim;
pub mod wait;
pub mod watching;
