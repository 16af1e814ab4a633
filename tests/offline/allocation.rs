//! What Slurm's numbers mean: `gres.conf` texts on whole inventories, hook
//! environments, claims, and hostile text.

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::allocation::{Numbering, Of, caller_list, of_claim, of_hook};
use gpumap::gpu::inventory;
use gpumap::model::{AllocationSource, GpuKey};
use gpumap::observation::{ConfigFile, Environment, Slurm, Text, Variable};
use gpumap::observe::gpu::collect;
use gpumap::report::{Gpu, GpuSet};
use proptest::prelude::*;

const HOST: &str = "gpu1.example";

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn gpus(tree: &str) -> Vec<Gpu> {
    inventory(&collect(&fixtures("gpu").join(tree), &mut Vec::new()))
}

fn slurm(text: impl Into<Text>) -> Slurm {
    Slurm {
        gres_conf: Some(ConfigFile { path: "gres.conf".into(), text: text.into(), ..ConfigFile::default() }),
        ..Slurm::default()
    }
}

fn numbering(text: &str, gpus: &[Gpu]) -> Numbering {
    Numbering::new(&slurm(text), HOST, gpus)
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let one = |&(name, value): &(&str, &str)| Variable { name: name.into(), value: value.into(), cut: false };
    Environment { variables: pairs.iter().map(one).collect(), cut: None }
}

/// A set by minors: `0,3`, instances as `MINOR/GI/CI`, `?` if unknown, behind
/// `+?` if it may have more.
fn show(set: &GpuSet, gpus: &[Gpu]) -> String {
    let minor = |key: &str| {
        let gpu = gpus.iter().find(|gpu| gpu.key == key).unwrap();
        gpu.minor.map_or_else(|| "-".to_owned(), |minor| minor.to_string())
    };
    let Some(keys) = &set.gpus else {
        assert!(!set.why.is_empty(), "{set:?}");
        return "?".to_owned();
    };
    let instance = |name: &GpuKey| {
        let mut fields = name.rsplitn(3, '/');
        let (ci, gi, key) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        format!("{}/{gi}/{ci}", minor(key))
    };
    let whole = |key: &&GpuKey| !set.instances.iter().any(|instance| instance.is_on(key));
    let mut names: Vec<String> = keys.iter().filter(whole).map(|key| minor(key)).collect();
    names.extend(set.instances.iter().map(instance));
    let more = if set.why.is_empty() { "" } else { "+?" };
    format!("{}{more}", names.join(","))
}

/// The expectations at the top of a file: trees with their answers.
fn expectations(text: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("#tree ")?, pair[1])));
    pairs.collect()
}

#[test]
fn every_file_means_what_it_says() {
    let files: Vec<PathBuf> =
        fs::read_dir(fixtures("allocation")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "conf")).collect();
    assert!(files.len() >= 24, "{}", files.len());
    for path in files {
        let text = fs::read_to_string(path).unwrap();
        let expected = expectations(&text);
        assert!(!expected.is_empty(), "{path:?}");
        for (tree, answer) in expected {
            check(&format!("{} on {tree}", path.display()), &text, &gpus(tree), answer);
        }
    }
}

fn check(name: &str, text: &str, gpus: &[Gpu], answer: &str) {
    let numbering = numbering(text, gpus);
    if let Some(part) = answer.strip_prefix("#unknown ") {
        let why = numbering.undetermined().unwrap_or_default();
        assert!(why.contains(part) && why.starts_with("gres.conf: "), "{name}: {why}");
        assert_eq!(show(&numbering.resolve("0", gpus), gpus), "?", "{name}");
        return;
    }
    let expected: Vec<&str> = answer.strip_prefix("#means ").unwrap().split(' ').collect();
    assert_eq!(numbering.undetermined(), None, "{name}");
    for (number, expected) in expected.iter().enumerate() {
        let set = numbering.resolve(&number.to_string(), gpus);
        assert_eq!(show(&set, gpus), *expected, "{name}: {number}");
        let whole = set.why.is_empty() && set.instances.is_empty();
        let index = set.gpus.as_ref().and_then(|keys| numbering.index_of(&keys[0]));
        assert_eq!(index.map(|index| index as usize), whole.then_some(number), "{name}");
    }
    let beyond = numbering.resolve(&expected.len().to_string(), gpus);
    assert_eq!(show(&beyond, gpus), "?", "{name}");
}

