//! What is answered where a part of the node cannot be seen: from other namespaces, with
//! few rights, with few descriptors. Whatever the whole view lists, a partial one lists
//! too, or says that it is incomplete.
//!
//! Needs setpriv, unshare, prlimit.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::cgroup::Tree;
use crate::support::node::{self, Sleeper};
use crate::support::scenario::programs::slurm;
use crate::support::{bpf, host, programs};

/// A user whose processes nobody else's test has.
const USER: &str = "61191";
const JOB: &str = "system.slice/slurmstepd.scope/job_7301";
const TASK: &str = "system.slice/slurmstepd.scope/job_7301/step_0/user/task_0";

/// A job with a program of Slurm's name and a process.
struct Scene {
    // It ends before its cgroup is removed.
    sleeper: Sleeper,
    top: Tree,
    _program: std::os::fd::OwnedFd,
}

impl Scene {
    fn new(root: &Path) -> Self {
        let top = Tree::new(root);
        let task = top.child(TASK);
        let rules = [(195, 0, true), (195, 1, true), (195, 2, true), (195, 3, true)];
        let program = bpf::load_bytes("Slurm_Cgroup_v2", &slurm(&rules), true, true).unwrap();
        programs::attach(&File::open(top.path().join(JOB)).unwrap(), &program, 0);
        let sleeper = Sleeper::new(&[&task]);
        Self { sleeper, top, _program: program }
    }

    /// The words of a command about this scene, after those that start it.
    fn words(&self, before: &[&str], command: &[&str]) -> Vec<String> {
        let gpumap = env!("CARGO_BIN_EXE_gpumap");
        let (gpus, root) = (node::four_gpus(), self.top.path().to_owned());
        let words = [gpumap, "--gpu-root", gpus.to_str().unwrap(), "--cgroup-root", root.to_str().unwrap()];
        before.iter().chain(&words).chain(command).map(|word| (*word).to_owned()).collect()
    }

    fn run(&self, before: &[&str], command: &[&str]) -> Output {
        run(&self.words(before, command))
    }

    /// The document, and the exit code.
    fn json(&self, before: &[&str], command: &[&str]) -> (Value, i32) {
        node::document(&self.run(before, &[&["--json"], command].concat()))
    }

    fn shell(&self, script: &str, command: &[&str]) -> (Value, i32) {
        let words = self.words(&[], &[&["--json"], command].concat());
        let script = script.replace("GPUMAP", &words.join(" "));
        node::document(&run(&["sh".to_owned(), "-c".to_owned(), script]))
    }
}

fn run(words: &[String]) -> Output {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir("/").output().expect("a program")
}

fn codes(document: &Value) -> Vec<(&str, &str)> {
    let errors = document["errors"].as_array().unwrap().iter();
    errors.map(|error| (error["code"].as_str().unwrap(), error["what"].as_str().unwrap())).collect()
}

