//! What lists of visible devices mean: tables in `fixtures/visible`, laws, and
//! hostile values.

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::gpu::inventory;
use gpumap::model::{Certainty, ValueState};
use gpumap::model::{GpuKey, Verdict};
use gpumap::observation::{Answer, Environment, Text, Variable};
use gpumap::observe::gpu::collect;
use gpumap::report::{Api, Asked, Gpu};
use gpumap::visible::{GpuAccess, OpenableGpus, SharedAccess, asked};
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

fn reach(gpus: &[Gpu], verdict: impl Fn(&Gpu) -> Verdict) -> OpenableGpus {
    let access =
        |gpu: &Gpu| GpuAccess { verdict: verdict(gpu), instances: vec![verdict(gpu); gpu.mig.len()] };
    let shared = ["nvidiactl", "nvidia-uvm", "kfd"].map(|role| SharedAccess {
        role: role.into(),
        needed: true,
        verdict: Verdict::Allow,
    });
    OpenableGpus { gpus: gpus.iter().map(access).collect(), shared: shared.into() }
}

fn open(gpus: &[Gpu]) -> OpenableGpus {
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

fn cuda(gpus: &[Gpu], reach: &OpenableGpus, value: &str) -> Asked {
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
        let code = answer.cut.map_or("-".to_owned(), |cut| cut.code.to_string());
        let found = (or_words(buses), answer.confidence.to_string(), code);
        assert_eq!(found, (result.clone(), confidence.clone(), cut.clone()), "{allowed} {value:?}: {source}");
    }
}

fn api<'a>(answer: &'a Asked, name: &str) -> &'a Api {
    answer.apis.iter().find(|api| api.api == name.into()).unwrap()
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
        let place = |key: &GpuKey| gpus.iter().position(|gpu| gpu.key == *key).unwrap().to_string();
        let places =
            |name| or_words(api(&answer, name).gpus.as_ref().map(|keys| keys.iter().map(place).collect()));
        assert_eq!((places("rocr"), places("hip")), (shown.clone(), counted.clone()), "{row:?}");
        assert_eq!(answer.gpus, api(&answer, "hip").gpus);
    }
}

/// Make sure that a number that HIP does not find is explained by what ROCR leaves.
#[test]
fn hip_counts_what_rocr_leaves() {
    let gpus = node("amd-mi300");
    for (rocr, expected) in [
        ("1", "ordinal 1: ROCR_VISIBLE_DEVICES leaves 1 GPU, and this list counts within it"),
        ("1,0", "ordinal 2: ROCR_VISIBLE_DEVICES leaves 2 GPUs, and this list counts within them"),
    ] {
        let hip = rocr.split(',').count().to_string();
        let variables = set(&[("ROCR_VISIBLE_DEVICES", rocr), ("HIP_VISIBLE_DEVICES", &hip)]);
        let answer = asked(&environment(&variables), &gpus, &open(&gpus));
        let cut = api(&answer, "hip").cut.as_ref().expect("the list ends");
        assert_eq!(cut.why, expected);
    }
}

#[test]
fn an_environment_that_was_not_read() {
    let gpus = node("skewed");
    let missing = asked(&Answer::Missing("gone".to_owned()), &gpus, &open(&gpus));
    assert_eq!((missing.state, missing.confidence), (ValueState::Unknown, Certainty::Unknown));
    assert_eq!((missing.gpus, missing.why.as_deref()), (None, Some("gone")));
    let cut = |variables| Answer::Known(Environment { variables, cut: Some("too large".to_owned()) });
    assert_eq!(asked(&cut(Vec::new()), &gpus, &open(&gpus)).state, ValueState::Unknown);
    let variable = |value: &str, cut| Variable { name: CUDA.to_owned(), value: value.into(), cut };
    let first = asked(&cut(vec![variable("-1", false)]), &gpus, &open(&gpus));
    assert_eq!((first.state, first.gpus), (ValueState::Value, Some(Vec::new())));
    let of = |value: &str| {
        let environment = Environment { variables: vec![variable(value, true)], cut: None };
        asked(&Answer::Known(environment), &gpus, &open(&gpus)).gpus.map(|gpus| gpus.len())
    };
    assert_eq!(
        ["0,1", "0,-1,1", "9,1", "1,9,", "", "0,0,"].map(of),
        [None, Some(1), Some(0), None, None, Some(0)]
    );
}

