//! Reads any bytes as an environment, and resolves its variables on nodes of every
//! vendor. The first byte chooses the verdicts on the GPUs.

#![no_main]

use std::sync::LazyLock;

use gpumap::observation::Answer;
use gpumap::model::Verdict;
use gpumap::report::Gpu;
use gpumap::visible::{GpuAccess, OpenableGpus, asked};
use libfuzzer_sys::fuzz_target;

#[derive(serde::Deserialize)]
struct Inventory {
    gpus: Vec<Gpu>,
}

static NODES: LazyLock<Vec<Vec<Gpu>>> = LazyLock::new(|| {
    let nodes = [
        include_str!("../../fixtures/gpu/four-h200.expected.json"),
        include_str!("../../fixtures/gpu/mig.expected.json"),
        include_str!("../../fixtures/gpu/mixed.expected.json"),
    ];
    nodes.map(|node| serde_json::from_str::<Inventory>(node).expect("an inventory").gpus).into()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, environment)) = bytes.split_first() else { return };
    let environment = Answer::Known(gpumap::fuzzing::environment(environment));
    for gpus in NODES.iter() {
        let verdict = |place: usize| match choice >> (place % 4 * 2) & 3 {
            0 | 3 => Verdict::Allow,
            1 => Verdict::Deny,
            _ => Verdict::Unknown,
        };
        let access = |(place, gpu): (usize, &Gpu)| GpuAccess {
            verdict: verdict(place),
            instances: vec![verdict(place + 1); gpu.mig.len()],
        };
        let reach = OpenableGpus { gpus: gpus.iter().enumerate().map(access).collect(), shared: Vec::new() };
        let answer = asked(&environment, gpus, &reach);
        assert!(answer.gpus.iter().flatten().all(|key| gpus.iter().any(|gpu| key.is_of(&gpu.key))));
    }
});
