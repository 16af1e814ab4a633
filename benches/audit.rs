//! Times an audit of a large node that exists only in memory: 5000 cgroups of 500
//! jobs and 2000 processes, copied from the jobs of a saved node.

#![allow(missing_docs, reason = "criterion's macros document nothing")]
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use gpumap::analyse::{self, CallerAllocation};
use gpumap::audit::{self, Config};
use gpumap::observation::{Cgroup, Observation, Process, Text};

const SCOPE: &str = "/system.slice/gpu01_slurmstepd.scope/";
const JOBS: usize = 500;
const CGROUPS: usize = 5000;
const PROCESSES: usize = 2000;

fn saved() -> Observation {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/nodes/slurm-4gpu.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The path in the cgroup of another job.
fn renamed(path: &Text, number: usize) -> Option<Text> {
    let path = path.lossy();
    let (_, rest) = path.strip_prefix(SCOPE)?.strip_prefix("job_")?.split_at_checked(7)?;
    Some(Text::from(format!("{SCOPE}job_{}{rest}", 2_000_000 + number).as_str()))
}

/// A node with as many of everything, parents before children.
fn large() -> Observation {
    let mut node = saved();
    let (cgroups, processes) = (node.cgroups.clone(), node.processes.clone());
    let jobs = ["1956130", "1956131", "1956132"];
    for number in 0..JOBS {
        let job = format!("{SCOPE}job_{}", jobs[number % jobs.len()]);
        let is_its = |path: &Text| path.lossy().starts_with(&job);
        node.cgroups.extend(cgroups.iter().filter(|it| is_its(&it.path)).map(|it| Cgroup {
            path: renamed(&it.path, number).unwrap(),
            id: it.id + 1000 * (number as u64 + 1),
            ..it.clone()
        }));
        let of_job: Vec<&Process> = processes.iter().filter(|it| is_its(&it.cgroup)).collect();
        node.processes.extend((0..4).filter_map(|index| {
            let it = of_job.get(index % of_job.len().max(1))?;
            let cgroup = renamed(&it.cgroup, number).unwrap();
            let pid = 10_000 + u32::try_from(number * 4 + index).unwrap();
            Some(Process { pid, cgroup, ..(*it).clone() })
        }));
    }
    let more = (node.cgroups.len()..CGROUPS).map(|index| Cgroup {
        path: Text::from(format!("/system.slice/service-{index}.service").as_str()),
        id: 10_000_000 + index as u64,
        ..cgroups[0].clone()
    });
    let more: Vec<Cgroup> = more.collect();
    node.cgroups.extend(more);
    node.cgroups.truncate(CGROUPS);
    node.processes.truncate(PROCESSES);
    node
}

fn audits(criterion: &mut Criterion) {
    let node = large();
    assert_eq!((node.cgroups.len(), node.processes.len()), (CGROUPS, PROCESSES));
    let mut group = criterion.benchmark_group("audit");
    group.sample_size(20);
    let (granted, config) = (CallerAllocation::default(), Config::default());
    group.bench_function("analyse 5000 cgroups", |bencher| {
        bencher.iter(|| {
            analyse::node(black_box(&node), &granted, &gpumap::analyse::TimeLimit::default()).unwrap()
        });
    });
    group.bench_function("audit 5000 cgroups", |bencher| {
        bencher.iter(|| {
            audit::audit(black_box(&node), &granted, &config, &gpumap::analyse::TimeLimit::default()).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, audits);
criterion_main!(benches);