#[test]
fn getenv_takes_the_first() {
    let gpus = node("skewed");
    let answer = asked(&environment(&[(CUDA, "1"), (CUDA, "0")]), &gpus, &open(&gpus));
    assert_eq!((answer.raw.as_deref(), answer.gpus), (Some("1"), Some(vec![gpus[1].key.clone()])));
    assert_eq!(answer.variables.len(), 1);
}

#[test]
fn unknown_verdicts() {
    let gpus = node("skewed");
    let reach = reach(&gpus, |gpu| if gpu.minor == Some(3) { Verdict::Unknown } else { Verdict::Allow });
    let of = |value: &str| cuda(&gpus, &reach, value).gpus;
    assert_eq!(of("1"), None);
    assert_eq!(of("-1"), Some(Vec::new()));
    assert_eq!(of(""), Some(Vec::new()));
    assert_eq!(of("7"), Some(Vec::new()));
    assert_eq!(of("0"), Some(vec![gpus[0].key.clone()]));
    assert_eq!(of(gpus[2].uuid.as_deref().unwrap()), Some(vec![gpus[2].key.clone()]));
    assert_eq!(of(gpus[1].uuid.as_deref().unwrap()), None);
    let answer = asked(&environment::<&str>(&[]), &gpus, &reach);
    assert!(answer.gpus.is_none() && answer.why.unwrap().contains(gpus[1].key.as_str()));
}

#[test]
fn shared_nodes_decide_first() {
    let gpus = node("skewed");
    let mut reach = open(&gpus);
    reach.shared[1].verdict = Verdict::Deny;
    let answer = cuda(&gpus, &reach, "0");
    assert_eq!((answer.gpus, answer.cut), (Some(Vec::new()), None));
    assert!(answer.why.unwrap().contains("nvidia-uvm"));
    reach.shared[1].verdict = Verdict::Unknown;
    assert_eq!(cuda(&gpus, &reach, "0").gpus, None);
    assert_eq!(cuda(&gpus, &reach, "-1").gpus, Some(Vec::new()));
}

#[test]
fn the_order_of_different_models() {
    let mut gpus = node("skewed");
    gpus[0].model = Some("NVIDIA L40S".to_owned());
    let of = |value: &str, order: &str| {
        let answer = asked(&environment(&[(CUDA, value), ("CUDA_DEVICE_ORDER", order)]), &gpus, &open(&gpus));
        (answer.gpus.map(|gpus| gpus.len()), answer.confidence.to_string())
    };
    let texts = |(count, confidence): (Option<usize>, &str)| (count, confidence.to_owned());
    assert_eq!(of("0", "FASTEST_FIRST"), texts((None, "unknown")));
    assert_eq!(of("0", "pci_bus_id"), texts((None, "unknown")));
    assert_eq!(of("0", "PCI_BUS_ID"), texts((Some(1), "documented")));
    assert_eq!(of("3,2,1,0", ""), texts((Some(4), "documented")));
    let unset = asked(&environment::<&str>(&[]), &gpus, &open(&gpus));
    assert_eq!(unset.gpus.unwrap().len(), 4);
    assert!(unset.why.unwrap().starts_with("order unknown"));
}

#[test]
fn uuids_are_unique_where() {
    let gpus = node("skewed");
    let reach = reach(&gpus, |gpu| if gpu.minor < Some(2) { Verdict::Allow } else { Verdict::Deny });
    let mut alike = gpus.clone();
    alike[0].uuid = Some("GPU-11111111-0000-0000-0000-000000000000".to_owned());
    let answer = cuda(&alike, &reach, "GPU-1111");
    assert_eq!((answer.gpus, answer.confidence), (None, Certainty::Unknown));
    assert_eq!(cuda(&alike, &reach, "GPU-11111111-2").gpus.unwrap().len(), 1);
    let excluded = node("excluded");
    let name = excluded.iter().find(|gpu| gpu.excluded).unwrap().uuid.clone().unwrap();
    let answer = cuda(&excluded, &open(&excluded), &name);
    assert_eq!((answer.gpus, answer.cut.unwrap().code), (Some(Vec::new()), "excluded".into()));
    assert_eq!(cuda(&excluded, &open(&excluded), "2").cut.unwrap().code, "out-of-range".into());
}

