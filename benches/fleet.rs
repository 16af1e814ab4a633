//! Times `gpumap fleet` on generated nodes: the whole command on 10,000 compact
//! documents of 50 jobs, with its peak memory; and full documents beside what
//! serde_json takes for the same bytes alone.
//!
//! `cargo bench --bench fleet`.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark")]
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use gpumap::analyse::{self, CallerAllocation};
use gpumap::fleet::{FleetQuestion, Gatherer, Stream, report};
use gpumap::observation::Observation;
use serde::de::IgnoredAny;
use serde_json::Value;

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../tests/support/fleet.rs"]
mod nodes;

const TAKEN_AT: &str = "2026-11-23T01:00:00Z";
const NODES: usize = 10_000;
const JOBS: usize = 50;
const ROUNDS: usize = 5;
/// Bytes of one read.
const PIECE: usize = 1 << 18;

fn main() {
    compact();
    full();
}

/// The whole command, as a user runs it.
fn compact() {
    let all: String = (0..NODES).map(|node| nodes::compact(node, JOBS, TAKEN_AT)).collect();
    let path = std::env::temp_dir().join(format!("gpumap-fleet-{}.ndjson", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(all.as_bytes()).unwrap();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        let mut child = child.arg("fleet").arg(&path).stdout(Stdio::null()).spawn().unwrap();
        let id = child.id();
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            peak = peak.max(peak_of(id).unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{NODES} compact nodes, {} MB: {seconds:.2} s, {} MiB at most",
            all.len() / 1_000_000,
            peak >> 10
        );
    }
    std::fs::remove_file(&path).unwrap();
}

/// The peak memory of a process in KiB, while it runs.
fn peak_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Full documents of `node --json` in a file, which everybody reads in pieces of the same
/// size.
fn full() {
    let node: Observation = serde_json::from_value(nodes::with_jobs(nodes::named("gpu01"), JOBS)).unwrap();
    let payload =
        analyse::node(&node, &CallerAllocation::default(), &gpumap::analyse::TimeLimit::default()).unwrap();
    let document = gpumap::report::Document {
        schema: gpumap::report::SCHEMA.to_owned(),
        command: "node".to_owned(),
        taken_at: node.taken_at.clone(),
        host: node.host.clone(),
        payload,
        ..Default::default()
    };
    let mut line = serde_json::to_vec(&document).unwrap();
    line.push(b'\n');
    let count = (256 << 20) / line.len();
    let path = std::env::temp_dir().join(format!("gpumap-fleet-{}.full.ndjson", std::process::id()));
    std::fs::write(&path, line.repeat(count)).unwrap();
    let open = || File::open(&path).unwrap();
    println!("full documents of {} bytes:", line.len());
    timed("fleet", line.len() * count, || {
        let mut gatherer = Gatherer::default();
        let (mut file, mut stream, mut sink) = (open(), Stream::default(), gatherer.input("bench"));
        loop {
            match file.read(stream.room(PIECE)).unwrap() {
                0 => break,
                count => stream.filled(count, &mut sink),
            }
        }
        stream.finish(&mut sink);
        sink.finish();
        let (fleet, problems) = report(gatherer, &FleetQuestion::default());
        assert!(problems.is_empty() && fleet.documents == count, "{problems:?}");
    });
    let lines = |count: usize, visit: fn(&[u8])| {
        let (mut file, mut line) = (BufReader::with_capacity(PIECE, open()), Vec::new());
        for _ in 0..count {
            line.clear();
            file.read_until(b'\n', &mut line).unwrap();
            visit(&line);
        }
    };
    timed("serde_json, nothing kept", line.len() * count, || {
        lines(count, |line| {
            let _nothing = black_box(serde_json::from_slice::<IgnoredAny>(line).unwrap());
        });
    });
    timed("serde_json, Value", line.len() * 20, || {
        lines(20, |line| drop(black_box(serde_json::from_slice::<Value>(line).unwrap())));
    });
    std::fs::remove_file(&path).unwrap();
}

fn timed(name: &str, bytes: usize, mut work: impl FnMut()) {
    let best = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    println!("  {name:28} {:7.0} MB/s", bytes as f64 / best / 1e6);
}