/// Make sure that processes outside of gpumap's pid namespace are counted, and that what
/// they hold and ask for is unknown and not nothing.
#[test]
fn another_pid_namespace() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let inside = ["unshare", "-p", "-f", "--mount-proc"];
    let (whole, code) = scene.json(&[], &["job", "7301"]);
    assert_eq!((code, whole["owners"][0]["processes"].as_u64()), (0, Some(1)), "{whole}");
    assert!(!whole.to_string().contains("\"unseen\""), "{whole}");
    for command in [&["job", "7301"][..], &["node"], &["cgroup", "/", "-r"]] {
        let (part, code) = scene.json(&inside, command);
        assert_eq!((code, part["complete"].as_bool()), (3, Some(false)), "{command:?}: {part}");
        assert!(codes(&part).contains(&("partial-view", "processes")), "{command:?}: {part}");
        let cgroups = part["cgroups"].as_array().unwrap();
        let unseen: Vec<&Value> = cgroups.iter().map(|cgroup| &cgroup["unseen"]["count"]).collect();
        assert_eq!(unseen.iter().filter_map(|count| count.as_u64()).sum::<u64>(), 1, "{command:?}: {part}");
    }
    let (part, _) = scene.json(&inside, &["job", "7301"]);
    let owner = &part["owners"][0];
    assert_eq!(
        (owner["processes"].as_u64(), owner["unseen"]["count"].as_u64()),
        (Some(0), Some(1)),
        "{part}"
    );
    for set in ["held", "visible"] {
        let unknown = owner[set]["unknown"].as_array().map_or(0, Vec::len);
        assert!(owner[set]["gpus"].is_null() || unknown == 4, "{set}: {owner}");
    }
    let text = scene.run(&inside, &["job", "7301"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Processes: none that can be seen"), "{text}");
    let left = scene.run(&inside, &["leftovers", "--job", "7301"]);
    assert_eq!(left.status.code(), Some(3), "{left:?}");
}

/// Make sure that a watch in a pid namespace of its own says which processes it does not
/// see, and takes none of them for one of its own.
#[test]
fn watch_in_another_pid_namespace() {
    let Some(root) = host::exclusive() else { return };
    let scene = Scene::new(&root);
    let task = scene.top.path().join(TASK);
    let watch = ["watch", "--for", "1s", "--cgroup", task.to_str().unwrap()];
    let not_seen = |before: &[&str]| {
        let output = scene.run(before, &[&["--json"], &watch[..]].concat());
        let lines: Vec<Value> = output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let start = lines.iter().find(|event| event["event"] == "start");
        let said = start.unwrap_or_else(|| panic!("{output:?}"))["not_seen"].to_string();
        let pids: BTreeSet<u64> = lines.iter().filter_map(|event| event["process"]["pid"].as_u64()).collect();
        (said.contains("in a pid namespace of its own"), pids)
    };
    assert!(!not_seen(&[]).0);
    let (is_told, pids) = not_seen(&["unshare", "-p", "-f", "--mount-proc"]);
    assert!(is_told && pids.is_empty(), "{pids:?}");
}

/// Make sure that with the node's `/proc` processes are found by their own cgroups, and
/// that no number of one namespace is taken for a process of another.
#[test]
fn the_nodes_proc_from_another_pid_namespace() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let place = std::env::temp_dir().join(format!("gpumap-proc-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let script = format!(
        "exec unshare -p -f -m sh -c 'mount --rbind /proc {0} && mount -t proc proc /proc && exec GPUMAP --proc {0}'",
        place.display()
    );
    let (node, _) = scene.shell(&script, &["node"]);
    let (job, code) = scene.shell(&script, &["job", "7301"]);
    std::fs::remove_dir(place).unwrap();
    let pids = |document: &Value| -> Vec<u64> {
        let cgroups = document["cgroups"].as_array().unwrap().iter();
        let processes = cgroups.flat_map(|cgroup| cgroup["processes"].as_array().unwrap());
        processes.map(|process| process["pid"].as_u64().unwrap()).collect()
    };
    assert_eq!(pids(&node), [u64::from(scene.sleeper.pid())], "{node}");
    assert!(node["owners"][0].get("unseen").is_none(), "{node}");
    assert!(pids(&job).is_empty() && code == 3, "{job}");
    assert_eq!(job["owners"][0]["unseen"]["count"].as_u64(), Some(1), "{job}");
}

/// Make sure that a process that `hidepid` hides is counted, and the option named.
#[test]
fn hidden_processes() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let script = format!(
        "exec unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid {USER} --regid {USER} --clear-groups GPUMAP'"
    );
    for command in [&["job", "7301"][..], &["node"]] {
        let (part, code) = scene.shell(&script, command);
        assert_eq!((code, part["complete"].as_bool()), (3, Some(false)), "{part}");
        assert_eq!(part["owners"][0]["unseen"]["count"].as_u64(), Some(1), "{part}");
        assert!(part["errors"].to_string().contains("hidepid"), "{part}");
    }
}

/// Make sure that a part of the hierarchy is not taken for the node, and that cgroup2 that
/// is in use and not mounted leaves device programs unknown.
#[test]
fn other_cgroup_views() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let own = scene.top.child("own");
    let mount = root.display();
    let begin = format!("echo $$ >{}/cgroup.procs && exec ", own.display());
    let gpumap = env!("CARGO_BIN_EXE_gpumap");
    let shell = |script: String| {
        node::document(&run(&["sh".to_owned(), "-c".to_owned(), format!("{begin}{script}")]))
    };
    let (part, code) = shell(format!(
        "unshare -C -m sh -c 'umount {mount} && mount -t cgroup2 none {mount} && exec {gpumap} --json node'"
    ));
    assert_eq!(code, 3, "{part}");
    assert!(codes(&part).contains(&("partial-view", "cgroups")), "{part}");
    let has_v1 = std::fs::read_to_string("/proc/self/mounts").unwrap().contains("devices");
    if !has_v1 {
        return host::skip("no v1 devices controller is mounted");
    }
    let (part, code) = shell(format!("unshare -m sh -c 'umount -l {mount} && exec {gpumap} --json node'"));
    assert_eq!((code, part["host"]["cgroup_mode"].as_str()), (3, Some("legacy")), "{part}");
    assert!(codes(&part).contains(&("partial-view", "device programs")), "{part}");
    let cgroups = part["cgroups"].as_array().unwrap();
    assert!(cgroups.iter().all(|cgroup| cgroup["programs_unknown"].is_string()), "{part}");
}

