//! What people type first: it works, or the answer says what to type.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs it on a saved node with four jobs: exit code, and what it says.
fn say(words: &[&str]) -> (i32, String) {
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/slurm-jobs.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    let output = command.arg("--from").arg(node).args(words).stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// Make sure that what gpumap and others print is taken where it is asked for.
#[test]
fn spellings() {
    let job = "/system.slice/gpu01_slurmstepd.scope/job_4711";
    let pasted = format!("0::{job}");
    for words in [
        &["check", "--cgroup", job, "195:0"][..],
        &["check", "--cgroup", &pasted, "c 195:0 rw"],
        &["check", "--cgroup", "/proc/114/cgroup", "195:0 rw"],
        &["check", "--pid", "/proc/114", "nvidia0"],
        &["check", "--job", "4711", "c 195:0-0"],
    ] {
        let (code, said) = say(words);
        assert!(code == 0 && said.starts_with("allow\t"), "{words:?}: {code} {said}");
    }
    let (code, said) = say(&["check", "--job", "4711", "nvidia0-3", "c 195:0-3", "nvidia1-3", "c 195:1-3 r"]);
    let verdicts: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!((code, &verdicts[..]), (1, &["mixed", "mixed", "deny", "deny"][..]), "{said}");
    assert_eq!(say(&["pid", "/proc/114"]), say(&["pid", "114"]));
    for typed in [&pasted, "/system.slice/../system.slice/gpu01_slurmstepd.scope/./job_4711/", &job[1..]] {
        assert_eq!(say(&["cgroup", typed]), say(&["cgroup", job]), "{typed}");
    }
    let (code, said) = say(&["cgroup", "/system.slice/../.."]);
    assert!(code == 2 && said.contains("no such cgroup in the saved observation"), "{said}");
    assert_eq!(say(&["job", "4711,4712"]), say(&["job", "4711", "4712"]));
    assert_eq!(say(&["leftovers", "4711"]), say(&["leftovers", "--job", "4711"]));
    let (code, said) = say(&["job"]);
    assert!(code == 0 && ["4711", "4712", "4713", "4714"].iter().all(|id| said.contains(id)), "{said}");
}

/// Make sure that a container is found by its id or the beginning of it.
#[test]
fn containers() {
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/hami-containers.json");
    let repair = |word: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        let output = command.arg("--from").arg(&node).args(["repair", word]).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(repair("3c1d").contains("(docker 3c1d6f0b8a52)"), "{}", repair("3c1d"));
    assert!(repair("3c1").contains("no container here is called so"), "{}", repair("3c1"));
}

/// Make sure that Slurm's numbers are read by the file that is named, wherever they are
/// printed and wherever it is named.
#[test]
fn gres_conf_everywhere() {
    let gres = std::env::temp_dir().join(format!("gpumap-words-{}", std::process::id()));
    std::fs::write(&gres, "Name=gpu File=/dev/nvidia[2-3]\n").unwrap();
    let file = gres.to_str().unwrap();
    for words in [&["--gres-conf", file][..], &["node", "--gres-conf", file], &["--gres-conf", file, "job"]] {
        let (code, said) = say(words);
        assert_eq!(code, 0, "{words:?}: {said}");
    }
    let (_, by_file) = say(&["--gres-conf", file, "node", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&by_file).unwrap();
    let first = document["gpus"].as_array().unwrap().iter().find(|gpu| gpu["slurm_index"] == 0).unwrap();
    assert_eq!(first["minor"], 2, "{first}");
    for words in
        [&["export"][..], &["top", "--once"], &["audit"], &["repair"], &["report", "-o", "/dev/null"]]
    {
        let (code, said) = say(&[words, &["--gres-conf", file]].concat());
        assert!(code != 2, "{words:?}: {said}");
    }
    std::fs::remove_file(&gres).unwrap();
}

/// Make sure that repair without a name plans for whoever lost access, and that what changes
/// something takes a name.
#[test]
fn repair_of_all() {
    assert_eq!(say(&["repair"]), (0, "Nobody here is found to have lost access to a GPU.\n".to_owned()));
    for words in [&["repair", "--direct"][..], &["repair", "--allow", "c 195:0"]] {
        let (code, said) = say(words);
        assert!(code == 2 && said.contains("nobody was named"), "{words:?}: {said}");
    }
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/systemd-reload.json");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        let output = command.arg("--from").arg(&node).args(words).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let all = run(&["repair"]);
    assert!(all.contains("/system.slice/container.scope (unit container.scope)\n"), "{all}");
    assert!(all.contains("Missing: nvidia0"), "{all}");
    // Who lost access is on the first screen and on the page.
    let first = run(&[]);
    assert!(first.contains("unit container.scope") && first.contains("gpumap repair"), "{first}");
    assert!(run(&["top", "--once"]).contains("unit container.scope"));
    assert!(run(&["report", "-o", "/dev/stdout"]).contains("<bdi>unit container.scope</bdi>"));
}

/// Make sure that an answer to a wrong first line names the right one.
#[test]
fn proposals() {
    for (words, proposed) in [
        (&["gpus"][..], "'gpumap node' does that"),
        (&["proc"], "'gpumap pid' does that"),
        (&["html"], "'gpumap report' does that"),
        (&["s1.json"], "'gpumap --from s1.json'"),
        (&["4711"], "'gpumap job 4711' shows a job"),
        (&["jbo"], "'gpumap job' is near it"),
        (&["leftovers"], "'gpumap job' lists the jobs"),
        (&["double-grant"], "'gpumap audit --explain double-grant'"),
        (&["explain", "--job", "4711", "Held-By-Two"], "gpumap audit --explain held-by-two says"),
        (&["job", "alice"], "gpumap job lists those that are here"),
        (&["--allocated", "x"], "'gpumap node --allocated …'"),
        (&["pid", "python3"], "$(pgrep -d' ' python3)"),
        (&["job", "4711.7"], "job 4711 has these steps here: batch, extern"),
        (&["job", "1"], "gpumap job shows which jobs there are"),
        (&["cgroup", "job_4711"], "is /system.slice/gpu01_slurmstepd.scope/job_4711 meant?"),
        (&["check", "nvidia0"], "name whose: --job ID, --pid PID or --cgroup /PATH"),
        (&["cgroup", "node.json"], "gpumap --from node.json"),
    ] {
        let (code, said) = say(words);
        assert!(code == 2 && said.contains(proposed), "{words:?}: {code} {said}");
    }
    // What was typed does not become a proposal if it could be a command of the shell's.
    let (_, said) = say(&["pid", "$(reboot)"]);
    assert!(!said.contains("pgrep"), "{said}");
}