/// The MIG node: one GPU with three instances, one with none.
#[test]
fn mig() {
    let gpus = node("mig");
    let key = gpus[0].key.as_str();
    let of = |value: &str, instances: [Verdict; 3]| {
        let mut reach = open(&gpus);
        reach.gpus[0].instances = instances.into();
        let answer = cuda(&gpus, &reach, value);
        let code = answer.cut.map_or(String::new(), |cut| cut.code.to_string());
        (answer.gpus.map(|gpus| gpus.len()), answer.instances.join(" "), code)
    };
    let texts = |gpus, instances: &str, code: &str| (gpus, instances.to_owned(), code.to_owned());
    let (all, one) = ([Verdict::Allow; 3], [Verdict::Deny, Verdict::Allow, Verdict::Deny]);
    let named = |name: &str| format!("MIG-{key}/{name}");
    let second = format!("{key}/2/0");
    assert_eq!(of(&named("2/0"), all), texts(Some(1), &second, ""));
    assert_eq!(of("MIG-GPU-1/2/0", all), texts(Some(1), &second, ""));
    assert_eq!(
        of(&format!("{},{}", named("2/0"), named("1/0")), all),
        texts(Some(1), &second, "one-instance")
    );
    assert_eq!(of(&format!("{},{}", named("2/0"), named("2/0")), all), texts(Some(0), "", "duplicate"));
    assert_eq!(of(&named("9/0"), all), texts(Some(0), "", "no-such-gpu"));
    assert_eq!(of(&named("1/0"), one), texts(Some(0), "", "not-allowed"));
    assert_eq!(of("MIG-11111111-2222-3333-4444-555555555555", all), texts(None, "", ""));
    assert_eq!(
        of("MIG-11111111-2222-3333-4444-555555555555", [Verdict::Deny; 3]),
        texts(Some(0), "", "not-allowed")
    );
    assert_eq!(of("0", one), texts(Some(1), &second, ""));
    assert_eq!(of("0", all), texts(None, "", ""));
    assert_eq!(of(key, one), texts(Some(1), &second, ""));
    assert_eq!(of("0", [Verdict::Unknown; 3]), texts(None, "", ""));
    assert_eq!(of("0", [Verdict::Deny; 3]), texts(Some(0), "", ""));
}

#[test]
fn intel() {
    let gpus = node("intel");
    let of = |variables: &[(&str, &str)]| {
        let answer = asked(&environment(variables), &gpus, &open(&gpus));
        assert_eq!(answer.apis.len(), 1);
        answer.gpus.map(|gpus| gpus.len())
    };
    let (mask, order) = ("ZE_AFFINITY_MASK", ("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"));
    let composite = ("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE");
    assert_eq!(of(&[]), Some(2));
    assert_eq!(of(&[(mask, "0")]), None);
    assert_eq!(of(&[(mask, "0"), order]), Some(1));
    assert_eq!(of(&[(mask, "1"), order]), None);
    assert_eq!(of(&[(mask, "1"), order, composite]), Some(1));
    assert_eq!(of(&[(mask, "1,0"), composite]), Some(2));
    // Intel's driver takes it for none.
    assert_eq!(of(&[(mask, "")]), Some(2));
}

/// The GPUs by the last digits of their buses, with their tiles where not all of one is
/// asked for; `?` where that is not known.
fn tiles(variables: &[(&str, &str)], gpus: &[Gpu]) -> String {
    let order = ("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1");
    let variables: Vec<_> = std::iter::once(order).chain(variables.iter().copied()).collect();
    let answer = asked(&environment(&variables), gpus, &open(gpus));
    let Some(keys) = &answer.gpus else {
        assert!(answer.why.is_some() && answer.tiles.is_empty(), "{answer:?}");
        return "?".to_owned();
    };
    let parts = |key: &GpuKey| {
        let tiles = answer.tiles.iter().filter_map(|tile| tile.strip_prefix(key.as_str()));
        format!("{}{}", &key[5..7], tiles.collect::<String>().replace('/', "."))
    };
    keys.iter().map(parts).collect::<Vec<_>>().join(" ")
}

