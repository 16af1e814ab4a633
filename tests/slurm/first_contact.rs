//! Types what somebody types who does not know gpumap yet: paths from where they
//! are, names as other tools print them, wrong directories, no rights. No answer
//! may be about something else than what was asked.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::bpf::MULTI;
use crate::support::cgroup::{self, Cgroup};
use crate::support::host;
use crate::support::node::{self, Sleeper, relative};
use crate::support::slurm::answer::{Minors, array};
use crate::support::slurm::job::{STEP_FILES, STEPS, WAIT};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{self, Cluster, with_cluster};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs gpumap in a working directory.
fn at(dir: &Path, args: &[&str]) -> Output {
    node::command(args).current_dir(dir).output().expect("the built program")
}

/// Make sure that a relative path in a cgroup's directory means what is there,
/// and never the root.
#[test]
fn relative_paths() {
    let Some(_host) = host::shared() else { return };
    let levels = Cgroup::chain(2).expect("scratch cgroups");
    node::attach_deny(&levels[1], 195, 3, MULTI);
    let (top, below) = (levels[0].path(), levels[1].path());
    let name = below.file_name().and_then(|name| name.to_str()).expect("a name");
    for (dir, path) in [
        (below, "."),
        (below, "./"),
        (top, name),
        (top, "./below"),
        (below, "../below"),
        (below, "../../../sys/../../../../sys"),
    ] {
        let output = at(dir, &["check", "--cgroup", path, "c 195:3"]);
        if path.contains("sys") {
            assert_eq!(output.status.code(), Some(2), "{path} leads out of the hierarchy: {}", out(&output));
        } else {
            assert_eq!((out(&output).as_str(), output.status.code()), ("deny\tc 195:3\n", Some(1)), "{path}");
        }
    }
    assert_eq!(out(&at(top, &["check", "--cgroup", ".", "c 195:3"])), "allow\tc 195:3\n");
    assert_eq!(out(&at(below, &["check", "--cgroup", "..", "c 195:3"])), "allow\tc 195:3\n");
    let shown = out(&at(below, &["cgroup", "."]));
    assert!(shown.starts_with(&format!("{}\n", relative(below))), "{shown}");
    let differ = at(top, &["diff", ".", "below"]);
    assert_eq!(differ.status.code(), Some(1), "{}", out(&differ));
    // From elsewhere a path without a leading slash is still one from the root.
    let from_root = relative(below).trim_start_matches('/').to_owned();
    let elsewhere = at(Path::new("/"), &["check", "--cgroup", &from_root, "c 195:3"]);
    assert_eq!(out(&elsewhere), "deny\tc 195:3\n", "{}", err(&elsewhere));
    // And a path that leads to a cgroup by the file system alone is that cgroup.
    let mount = cgroup::mount().expect("a mount");
    let (above, mounted) = (mount.parent().expect("above"), mount.file_name().expect("a name"));
    let path = Path::new(mounted).join(&from_root);
    let by_files = at(above, &["check", "--cgroup", path.to_str().expect("text"), "c 195:3"]);
    assert_eq!(out(&by_files), "deny\tc 195:3\n", "{}", err(&by_files));
}

