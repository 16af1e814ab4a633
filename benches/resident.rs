//! Times refreshes of a resident gpumap: `resident ENGINE DIR [RUNS]`, where
//! ENGINE is `proc` or `iterators` and DIR the cgroups that are followed.
//!
//! Prints best and median of the whole and of its parts. Without arguments (as
//! under `cargo bench` alone) it does nothing.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use gpumap::observe::follow::Follower;
use gpumap::observe::resident::{Processes, Resident};
use gpumap::observe::scanner::Engine;
use gpumap::observe::{Options, Target};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [engine, path, ..] = arguments.as_slice() else { return Ok(()) };
    let engine = if engine == "proc" { Engine::Proc } else { Engine::Iterators };
    let runs = arguments.get(2).map_or(Ok(15), |runs| runs.parse())?;
    let options = Options { cgroup_root: Some(path.into()), ..Options::default() };
    let targets = [Target { path: "/".into(), recursive: true }];
    let start = Instant::now();
    let mut processes = Processes::start(&options, Some(engine))?;
    println!("{:10} start    {:8.2} ms", engine.name(), start.elapsed().as_secs_f64() * 1e3);
    let mut cgroups = Follower::start(&options, &targets, None)?;
    timed(engine, "processes", runs, || drop(processes.refresh()));
    timed(engine, "cgroups", runs, || drop(cgroups.check()));
    drop((processes, cgroups));
    let mut resident = Resident::start(&options, &targets, Some(engine))?;
    timed(engine, "refresh", runs, || drop(resident.refresh()));
    let devices: usize = resident
        .processes()
        .iter()
        .filter_map(|one| one.devices.known())
        .flatten()
        .map(|one| one.fds as usize)
        .sum();
    println!("{} processes, {devices} open devices, {}", resident.processes().len(), resident.engine());
    Ok(())
}

fn timed(engine: Engine, what: &str, runs: usize, mut work: impl FnMut()) {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (best, median) = (times.first(), times.get(times.len() / 2));
    if let (Some(best), Some(median)) = (best, median) {
        println!("{:10} {what:9} best {best:7.2} ms, median {median:7.2} ms", engine.name());
    }
}