/// Make sure that a mask counts tiles or GPUs as ZE_FLAT_DEVICE_HIERARCHY says, and that what
/// hangs on an unknown number of tiles is unknown.
#[test]
fn tiles_of_intel() {
    let all = node("intel-tiles");
    let counts: Vec<Option<u32>> = all.iter().map(|gpu| gpu.tiles).collect();
    assert_eq!(counts, [None, Some(2), Some(2), Some(1), Some(2), Some(1)]);
    let gpus = &all[1..5];
    let (mask, hierarchy) = ("ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY");
    let cases = [
        // FLAT: 18.0 18.1 2a.0 2a.1 3a 9a.0 9a.1
        ("0", "18", "18.0", "18.0"),
        ("1", "2a", "18.1", "18.1"),
        ("4", "", "3a", "3a"),
        ("3,0,3", "18 9a", "18.0 2a.1", "18.0 2a.1"),
        ("0,1", "18 2a", "18", "18"),
        ("6", "", "9a.1", "9a.1"),
        ("7", "", "", ""),
        ("0.1", "18.1", "", "?"),
        ("0.0,1.1", "18.0 2a.1", "", "?"),
        ("0.0,0.1", "18", "", "?"),
        ("0.2", "", "", ""),
        ("2.0", "3a", "", "?"),
        ("2.0,3", "3a 9a", "2a.1", "?"),
        ("0.1,0", "18", "18.0", "?"),
        ("0.1.2", "?", "?", "?"),
        ("01", "?", "?", "?"),
        (" 0", "?", "?", "?"),
        ("0,", "?", "?", "?"),
        ("x", "?", "?", "?"),
        ("-1", "?", "?", "?"),
        ("99999999999", "?", "?", "?"),
        ("4294967295", "", "", ""),
    ];
    for (value, composite, flat, neither) in cases {
        let of = |hierarchies: &[&str]| {
            let set = hierarchies.iter().map(|value| (hierarchy, *value));
            tiles(&set.chain([(mask, value)]).collect::<Vec<_>>(), gpus)
        };
        assert_eq!(of(&["COMPOSITE"]), composite, "{value}");
        assert_eq!((of(&["FLAT"]).as_str(), of(&["COMBINED"]).as_str()), (flat, flat), "{value}");
        for other in [&[][..], &["flat"], &[""]] {
            assert_eq!(of(other), neither, "{value}");
        }
    }
    // The first GPU has an unknown number of tiles: what comes after its first one is unknown.
    let flat = (hierarchy, "FLAT");
    assert_eq!(tiles(&[(mask, "0"), flat], &all), "00.0");
    assert_eq!(tiles(&[(mask, "1"), flat], &all), "?");
    assert_eq!(tiles(&[(mask, "1"), (hierarchy, "COMPOSITE")], &all), "18");
    assert_eq!(tiles(&[(mask, "0.1"), (hierarchy, "COMPOSITE")], &all), "?");
    // Where each GPU has one, nothing hangs on the hierarchy.
    let single = [all[3].clone(), all[5].clone()];
    let answer =
        asked(&environment(&[(mask, "1"), ("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1")]), &single, &open(&single));
    assert_eq!((answer.confidence, answer.why.as_deref()), (Certainty::Documented, None));
    assert_eq!(answer.gpus.unwrap(), [all[5].key.clone()]);
}