/// Runs a script with gpumap as `$1` and more arguments in a mount namespace
/// of its own.
fn with_mounts(script: &str, args: &[&Path]) -> Output {
    let script = format!("mount --make-rprivate / && {script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &script, "sh", env!("CARGO_BIN_EXE_gpumap")]).args(args);
    command.output().expect("unshare")
}

/// Make sure that of several cgroup2 mounts the one is used that a path leads
/// to.
#[test]
fn hidden_mounts() {
    let Some(_host) = host::shared() else { return };
    let levels = Cgroup::chain(2).expect("scratch cgroups");
    node::attach_deny(&levels[1], 195, 3, MULTI);
    let sleeper = Sleeper::in_cgroup(&levels[1]);
    let (mount, pid) = (cgroup::mount().expect("a mount"), sleeper.pid().to_string());
    let scratch = levels[0].path();
    // A part of the hierarchy over the whole.
    let over = with_mounts(
        r#"mount --bind "$3" "$2"; "$1" check --pid "$4" 'c 195:3'"#,
        &[&mount, scratch, Path::new(&pid)],
    );
    assert_eq!(out(&over), "deny\tc 195:3\n", "{}", err(&over));
    // Something else over it, and the hierarchy again in another place.
    let elsewhere = with_mounts(
        r#"mount -t tmpfs none "$2"; mount -t tmpfs none /mnt; mkdir /mnt/cg; mount -t cgroup2 none /mnt/cg
           "$1" check --pid "$3" 'c 195:3'; "$1" --json cgroup / | grep -o '"cgroup_root": *"[^"]*"'"#,
        &[&mount, Path::new(&pid)],
    );
    assert!(out(&elsewhere).starts_with("deny\tc 195:3\n"), "{}{}", out(&elsewhere), err(&elsewhere));
    // Nothing left of it: an error, and not an answer about something else.
    let gone = with_mounts(r#"mount -t tmpfs none "$2"; "$1" cgroup /"#, &[&mount]);
    assert_eq!(gone.status.code(), Some(2), "{}", out(&gone));
    assert!(err(&gone).contains("a later mount hides it"), "{}", err(&gone));
}

/// A node with several Slurm jobs and their steps.
fn saved_jobs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes/slurm-jobs.json")
}

/// Make sure that a device can be named as gpumap and the vendors' tools print
/// it, and that a name for several is refused.
#[test]
fn devices_by_name() {
    let file = saved_jobs();
    let file = file.to_str().expect("text");
    let inventory = node::json(&["--from", file, "node"]).0["gpus"].clone();
    let gpus = inventory.as_array().expect("GPUs");
    let job = ["--from", file, "check", "--cgroup", "/"];
    for gpu in gpus {
        let (uuid, pci) = (gpu["uuid"].as_str().expect("a UUID"), gpu["pci"].as_str().expect("an address"));
        let path = gpu["nodes"][0]["path"].as_str().expect("a node");
        let base = path.rsplit('/').next().expect("a name");
        for name in [uuid, &uuid.to_lowercase(), pci, &pci.to_uppercase(), &format!("0000{pci}"), base, path]
        {
            let output = node::gpumap(&[&job[..], &[name]].concat());
            assert_eq!(output.status.code(), Some(0), "{name}: {}", err(&output));
            assert_eq!(out(&output), format!("allow\t{name}\n"));
            let number = format!("c {}:{}", gpu["major"], gpu["minor"]);
            let program = ["--from", file, "explain", "--cgroup", "/"];
            let (by_name, by_number) = (
                node::json(&[&program[..], &[name]].concat()).0,
                node::json(&[&program[..], &[number.as_str()]].concat()).0,
            );
            assert_eq!(by_name["proof"]["device"], by_number["proof"]["device"], "{name}");
        }
    }
    let output = node::gpumap(&[&job[..], &["GPU-"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

/// Make sure that a device node is looked up below `--gpu-root`.
#[test]
fn nodes_below_the_gpu_root() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a scratch cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    let (path, gpus) = (scratch.path().to_str().expect("text"), node::four_gpus());
    let ask = |device: &str| {
        node::gpumap(&["check", "--gpu-root", gpus.to_str().expect("text"), "--cgroup", path, device])
    };
    assert_eq!(out(&ask("/dev/nvidia2")), "deny\t/dev/nvidia2\n");
    assert_eq!(out(&ask("/dev/nvidia1")), "allow\t/dev/nvidia1\n");
    assert_eq!(out(&ask("nvidia2")), "deny\tnvidia2\n");
    let none = ask("/dev/null");
    assert_eq!((out(&none).as_str(), none.status.code()), ("unknown\t/dev/null\n", Some(3)));
    assert!(err(&none).contains(&format!("under {}", gpus.display())), "{}", err(&none));
}

/// Make sure that a job's steps and array tasks are what Slurm says they are.
#[test]
fn steps_and_array_tasks() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let job = cluster.submit(&["--gres=gpu:4", "-n4"], STEPS);
        job.wait_all(&STEP_FILES);
        let id = job.id;
        let devices: Vec<String> = (0..4).map(|minor| format!("nvidia{minor}")).collect();
        let allowed = |name: &str| -> Minors {
            let mut args = vec!["check", "--job", name];
            args.extend(devices.iter().map(String::as_str));
            let (document, _) = cluster.inside(&args);
            let checks = array(&document["checks"]).iter().zip(0..);
            checks.filter(|(check, _)| check["verdict"] == "allow").map(|(_, minor)| minor).collect()
        };
        assert_eq!(allowed(&id.to_string()), (0..4).collect());
        assert_eq!(allowed(&format!("{id}.batch")), (0..4).collect());
        assert_eq!(allowed(&format!("{id}.0")), job.granted_by("step0", "SLURM_STEP_GPUS"));
        assert_eq!(allowed(&format!("{id}.1")), job.granted_by("step1", "SLURM_STEP_GPUS"));
        let (document, code) = cluster.inside(&["job", &format!("{id}.1")]);
        assert_eq!(code, 0, "{document}");
        let paths: Vec<&str> =
            array(&document["cgroups"]).iter().filter_map(|cgroup| cgroup["path"].as_str()).collect();
        assert!(!paths.is_empty() && paths.iter().all(|path| path.contains("/step_1")), "{paths:?}");
        let (document, code) = cluster.inside(&["check", "--job", &format!("{id}.7"), "nvidia0"]);
        assert_eq!((code, &document["errors"][0]["code"]), (2, &"no-job".into()), "{document}");
        let differ = |a: &str, b: &str| cluster.inside(&["diff", "--job", a, "--job", b]).1;
        assert_eq!(differ(&id.to_string(), &format!("{id}.batch")), 0);
        assert_eq!(differ(&format!("{id}.0"), &format!("{id}.1")), 1);
        job.cancel();

        let array_job = cluster.submit(&["--gres=gpu:1", "--array=3,5"], WAIT);
        let number = |task: u32| -> u64 {
            let name = format!("{}_{task}", array_job.id);
            let shown = cluster.run("squeue", &["-h", "-o", "%A", "-j", &name]);
            shown.trim().parse().expect("a number")
        };
        let began = std::time::Instant::now();
        for task in [3, 5] {
            let name = format!("{}_{task}", array_job.id);
            let mut answer = cluster.inside(&["job", &name]);
            while answer.1 != 0 && began.elapsed() < slurm::PATIENCE {
                answer = cluster.inside(&["job", &name]);
            }
            let path = format!("{}/job_{}", Cluster::scope(), number(task));
            assert_eq!(answer.1, 0, "{}", answer.0);
            assert_eq!(answer.0["cgroups"][0]["path"], path, "{name}");
        }
        // As squeue prints those that wait and scancel takes them.
        for (tasks, expected) in [("*", vec![3, 5]), ("[1-4]", vec![3]), ("[3,5]", vec![3, 5])] {
            let (document, code) = cluster.inside(&["job", &format!("{}_{tasks}", array_job.id)]);
            let jobs = array(&document["owners"]).iter().filter(|row| row["depth"] == 0);
            let jobs: BTreeSet<u64> = jobs.filter_map(|row| row["owner"]["job_id"].as_u64()).collect();
            assert_eq!((code, jobs), (0, expected.into_iter().map(number).collect()), "{tasks}: {document}");
        }
        let several = format!("{}_*", array_job.id);
        let (document, code) = cluster.inside(&["check", "--job", &several, "nvidia0"]);
        assert_eq!((code, &document["errors"][0]["code"]), (2, &"which-job".into()), "{document}");
        let (document, code) = cluster.inside(&["job", &format!("{}_4", array_job.id)]);
        assert_eq!((code, &document["errors"][0]["code"]), (2, &"no-job".into()), "{document}");
    });
}

/// Make sure that without rights nothing is said that is not known, that the
/// exit code says so, and that one line says what to do.
#[test]
fn without_rights() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a scratch cgroup");
    node::attach_deny(&scratch, 195, 2, MULTI);
    let sleeper = Sleeper::in_cgroup(&scratch);
    let (path, pid) = (relative(scratch.path()), sleeper.pid().to_string());
    let copy = std::env::temp_dir().join(format!("gpumap-first-contact-{}", std::process::id()));
    std::fs::create_dir(&copy).expect("a directory");
    let mut run = Command::new("cp");
    run.arg("-r").arg(node::four_gpus()).arg(env!("CARGO_BIN_EXE_gpumap")).arg(&copy);
    assert!(run.status().expect("cp").success());
    assert!(Command::new("chmod").arg("-R").arg("a+rX").arg(&copy).status().expect("chmod").success());
    let gpumap = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy.join("gpumap"));
        command.arg("--gpu-root").arg(copy.join("four-h200")).args(args).current_dir("/");
        command.output().expect("setpriv")
    };
    let commands: [&[&str]; 10] = [
        &["node"],
        &["cgroup", &path],
        &["cgroup", "-r", &path],
        &["pid", &pid],
        &["check", "--pid", &pid, "nvidia0", "nvidia2"],
        &["explain", "--cgroup", &path, "nvidia2"],
        &["diff", &path, "/"],
        &["diff", &path, &path],
        &["audit"],
        &["leftovers", "--job", "1"],
    ];
    for args in commands {
        for more in [&[][..], &["-v"]] {
            let output = gpumap(&[args, more].concat());
            let (said, told) = (out(&output), err(&output));
            assert_eq!(output.status.code(), Some(3), "{args:?}: {said}{told}");
            for word in [
                "No device program",
                "No program is",
                "are equal",
                "0 of 4",
                "  0/4 ",
                "Nothing about",
                "allow\t",
            ] {
                assert!(!said.contains(word), "{args:?} says {word:?}:\n{said}");
            }
            // Those of whom nothing is known are counted, not listed.
            let rows = said.lines().filter(|line| line.starts_with("  cgroup /")).count();
            assert!(args != ["node"] || !more.is_empty() || rows == 0, "{said}");
            let advice = told.lines().filter(|line| line.contains("run as root")).count();
            assert_eq!(advice, 1, "{args:?}: {told}");
        }
        let output = gpumap(&[args, &["--json"]].concat());
        let (document, code) = node::document(&output);
        assert_eq!((code, &document["complete"]), (3, &false.into()), "{args:?}");
        assert_ne!(document["diff"]["equal"], true, "{document}");
        if args.contains(&"leftovers") {
            assert_eq!(document["job"], "1");
        }
        let cgroups = document["cgroups"].as_array().into_iter().flatten();
        for gpu in cgroups.flat_map(|cgroup| cgroup["gpus"].as_array().into_iter().flatten()) {
            assert_eq!(gpu["verdict"], "unknown", "{args:?}");
        }
    }
    let nagios = gpumap(&["audit", "--nagios"]);
    assert_eq!(nagios.status.code(), Some(3), "{}", out(&nagios));
    assert!(out(&nagios).starts_with("GPUMAP UNKNOWN"), "{}", out(&nagios));
    let porcelain = gpumap(&["leftovers", "--job", "1", "--porcelain"]);
    assert_eq!((out(&porcelain).as_str(), porcelain.status.code()), ("", Some(3)));
    std::fs::remove_dir_all(&copy).expect("removed");
}

