//! Times `observe::cgroups` on a cgroup tree: `observe DIR [-r] [RUNS]`.
//!
//! Prints the milliseconds of each run, then what was seen. Without a
//! directory (as under `cargo bench` alone) it does nothing.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use gpumap::observe::{CgroupTarget, Options, cgroups};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(path) = arguments.first() else { return Ok(()) };
    let recursive = arguments.iter().any(|argument| argument == "-r");
    let runs = arguments.iter().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(10);
    let targets = [CgroupTarget::typed(path, recursive)];
    let mut last = None;
    for _ in 0..runs {
        let start = Instant::now();
        let seen = cgroups(&Options::default(), &targets)?;
        println!("{:.3} ms", start.elapsed().as_secs_f64() * 1e3);
        last = Some(seen);
    }
    if let Some(seen) = last {
        let (programs, processes) = (seen.programs.len(), seen.processes.len());
        println!(
            "{} cgroups, {programs} programs, {processes} processes, {:?}",
            seen.cgroups.len(),
            seen.errors
        );
    }
    Ok(())
}