/// Make sure that an order that is not known makes an answer unknown only where it matters.
#[test]
fn tiles_without_order() {
    let all = node("intel-tiles");
    let of = |value: &str, hierarchy: &str, gpus: &[Gpu]| {
        let variables = [("ZE_AFFINITY_MASK", value), ("ZE_FLAT_DEVICE_HIERARCHY", hierarchy)];
        let answer = asked(&environment(&variables), gpus, &open(gpus));
        answer.gpus.map(|gpus| (gpus.len(), answer.tiles.len()))
    };
    assert_eq!(of("0", "COMPOSITE", &all[1..3]), None);
    assert_eq!(of("0.1", "COMPOSITE", &all[1..3]), None);
    assert_eq!(of("0.1,1.1", "COMPOSITE", &all[1..3]), Some((2, 2)));
    assert_eq!(of("0,2", "FLAT", &all[1..3]), Some((2, 2)));
    assert_eq!(of("0,2", "FLAT", &all[1..4]), None);
    assert_eq!(of("0,1,2,3", "FLAT", &all[1..3]), Some((2, 0)));
    assert_eq!(of("1", "FLAT", &all[1..2]), Some((1, 1)));
    assert_eq!(of("9", "FLAT", &all[1..3]), Some((0, 0)));
}

#[test]
fn nodes_without_gpus_and_other_variables() {
    let answer =
        asked(&environment(&[(CUDA, "0"), ("TPU_VISIBLE_CHIPS", "1")]), &[], &OpenableGpus::default());
    assert_eq!((answer.raw.as_deref(), answer.gpus), (Some("0"), Some(Vec::new())));
    assert!(answer.apis.is_empty());
    assert_eq!(
        answer.variables.iter().map(|variable| variable.name.as_str()).collect::<Vec<_>>(),
        [CUDA, "TPU_VISIBLE_CHIPS"]
    );
}

#[test]
fn opencl_is_an_interface_where_it_is_set() {
    let gpus = node("amd-mi300");
    let answer = asked(&environment(&[("GPU_DEVICE_ORDINAL", "0")]), &gpus, &open(&gpus));
    assert_eq!(
        answer.apis.iter().map(|api| api.api.to_string()).collect::<Vec<_>>(),
        ["hip", "rocr", "opencl"]
    );
    assert_eq!(api(&answer, "opencl").gpus.as_deref(), Some(&[gpus[0].key.clone()][..]));
}

#[test]
fn large_values() {
    let gpus = node("skewed");
    for (value, count) in [("0,".repeat(1 << 20), 0), ("x".repeat(2 << 20), 0), ("9".repeat(2 << 20), 0)] {
        let answer = cuda(&gpus, &open(&gpus), &value);
        assert_eq!(answer.gpus.unwrap().len(), count);
        assert!(answer.cut.unwrap().entry.len() < 400);
    }
    let far = format!("0,9,{}", (10..200_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert_eq!(cuda(&gpus, &open(&gpus), &far).gpus.unwrap().len(), 1);
}

#[test]
fn values_that_are_not_utf8() {
    let gpus = node("skewed");
    let answer = asked(&environment(&[(CUDA, vec![b'0', 0xff])]), &gpus, &open(&gpus));
    assert_eq!((answer.raw_hex.as_deref(), answer.raw.as_deref()), (Some("30ff"), Some("0\u{fffd}")));
    assert_eq!(answer.variables[0].value_hex.as_deref(), Some("30ff"));
}

/// Entries that get far.
fn entry() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "3",
        "4",
        "01",
        "+1",
        "-1",
        "-0",
        "0x1",
        "1gpu",
        " 2",
        "",
        "GPU-",
        "GPU-1",
        "gpu-1",
        "GPU-11111111-2222-3333-4444-555555555555",
        "GPU-3",
        "MIG-GPU-1/1/0",
        "MIG-GPU-1/2/0",
        "MIG-1",
        "all",
        "0.0",
        "GPU-0",
        "GPU-fedc",
        "\n",
        "0\n",
        "99999999999999999999",
        "-9223372036854775808",
    ]);
    prop_oneof![5 => known.prop_map(str::to_owned), 1 => "\\PC{0,5}"]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let list = prop::collection::vec(entry(), 0..6).prop_map(|entries| entries.join(",").into_bytes());
    prop_oneof![4 => list, 1 => prop::collection::vec(any::<u8>(), 0..12)]
}

fn verdicts() -> impl Strategy<Value = Vec<Verdict>> {
    let verdict = prop::sample::select(vec![Verdict::Allow, Verdict::Allow, Verdict::Deny, Verdict::Unknown]);
    prop::collection::vec(verdict, 0..16)
}