/// Make sure that a directory that lists no GPU is no node without GPUs.
#[test]
fn wrong_roots() {
    let nowhere = ["/no/such/directory", "/dev/null", env!("CARGO_MANIFEST_DIR")];
    for root in nowhere {
        for command in [&["node"][..], &["cgroup", "/"], &["audit"], &["check", "--self", "c 1:3"]] {
            let output = node::gpumap(&[&["--gpu-root", root], command].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?}: {}", out(&output));
            assert!(err(&output).contains("--gpu-root"), "{}", err(&output));
        }
    }
    for (option, root) in [("--proc", "/no/such"), ("--cgroup-root", "/no/such"), ("--cgroup-root", "/tmp")] {
        let output = node::gpumap(&[option, root, "cgroup", "/"]);
        assert_eq!(output.status.code(), Some(2), "{option} {root}: {}", out(&output));
    }
}

/// Make sure that a saved subtree is compared with the whole subtree as it is
/// now, and that a comparison of one cgroup says so.
#[test]
fn saved_subtree() {
    let Some(_host) = host::shared() else { return };
    let levels = Cgroup::chain(2).expect("scratch cgroups");
    let path = relative(levels[0].path());
    let file = std::env::temp_dir().join(format!("gpumap-before-{}.json", std::process::id()));
    let file = file.to_str().expect("text");
    let saved = node::gpumap(&["snapshot", "-r", &path, "-o", file]);
    assert_eq!(saved.status.code(), Some(0), "{}", err(&saved));
    let same = node::gpumap(&["diff", file, &path]);
    assert_eq!(
        (same.status.code(), out(&same).contains("Nothing about device access changed.")),
        (Some(0), true),
        "{}",
        out(&same)
    );
    node::attach_deny(&levels[1], 195, 3, MULTI);
    let changed = node::gpumap(&["diff", file, &path]);
    assert_eq!(changed.status.code(), Some(1), "{}", out(&changed));
    assert!(out(&changed).contains("c 195:3"), "{}", out(&changed));
    let turned = node::gpumap(&["diff", &path, file]);
    assert!(out(&turned).contains("+ allow    c 195:3"), "{}", out(&turned));
    node::gpumap(&["snapshot", &path, "-o", file]);
    let alone = node::gpumap(&["diff", file, &path]);
    assert!(out(&alone).contains(&format!("{path} (this cgroup only)")), "{}", out(&alone));
    std::fs::remove_file(file).expect("removed");
}

