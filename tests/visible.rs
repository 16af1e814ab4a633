//! What lists of visible devices mean: tables in `fixtures/visible`, laws, and
//! hostile values.

#![allow(clippy::unwrap_used)] // clippy sees only `#[test]` functions as tests, not their helpers

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::gpu::inventory;
use gpumap::observation::{Answer, Environment, Text, Variable};
use gpumap::observe::gpu::collect;
use gpumap::policy::device::Verdict;
use gpumap::report::{Api, Asked, Gpu};
use gpumap::visible::{Access, Reach, SharedAccess, asked};
use proptest::prelude::*;

const CUDA: &str = "CUDA_VISIBLE_DEVICES";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn node(name: &str) -> Vec<Gpu> {
    let gpus = inventory(&collect(&fixtures().join("gpu").join(name), &mut Vec::new()));
    assert!(!gpus.is_empty(), "{name}");
    gpus
}

fn reach(gpus: &[Gpu], verdict: impl Fn(&Gpu) -> Verdict) -> Reach {
    let access = |gpu: &Gpu| Access { verdict: verdict(gpu), instances: vec![verdict(gpu); gpu.mig.len()] };
    let shared = ["nvidiactl", "nvidia-uvm", "kfd"].map(|role| SharedAccess {
        role: role.to_owned(),
        needed: true,
        verdict: Verdict::Allow,
    });
    Reach { gpus: gpus.iter().map(access).collect(), shared: shared.into() }
}

fn open(gpus: &[Gpu]) -> Reach {
    reach(gpus, |_| Verdict::Allow)
}

fn environment<V: Into<Text> + Clone>(variables: &[(&str, V)]) -> Answer<Environment> {
    let variable = |(name, value): &(&str, V)| Variable {
        name: (*name).to_owned(),
        value: value.clone().into(),
        cut: false,
    };
    Answer::Known(Environment { variables: variables.iter().map(variable).collect(), cut: None })
}

fn cuda(gpus: &[Gpu], reach: &Reach, value: &str) -> Asked {
    asked(&environment(&[(CUDA, value)]), gpus, reach)
}

fn rows(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(fixtures().join("visible").join(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The variables of a row: `<unset>` is none, `<empty>` is empty.
fn set<'a>(variables: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let set = variables.iter().filter(|(_, value)| *value != "<unset>");
    set.map(|(name, value)| (*name, value.replace("<empty>", "").replace("\\n", "\n"))).collect()
}

fn or_words(gpus: Option<Vec<String>>) -> String {
    match gpus {
        None => "unknown".to_owned(),
        Some(gpus) if gpus.is_empty() => "none".to_owned(),
        Some(gpus) => gpus.join(" "),
    }
}

#[test]
fn cuda_lists() {
    let gpus = node("skewed");
    let bus = |gpu: &Gpu| gpu.pci.as_deref().unwrap()[5..7].to_owned();
    let table = rows("cuda.tsv");
    assert!(table.len() > 50);
    for row in &table {
        let [allowed, value, result, confidence, cut, source] = row.as_slice() else { panic!("{row:?}") };
        let value = gpus.iter().fold(value.clone(), |value, gpu| {
            value.replace(&format!("{{{}}}", bus(gpu)), gpu.uuid.as_deref().unwrap())
        });
        let may = |gpu: &Gpu| {
            let minor = gpu.minor.unwrap().to_string();
            allowed == "all" || allowed.split(',').any(|allowed| allowed == minor)
        };
        let reach = reach(&gpus, |gpu| if may(gpu) { Verdict::Allow } else { Verdict::Deny });
        let answer = asked(&environment(&set(&[(CUDA, &value)])), &gpus, &reach);
        let buses = answer.gpus.map(|keys| {
            keys.iter().map(|key| bus(gpus.iter().find(|gpu| gpu.key == *key).unwrap())).collect()
        });
        let code = answer.cut.map_or("-".to_owned(), |cut| cut.code);
        let found = (or_words(buses), answer.confidence, code);
        assert_eq!(found, (result.clone(), confidence.clone(), cut.clone()), "{allowed} {value:?}: {source}");
    }
}

fn api<'a>(answer: &'a Asked, name: &str) -> &'a Api {
    answer.apis.iter().find(|api| api.api == name).unwrap()
}

#[test]
fn rocm_lists() {
    let gpus = node("amd-mi300");
    let reach = reach(&gpus, |gpu| if gpu.minor < Some(144) { Verdict::Allow } else { Verdict::Deny });
    for row in rows("rocm.tsv") {
        let [rocr, hip, cuda, shown, counted] = row.as_slice() else { panic!("{row:?}") };
        let variables = [("ROCR_VISIBLE_DEVICES", rocr), ("HIP_VISIBLE_DEVICES", hip), (CUDA, cuda)];
        let variables = variables.map(|(name, value)| (name, value.as_str()));
        let answer = asked(&environment(&set(&variables)), &gpus, &reach);
        let place = |key: &String| gpus.iter().position(|gpu| gpu.key == *key).unwrap().to_string();
        let places =
            |name| or_words(api(&answer, name).gpus.as_ref().map(|keys| keys.iter().map(place).collect()));
        assert_eq!((places("rocr"), places("hip")), (shown.clone(), counted.clone()), "{row:?}");
        assert_eq!(answer.gpus, api(&answer, "hip").gpus);
    }
}