/// Everything that a document names: its keys with words and numbers that do not change
/// from one look to the next.
fn listed(document: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let of = |list: &Value| list.as_array().cloned().unwrap_or_default();
    for cgroup in of(&document["cgroups"]) {
        all.insert(format!("cgroup {}", cgroup["path"]));
        all.extend(of(&cgroup["programs"]).iter().map(|program| format!("program {}", program["id"])));
        let processes = of(&cgroup["processes"]);
        all.extend(processes.iter().map(|process| format!("process {}", process["pid"])));
    }
    all.extend(of(&document["owners"]).iter().map(|owner| format!("owner {}", owner["cgroup"])));
    all.extend(of(&document["gpus"]).iter().map(|gpu| format!("gpu {}", gpu["key"])));
    all.extend(of(&document["findings"]).iter().map(|finding| format!("finding {}", finding["id"])));
    all
}

/// Make sure that whoever may see less lists all the same, or says that it is incomplete:
/// an ordinary user, and one with each capability alone.
#[test]
fn fewer_rights() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"];
    let capabilities =
        ["sys_admin", "sys_ptrace", "dac_read_search", "net_admin", "bpf", "perfmon", "syslog"];
    let with = |name: &str| {
        vec!["--inh-caps".to_owned(), format!("+{name}"), "--ambient-caps".to_owned(), format!("+{name}")]
    };
    let rights = std::iter::once(Vec::new()).chain(capabilities.map(with));
    let commands: [&[&str]; 6] = [
        &["node"],
        &["job", "7301"],
        &["cgroup", "/", "-r"],
        &["cgroup", "/system.slice/slurmstepd.scope/job_7301"],
        &["audit"],
        &["leftovers", "--job", "7301"],
    ];
    let whole: Vec<Value> = commands.iter().map(|command| scene.json(&[], command).0).collect();
    for rights in rights {
        let before: Vec<&str> = user.iter().copied().chain(rights.iter().map(String::as_str)).collect();
        for (command, whole) in commands.iter().zip(&whole) {
            let (part, _) = scene.json(&before, command);
            let lost: Vec<String> = listed(whole).difference(&listed(&part)).cloned().collect();
            assert!(
                lost.is_empty() || part["complete"] == false,
                "{rights:?} {command:?} lost {lost:?}: {part}"
            );
        }
        let (repair, code) = scene.json(&before, &["repair", "--job", "7301"]);
        let text = repair["repair"]["refusals"].to_string();
        let is_right = repair["repair"]["state"] == "nothing-missing" || text.contains("not known");
        assert!(is_right && !text.contains("no program of Slurm's is attached"), "{rights:?}: {repair}");
        assert!(matches!(code, 0 | 3), "{rights:?}: {repair}");
    }
    let (repair, code) = scene.json(&[], &["repair", "--job", "7301"]);
    assert_eq!((code, repair["repair"]["state"].as_str()), (0, Some("nothing-missing")), "{repair}");
}

/// Make sure that a look that runs out of descriptors anywhere fails or says so.
#[test]
fn few_descriptors() {
    let Some(root) = host::shared() else { return };
    let scene = Scene::new(&root);
    let commands: [&[&str]; 4] =
        [&["node"], &["job", "7301"], &["audit"], &["cgroup", "/system.slice/slurmstepd.scope/job_7301"]];
    for command in commands {
        let whole = listed(&scene.json(&[], command).0);
        for limit in 4..24 {
            let limit = format!("--nofile={limit}:{limit}");
            let output = scene.run(&["prlimit", &limit], &[&["--json"], command].concat());
            let Ok(part) = serde_json::from_slice::<Value>(&output.stdout) else {
                assert!(!output.status.success(), "{limit} {command:?}: {output:?}");
                continue;
            };
            let lost: Vec<String> = whole.difference(&listed(&part)).cloned().collect();
            assert!(
                lost.is_empty() || part["complete"] == false,
                "{limit} {command:?} lost {lost:?}: {part}"
            );
        }
    }
}

/// Make sure that an error says of the node nothing that nobody looked for, and that a
/// root of the inventory that is not there is no node without GPUs.
#[test]
fn nothing_was_looked_for() {
    let Some(_root) = host::shared() else { return };
    let (document, code) = node::json(&["jbo"]);
    assert_eq!((code, document["host"]["cgroup_mode"].as_str()), (2, Some("unknown")), "{document}");
    let nowhere = PathBuf::from("/nonexistent/gpumap");
    let (document, code) = node::json(&["--gpu-root", nowhere.to_str().unwrap(), "node"]);
    assert!(code == 2 && document["complete"] == false, "{document}");
}