/// Make sure that kernel threads and zombies are called so, and that an answer
/// about them is complete: nothing of them is unknown.
#[test]
fn kernel_threads_and_zombies() {
    let Some(_host) = host::shared() else { return };
    let ask = |pid: u32| {
        let pid = pid.to_string();
        let (text, (document, code)) = (out(&node::gpumap(&["pid", &pid])), node::json(&["pid", &pid]));
        assert_eq!((code, &document["complete"]), (0, &true.into()), "{text}{document}");
        assert!(!text.contains("not looked at") && !text.contains("could not be read"), "{text}");
        (text, document["cgroups"][0]["processes"][0].clone())
    };
    let mut child = Command::new("true").spawn().expect("true");
    let began = std::time::Instant::now();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).expect("a process").contains(") Z ") {
        assert!(began.elapsed().as_secs() < 60, "it does not end");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (text, zombie) = ask(child.id());
    assert!(text.contains("zombie"), "{text}");
    assert_eq!((&zombie["state"], &zombie["held"]), (&"zombie".into(), &serde_json::json!([])), "{zombie}");
    child.wait().expect("its status");
    // `Kthread:` is in this file since Linux 6.8; kthreadd is always the second.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let (text, thread) = ask(2);
        assert!(text.contains("kthreadd (kernel thread)"), "{text}");
        assert!(text.contains("no environment and no descriptors of its own"), "{text}");
        assert_eq!((&thread["kernel_thread"], &thread["held"]), (&true.into(), &serde_json::json!([])));
        // They come last in a table, not before what can hold a GPU.
        let table = out(&node::gpumap(&["cgroup", "-v", "/"]));
        let rows = table.lines().skip_while(|line| !line.trim_start().starts_with("PID ")).skip(1);
        // A long name goes on in the next line.
        let rows = rows.take_while(|line| line.starts_with(' '));
        let is_row =
            |line: &&str| line.split_whitespace().next().is_some_and(|pid| pid.parse::<u32>().is_ok());
        let rows = rows.filter(is_row);
        let rows: Vec<&str> =
            rows.filter(|line| line.split_whitespace().nth(2).is_some_and(|state| state != "Z")).collect();
        assert!(rows.is_sorted_by_key(|row| row.contains("(kernel")), "{table}");
    }
}

