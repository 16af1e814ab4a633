//! Times refreshes of a resident gpumap: `resident ENGINE DIR [RUNS]`, where
//! ENGINE is `proc` or `iterators` and DIR the cgroups that are followed, by
//! queries and by the iterator over cgroups.
//!
//! Prints best and median of the whole and of its parts. Without arguments (as
//! under `cargo bench` alone) it does nothing.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use gpumap::observe::monitor::cgroups::{CgroupMonitor, ListSource};
use gpumap::observe::monitor::{NodeMonitor, ProcessMonitor};
use gpumap::observe::scanner::ScanMethod;
use gpumap::observe::{CgroupTarget, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [engine, path, ..] = arguments.as_slice() else { return Ok(()) };
    let engine = if engine == "proc" { ScanMethod::Proc } else { ScanMethod::Iterators };
    let runs = arguments.get(2).map_or(Ok(15), |runs| runs.parse())?;
    let options = Options { cgroup_root: Some(path.into()), ..Options::default() };
    let targets = [CgroupTarget::all()];
    let start = Instant::now();
    let mut processes = ProcessMonitor::start(&options, Some(engine))?;
    println!("{:10} start    {:8.2} ms", engine.name(), start.elapsed().as_secs_f64() * 1e3);
    timed(engine.name(), "processes", runs, || drop(processes.refresh()));
    drop(processes);
    for source in [ListSource::Queries, ListSource::Iterator] {
        let start = Instant::now();
        let mut cgroups = CgroupMonitor::start_with(&options, &targets, None, Some(source))?;
        let name = format!("{source:?}");
        println!("{name:10} start    {:8.2} ms", start.elapsed().as_secs_f64() * 1e3);
        timed(&name, "cgroups", runs, || drop(cgroups.check()));
        drop(cgroups);
        let mut resident = NodeMonitor::start_with(&options, &targets, Some(engine), Some(source))?;
        timed(engine.name(), "refresh", runs, || drop(resident.refresh()));
        summary(&resident);
    }
    Ok(())
}

fn summary(resident: &NodeMonitor) {
    let processes = resident.processes();
    let devices = processes.iter().filter_map(|one| one.devices.known()).flatten();
    let devices: usize = devices.map(|one| one.fds as usize).sum();
    println!("{} processes, {devices} open devices, {}", processes.len(), resident.engine());
}

fn timed(name: &str, what: &str, runs: usize, mut work: impl FnMut()) {
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
        println!("{name:10} {what:9} best {best:7.2} ms, median {median:7.2} ms");
    }
}
