//! `gpumap watch` where it is used: in containers of real runtimes with C
//! libraries of their own, in jobs of a real Slurm, with other languages and
//! other drivers, and beside the tools that change device programs.
//!
//! Needs root, a writable cgroup2, a C compiler and what each test names; without
//! them the tests say so and pass, unless `GPUMAP_REQUIRE_ROOT=1`.

mod activity;
mod containers;
mod drivers;
mod jobs;
mod languages;
mod policies;

use crate::support::host::{self, Host};
use gpumap::report::Event;

const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// This machine, if the tests can run here and these programs are there.
fn host_with(programs: &[&str]) -> Option<Host> {
    let host = host::shared()?;
    if let Some(program) = programs.iter().find(|name| !host::is_installed(name)) {
        host::skip(&format!("{program} is not installed"));
        return None;
    }
    Some(host)
}

/// A process while it runs a certain program: runtimes change their own
/// environment before they become what they are to run.
type Runs<'a> = (u32, &'a str);

/// Whether an event is about this process.
fn is_of(event: &Event, (pid, comm): Runs<'_>) -> bool {
    event.process.as_ref().is_some_and(|process| process.pid == pid && process.comm == comm)
}

/// The events of one process.
fn of(events: &[Event], runs: Runs<'_>) -> Vec<Event> {
    events.iter().filter(|event| is_of(event, runs)).cloned().collect()
}