/// Make sure that where a process may not be looked into although all rights are
/// there, the process and what refuses are named, and no right.
#[test]
fn rights_that_are_there() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a scratch cgroup");
    let sleeper = Sleeper::in_cgroup(&scratch);
    let pid = sleeper.pid().to_string();
    // In a user namespace of its own gpumap has every capability, and none of them
    // counts for a process outside.
    let inside = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r", env!("CARGO_BIN_EXE_gpumap")]).args(args);
        command.output().expect("unshare")
    };
    let output = inside(&["-v", "pid", &pid]);
    let told = format!("{}{}", out(&output), err(&output));
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        !told.contains("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH;") && !told.contains("needs CAP_SYS_PTRACE")
    );
    assert!(err(&output).contains(&format!("({pid} ")), "{told}");
    assert!(told.contains("in its user namespace"), "{told}");
    let advice = told.lines().filter(|line| line.contains("outside of this user namespace")).count();
    assert_eq!(advice, 1, "{told}");
    // The same of programs: the capability is there, and does not count.
    let id = node::attach_deny(&scratch, 195, 3, MULTI).to_string();
    let program = err(&inside(&["prog", &id]));
    assert!(program.contains("although the capability is held") && !program.contains("needs"), "{program}");
    let (document, _) = node::document(&inside(&["--json", "pid", &pid]));
    let errors = array(&document["errors"]).iter();
    let of_process =
        errors.filter(|error| error["what"].as_str().is_some_and(|what| what.contains("/proc/PID")));
    let needs: Vec<_> = of_process.map(|error| error["needs"].clone()).collect();
    assert!(!needs.is_empty() && needs.iter().all(|needs| needs == ""), "{document}");
    // Who is root already is not told to be, neither here nor of what root saved.
    let named = err(&inside(&["job", "1_0"]));
    assert!(named.contains("not everything could be read") && !named.contains("run as root"), "{named}");
    let file = std::env::temp_dir().join(format!("gpumap-refused-{}.json", std::process::id()));
    let saved = inside(&["snapshot", relative(scratch.path()).as_str(), "-o", file.to_str().expect("text")]);
    assert_eq!(saved.status.code(), Some(3), "{}", err(&saved));
    let again = err(&node::gpumap(&["--from", file.to_str().expect("text"), "cgroup"]));
    assert!(again.contains(&format!("({pid} ")) && !again.contains("save it as root"), "{again}");
    std::fs::remove_file(&file).expect("removed");
}

/// Make sure that processes that hidepid hides are named, with the right that is
/// missing, and are no processes that ended.
#[test]
fn hidden_processes() {
    let Some(_host) = host::shared() else { return };
    let scratch = Cgroup::new().expect("a scratch cgroup");
    let sleeper = Sleeper::in_cgroup(&scratch);
    let (path, pid) = (relative(scratch.path()), sleeper.pid().to_string());
    let copy = std::env::temp_dir().join(format!("gpumap-hidden-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_gpumap"), &copy).expect("a copy");
    let output = with_mounts(
        r#"mount -t proc -o hidepid=2 none /mnt
           setpriv --reuid=65534 --regid=65534 --clear-groups "$2" --proc /mnt cgroup -v "$3""#,
        &[&copy, Path::new(&path)],
    );
    std::fs::remove_file(&copy).expect("removed");
    let told = err(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("(pid {pid})")) && !told.contains("(ended)"), "{told}");
    assert!(told.contains("needs CAP_SYS_PTRACE, or the group of the hidepid"), "{told}");
}