proptest! {
    /// No value makes it panic or shows a GPU that may not be opened; the
    /// parts of an answer fit together; and what is known does not change
    /// when an unknown verdict turns out one way or the other.
    #[test]
    fn any_value(
        name in prop::sample::select(vec!["skewed", "mig", "amd-mi300", "intel", "intel-tiles", "mixed", "no-uuid", "lost-gpu"]),
        values in prop::collection::vec(prop::option::weighted(0.4, value()), 8),
        verdicts in verdicts(),
        cut in any::<bool>(),
    ) {
        let gpus = node(name);
        let names = [CUDA, "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
            "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY", "ZE_ENABLE_PCI_ID_DEVICE_ORDER"];
        let set = names.iter().zip(&values).filter_map(|(name, value)| Some((name, value.clone()?)));
        let variables = set.map(|(name, value)| Variable { name: (*name).to_owned(), value: value.into(), cut });
        let environment = Answer::Known(Environment { variables: variables.collect(), cut: None });
        let next = |at: usize| verdicts.get(at).copied().unwrap_or(Verdict::Allow);
        let mut reach = open(&gpus);
        let mut at = 0;
        for access in &mut reach.gpus {
            for verdict in std::iter::once(&mut access.verdict).chain(&mut access.instances) {
                *verdict = next(at);
                at += 1;
            }
        }
        let answer = asked(&environment, &gpus, &reach);
        prop_assert_eq!(answer.gpus.is_none(), answer.confidence == Certainty::Unknown);
        prop_assert!(answer.gpus.is_some() || answer.why.is_some());
        for key in answer.gpus.iter().flatten() {
            let place = gpus.iter().position(|gpu| gpu.key == *key).unwrap();
            prop_assert_eq!(reach.gpus[place].verdict, Verdict::Allow);
        }
        for decided in [Verdict::Allow, Verdict::Deny] {
            let mut other = reach.clone();
            for access in &mut other.gpus {
                for verdict in std::iter::once(&mut access.verdict).chain(&mut access.instances) {
                    *verdict = if *verdict == Verdict::Unknown { decided } else { *verdict };
                }
            }
            if answer.gpus.is_some() {
                prop_assert_eq!(&answer.gpus, &asked(&environment, &gpus, &other).gpus);
            }
        }
    }

    /// Behind an entry that is certainly invalid nothing matters.
    #[test]
    fn nothing_behind_a_cut_matters(head in "[0-3]?", tail in value()) {
        let gpus = node("skewed");
        let list = |text: &[u8]| [head.as_bytes(), b",-1", text].concat();
        let of = |value: Vec<u8>| asked(&environment(&[(CUDA, value)]), &gpus, &open(&gpus));
        let (short, long) = (of(list(b"")), of([list(b","), tail].concat()));
        prop_assert_eq!((short.gpus, short.cut), (long.gpus, long.cut));
    }

    /// Distinct UUIDs give exactly these GPUs in this order; so do ordinals of
    /// equal models; unset gives all.
    #[test]
    fn lists_are_obeyed(
        order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(),
        length in 1_usize..=4,
        allowed in prop::collection::vec(any::<bool>(), 4),
    ) {
        let gpus = node("skewed");
        let reach = reach(&gpus, |gpu| if allowed[gpu.nvml_index.unwrap() as usize] { Verdict::Allow } else { Verdict::Deny });
        let inside: Vec<&Gpu> = gpus.iter().zip(&allowed).filter(|(_, allowed)| **allowed).map(|(gpu, _)| gpu).collect();
        let places: Vec<usize> = order.into_iter().filter(|place| *place < inside.len()).take(length).collect();
        let keys: Vec<GpuKey> = places.iter().map(|place| inside[*place].key.clone()).collect();
        let ordinals = places.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(cuda(&gpus, &reach, &keys.join(",")).gpus, Some(keys.clone()));
        prop_assert_eq!(cuda(&gpus, &reach, &ordinals).gpus, Some(keys));
        let all = asked(&environment::<&str>(&[]), &gpus, &reach).gpus;
        prop_assert_eq!(all, Some(inside.iter().map(|gpu| gpu.key.clone()).collect()));
    }
}
