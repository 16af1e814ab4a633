//! What the sweeps share: how many faults, which seed, workers beside each other.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many calls fail in a sweep: `GPUMAP_FAULTS`, or `usual`; 0 for all.
pub fn wanted(usual: usize) -> usize {
    std::env::var("GPUMAP_FAULTS").map_or(usual, |text| text.parse().expect("a number"))
}

/// The seed that is used where none is asked for: every run fails the same calls, so that a
/// failure is one of the change that is tested. `GPUMAP_SEED=$RANDOM` fails others.
const USUAL_SEED: u64 = 8;

/// `GPUMAP_SEED`, or the usual one; it is printed.
pub fn seed() -> u64 {
    let seed = std::env::var("GPUMAP_SEED").ok().map(|text| text.parse().expect("a number"));
    let seed = seed.unwrap_or(USUAL_SEED);
    println!("GPUMAP_SEED={seed}");
    seed
}

/// A directory of a sweep's own.
pub fn room(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let room = std::env::temp_dir().join(format!("gpumap-faults-{}-{name}-{count}", std::process::id()));
    std::fs::create_dir_all(&room).unwrap();
    room
}

/// Runs a worker for each processor, in a thread of its own: with its number and how
/// many there are.
pub fn beside(work: impl Fn(usize, usize) + Sync) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let work = &work;
            scope.spawn(move || work(worker, workers));
        }
    });
}
