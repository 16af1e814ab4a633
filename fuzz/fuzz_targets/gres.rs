//! Reads any text as `gres.conf`, as lists of GPUs and as host names. Bytes of zero
//! separate these parts.

#![no_main]

use std::sync::LazyLock;

use gpumap::allocation::{Numbering, Of, caller_list, of_claim, of_hook};
use gpumap::observation::{ConfigFile, Observation, Slurm};
use gpumap::report::Gpu;
use libfuzzer_sys::fuzz_target;

static GPUS: LazyLock<Vec<Gpu>> = LazyLock::new(|| {
    let node = include_bytes!("../../fixtures/nodes/slurm-runc-in-job.json");
    let node: Observation = serde_json::from_slice(node).expect("an observation");
    gpumap::gpu::inventory(&node.gpu_facts)
});

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    let (text, host, list, environment) = (part(), part(), part(), part());
    let gres_conf = ConfigFile { path: "gres.conf".to_owned(), text: text.to_vec().into(), ..ConfigFile::default() };
    let hook = gpumap::fuzzing::environment(environment);
    let slurm = Slurm { gres_conf: Some(gres_conf), hook: Some(hook.clone()), ..Slurm::default() };
    let numbering = Numbering::new(&slurm, &String::from_utf8_lossy(host), &GPUS);
    let list = String::from_utf8_lossy(list);
    let _given = caller_list(&list, &numbering, &GPUS);
    let set = numbering.resolve(&list, &GPUS);
    assert!(set.gpus.is_none_or(|gpus| gpus.len() <= GPUS.len()));
    of_hook(&hook, &numbering, &GPUS);
    for of in [Of::Job, Of::FirstStep, Of::Step] {
        of_claim(&hook, of, &numbering, &GPUS);
    }
});