/// The reference's scenarios 1, 2 and 6 on the skewed node.
#[test]
fn scenarios_of_the_skewed_node() {
    let gpus = gpus("skewed");
    let numbering = numbering("Name=gpu File=/dev/nvidia[0-3]", &gpus);
    let pci = |list: &str| {
        let keys = numbering.resolve(list, &gpus).gpus.unwrap();
        let of = |key: &GpuKey| gpus.iter().find(|gpu| gpu.key == *key).unwrap().pci.clone().unwrap();
        keys.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(pci("0"), ["0000:86:00.0"]);
    assert_eq!(pci("0,3"), ["0000:5e:00.0", "0000:86:00.0"]);
    assert_eq!(pci("1,3"), ["0000:5e:00.0", "0000:af:00.0"]);
    assert_eq!(pci("0,1"), ["0000:86:00.0", "0000:af:00.0"]);
    assert_eq!(pci("0-2"), ["0000:3b:00.0", "0000:86:00.0", "0000:af:00.0"]);
}

#[test]
fn no_file_is_no_numbering() {
    let gpus = gpus("four-h200");
    let numbering = Numbering::new(&Slurm::default(), HOST, &gpus);
    assert!(numbering.undetermined().unwrap().starts_with("no gres.conf was found: --gres-conf FILE"));
    let looked = Slurm { looked_in: vec!["/a".into(), "/b".into()], ..Slurm::default() };
    let numbering_there = Numbering::new(&looked, HOST, &gpus);
    assert!(numbering_there.undetermined().unwrap().ends_with("its directory; it was looked for in /a, /b"));
    assert_eq!(show(&numbering.resolve("0", &gpus), &gpus), "?");
    assert_eq!(numbering.resolve("0", &gpus).unknown.len(), 4);
    assert_eq!(show(&numbering.resolve("", &gpus), &gpus), "");
    let uuid = gpus[2].uuid.clone().unwrap();
    assert_eq!(show(&numbering.resolve(&uuid, &gpus), &gpus), "2");
    assert_eq!(show(&numbering.resolve(&format!("{uuid},1"), &gpus), &gpus), "2+?");
}

/// An assumption is told where the answer rests on it, and only there.
#[test]
fn the_count_of_slurm_conf_matters_where_orders_differ() {
    let assumes = |tree: &str, text: &str| numbering(text, &gpus(tree)).assumes().is_some();
    assert!(assumes("skewed", "AutoDetect=nvml"));
    assert!(!assumes("four-h200", "AutoDetect=nvml"));
    assert!(!assumes("skewed", "AutoDetect=nvidia"));
    assert!(assumes("skewed", "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0,2]"));
    assert!(!assumes("skewed", "Name=gpu File=/dev/nvidia[0-3]"));
}

#[test]
fn lists_as_slurm_writes_them() {
    let skewed = gpus("skewed");
    let by_file = numbering("Name=gpu File=/dev/nvidia[0-3]", &skewed);
    for (list, expected) in [
        (" 0 , 1", "0,1"),
        ("NoDevFiles", ""),
        ("GPU-33333333-2222-3333-4444-555555555555", "2"),
        ("gpu-3", "2"),
        ("GPU-", "?"),
        ("GPU-99999999", "?"),
        ("0,,1", "0,1+?"),
        ("0,x", "0+?"),
        ("3-1", "?"),
        ("-1", "?"),
        ("+1", "?"),
        ("0-4294967295", "2,3,0,1+?"),
        ("99999999999", "?"),
        ("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "?"),
        ("MIG-GPU-3/1/0", "2+?"),
    ] {
        assert_eq!(show(&by_file.resolve(list, &skewed), &skewed), expected, "{list}");
    }
    let mig = gpus("mig");
    let none = Numbering::new(&Slurm::default(), HOST, &mig);
    let set = none.resolve("MIG-GPU-11111111-2222-3333-4444-555555555555/2/1", &mig);
    assert_eq!(show(&set, &mig), "0/2/1");
}

#[test]
fn slurms_own_name_of_the_node_wins() {
    let gpus = gpus("skewed");
    let text = "NodeName=a Name=gpu File=/dev/nvidia0\nNodeName=gpu1 Name=gpu File=/dev/nvidia1\n";
    let named = |name| {
        let hook = Some(environment(&[("SLURMD_NODENAME", name)]));
        Numbering::new(&Slurm { hook, ..slurm(text) }, HOST, &gpus)
    };
    assert_eq!(show(&named("a").resolve("0", &gpus), &gpus), "0");
    assert_eq!(show(&named("gpu1").resolve("0", &gpus), &gpus), "1");
    assert!(named("b").undetermined().unwrap().contains("no line lists GPUs"));
}

#[test]
fn hooks() {
    let gpus = gpus("skewed");
    let by_file = numbering("Name=gpu File=/dev/nvidia[0-3]", &gpus);
    let none = Numbering::new(&Slurm::default(), HOST, &gpus);
    let uuid = "GPU-33333333-2222-3333-4444-555555555555"; // minor 2
    let case = |pairs: &[(&str, &str)], numbering: &Numbering| {
        let set = of_hook(&environment(pairs), numbering, &gpus)?;
        assert_eq!(set.source, Some(AllocationSource::Hook));
        Some(show(&set, &gpus))
    };
    let answer = |text: &str| Some(text.to_owned());
    let (context, id) = (("SLURM_SCRIPT_CONTEXT", "prolog_slurmd"), ("SLURM_JOB_ID", "7"));
    let (cuda, job) = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS");
    assert_eq!(case(&[context, id, (cuda, uuid), (job, "2")], &by_file), answer("2"));
    assert_eq!(case(&[context, id, (cuda, uuid), (job, "2")], &none), answer("2"));
    assert_eq!(case(&[context, id, (cuda, uuid), (job, "1")], &by_file), answer("?"));
    assert_eq!(case(&[context, id, (cuda, "0,3")], &by_file), answer("3,0"));
    assert_eq!(case(&[context, id, (cuda, "0,3")], &none), answer("?"));
    assert_eq!(case(&[context, id], &none), answer(""));
    assert_eq!(case(&[context, id, ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")], &by_file), answer("?"));
    assert_eq!(case(&[context, id, (job, "0"), ("SLURMD_NODENAME", "gpu2")], &by_file), answer("?"));
    assert_eq!(case(&[context, id, (job, "0"), ("SLURMD_NODENAME", "gpu1")], &by_file), answer("0"));
    assert_eq!(case(&[id, (cuda, "0")], &by_file), None);
    assert_eq!(case(&[id, (job, "1")], &by_file), answer("1"));
    assert_eq!(case(&[("SLURM_SCRIPT_CONTEXT", "prolog_slurmctld"), id], &by_file), None);
    let task = ("SLURM_SCRIPT_CONTEXT", "prolog_task");
    assert_eq!(
        case(&[task, id, (cuda, "0"), (job, "2,3"), ("SLURM_STEP_GPUS", "3")], &by_file),
        answer("3+?")
    );
    assert_eq!(case(&[task, id, (job, "2,3"), ("SLURM_JOB_NUM_NODES", "1")], &by_file), answer("2,3"));
}

#[test]
fn claims() {
    let gpus = gpus("skewed");
    let by_file = numbering("Name=gpu File=/dev/nvidia[0-3]", &gpus);
    let claim = |step, pairs: &[(&str, &str)]| {
        let set = of_claim(&environment(pairs), step, &by_file, &gpus)?;
        assert_eq!(set.source, Some(AllocationSource::Claimed));
        Some(show(&set, &gpus))
    };
    let answer = |text: &str| Some(text.to_owned());
    let (job, step, node) = (("SLURM_JOB_GPUS", "0,1"), ("SLURM_STEP_GPUS", "1"), "SLURMD_NODENAME");
    assert_eq!(claim(Of::Job, &[]), None);
    assert_eq!(claim(Of::Step, &[job]), None);
    assert_eq!(claim(Of::Job, &[job, (node, "gpu1")]), answer("0,1"));
    assert_eq!(claim(Of::Job, &[job, (node, "gpu2")]), answer("?"));
    assert_eq!(claim(Of::Step, &[step, (node, "gpu2")]), answer("?"));
    assert_eq!(claim(Of::Step, &[job, step]), answer("1"));
    assert_eq!(claim(Of::Job, &[job, step]), answer("1+?"));
    assert_eq!(claim(Of::FirstStep, &[job, ("SLURM_STEP_ID", "0"), (node, "gpu1")]), answer("0,1"));
    assert_eq!(claim(Of::FirstStep, &[step]), None);
    assert_eq!(claim(Of::Job, &[job, ("SLURM_STEP_ID", "0")]), answer("?"));
    assert_eq!(claim(Of::Job, &[job, step, ("SLURM_JOB_NUM_NODES", "1")]), answer("0,1"));
    let het = [job, step, ("SLURM_JOB_NUM_NODES", "1"), ("SLURM_HET_SIZE", "2")];
    assert_eq!(claim(Of::Job, &het), answer("1+?"));
    let cut = Environment { cut: Some("too long".into()), ..environment(&[job]) };
    assert_eq!(show(&of_claim(&cut, Of::Job, &by_file, &gpus).unwrap(), &gpus), "?");
}

#[test]
fn given_lists() {
    let skewed = gpus("skewed");
    let by_file = numbering("Name=gpu File=/dev/nvidia[0-3]", &skewed);
    for (list, expected) in [
        ("none", ""),
        ("0,3", "3,0"),
        ("/dev/nvidia3,nvidia2", "2,3"),
        ("0000:86:00.0,3B:00.0", "2,0"),
        ("GPU-4,GPU-4", "3"),
    ] {
        let set = caller_list(list, &by_file, &skewed).unwrap();
        assert_eq!(
            (show(&set, &skewed).as_str(), set.source),
            (expected, Some(AllocationSource::Given)),
            "{list}"
        );
    }
    for list in ["", "4", "0,none", "GPU-", "/dev/nvidia9", "86", "MIG-c7384736", "0,,1", "nvidiactl"] {
        let why = caller_list(list, &by_file, &skewed).unwrap_err();
        let named = list.rsplit(',').find(|entry| why.contains(&format!("`{entry}`")) || list.is_empty());
        assert!(named.is_some() && why.contains("give a UUID") || list == "GPU-", "{list}: {why}");
    }
    let amd = gpus("amd-mi300");
    let none = Numbering::new(&Slurm::default(), HOST, &amd);
    assert!(caller_list("43:00.0", &none, &amd).unwrap_err().contains("226:144, 226:145"));
    assert_eq!(show(&caller_list("226:145,renderD128", &none, &amd).unwrap(), &amd), "128,145");
}

/// Pieces of the grammar, and rubbish.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "Name=gpu ",
        "NodeName=gpu1 ",
        "NodeName=gpu[0-4294967295] ",
        "File=/dev/nvidia[0-3]",
        "AutoDetect=nvml",
        "\n",
        " ",
        "\\\n",
        "#",
        "\"",
        "[",
        "]",
        ",",
        "-",
        "=",
        "Type=h200",
        "MultipleFiles=",
        "/dev/nvidia0",
        "Count=9",
        "\\",
        "/dev/nvidia-caps/nvidia-cap12",
        "[0-99999999999999999999]",
        "é",
        "GPU-",
        "MIG-GPU-1/1/0",
        "0",
        "18446744073709551616",
    ]);
    let any = prop_oneof![4 => piece.prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    prop::collection::vec(any, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Nothing in a file or a list panics, and what is certain has no reason to
    /// be unknown.
    #[test]
    fn hostile_text_never_panics(conf in text(), list in text(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let gpus = gpus("mig");
        for conf in [Text::from(conf), Text::from(bytes)] {
            let numbering = Numbering::new(&slurm(conf), HOST, &gpus);
            let set = numbering.resolve(&list, &gpus);
            prop_assert!(set.gpus.is_some() || !set.why.is_empty());
            prop_assert!(set.unknown.is_empty() || !set.why.is_empty());
            prop_assert!(numbering.undetermined().is_none() || numbering.index_of(&gpus[0].key).is_none());
            let _ = caller_list(&list, &numbering, &gpus);
            let hook = environment(&[("SLURM_SCRIPT_CONTEXT", "prolog_slurmd"), ("SLURM_JOB_GPUS", &list)]);
            prop_assert!(of_hook(&hook, &numbering, &gpus).is_some());
        }
    }
}
