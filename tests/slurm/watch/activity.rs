//! `gpumap activity` where it is used: in containers of real runtimes, each with a
//! driver's library of its own, and in a job of a real Slurm.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpumap::activity::{Options, ProcessScope, Session};
use serde_json::{Value, json};

use super::containers::mapped;
use super::host_with;
use crate::support::container::{Bundle, Container};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{compile, with_cluster};
use crate::support::watching::Place;

const DRIVER: &[&str] = &["-O2", "-w", "-pthread", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"];

/// All launches that the driver was called with.
fn launches(truth: &str) -> u64 {
    let streams = truth.lines().filter(|line| line.starts_with("stream "));
    streams.map(|line| line.split(' ').nth(3).unwrap().parse::<u64>().unwrap()).sum()
}

/// Make sure that the libraries of two containers, which are other files than each
/// other's and the node's, are found and counted apart.
#[test]
fn two_containers() {
    let Some(host) = host_with(&["runc", "crun", "busybox", "gcc", "nsenter"]) else { return };
    let place = Place::new(&host);
    let (linker, libc) = (mapped("ld-linux"), mapped("libc.so.6"));
    let name = linker.file_name().unwrap().to_str().unwrap();
    let driver = place.build("c/cuda/driver.c", "libcuda.so.1", "gcc -shared -fPIC -Wl,-soname,libcuda.so.1");
    let flags = format!("gcc {} -Wl,-rpath,/bin -Wl,--dynamic-linker=/bin/{name}", driver.display());
    let client = place.build("c/cuda/client.c", "client", &flags);
    let rules = json!([{ "allow": true, "access": "rwm" }]);
    let boxes = ["runc", "crun"].map(|runtime| {
        let programs = vec![linker.clone(), libc.clone(), driver.clone(), client.clone()];
        let bundle = Bundle { programs, ..Bundle::sleeping(&rules) };
        let container = Container::run(runtime, &bundle).unwrap_or_else(|log| panic!("{runtime}: {log}"));
        (runtime, container)
    });
    let cgroups = boxes.iter().map(|(_, container)| container.cgroup()).collect();
    let scope = ProcessScope { cgroups, ..ProcessScope::default() };
    let mut session = Session::start(&scope, Path::new("/proc"), Options::default()).unwrap();
    let started: Vec<u32> = (3..)
        .zip(&boxes)
        .map(|(number, (runtime, container))| {
            let launch = format!("launch:{number}");
            let words = ["/bin/client", "device:0", "sleep:4000", &launch, "memory:100", "sleep:1000"];
            container.exec(runtime, &["TRUTH=/out/truth"], &words)
        })
        .collect();
    let begun = Instant::now();
    let (mut ended, mut libraries) = (Vec::new(), 0);
    while ended.len() < 2 {
        let reading = session.read().unwrap();
        libraries = libraries.max(reading.libraries.len());
        ended.extend(reading.processes.into_iter().filter(|one| one.ended_ns.is_some()));
        assert!(begun.elapsed() < Duration::from_secs(60), "{ended:?}, {:?}", reading.uncovered);
        session.wait(Duration::from_millis(50), None).unwrap();
    }
    assert_eq!(libraries, 2);
    for ((number, pid), (runtime, container)) in (3..).zip(started).zip(&boxes) {
        let process = ended.iter().find(|process| process.pid == pid).unwrap();
        let counted: u64 = process.streams.iter().map(|stream| stream.launches).sum();
        let truth = fs::read_to_string(format!("/proc/{}/root/out/truth", container.pid())).unwrap();
        assert_eq!((counted, launches(&truth)), (number, number), "{runtime}: {truth}");
        assert!(process.partial, "the library was found when it was mapped");
    }
}

/// A process of the job that calls the driver, as soon as it is told to.
const SCRIPT: &str = r#"
TRUTH=$OUT.truth "$WORK/client" device:0 stream launch:50 memory:1000 stop launch:7 <> <(sleep 600) &
client=$!
echo $client > $OUT.new && mv $OUT.new $OUT.pid
while [ ! -e $OUT.end ]; do sleep 0.2; done
"#;

/// Make sure that what a process of a job does is told as the job's, with its GPU, and
/// that `job` shows it from the state file.
#[test]
fn one_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let library = cluster.work().join("libcuda.so.1");
        compile(DRIVER, "c/cuda/driver.c", &library);
        let path = format!("-Wl,-rpath,{}", cluster.work().display());
        let flags = ["-w", "-pthread", "-Wl,--no-as-needed", library.to_str().unwrap(), &path];
        compile(&flags, "c/cuda/client.c", &cluster.work().join("client"));
        let job = cluster.submit(&["--gres=gpu:2"], SCRIPT);
        let pid = cluster.outside_pid(job.pid("pid")).unwrap();
        let (root, inventory) =
            (cluster.cgroup_root().to_str().unwrap(), cluster.inventory().to_str().unwrap());
        let (id, state) = (job.id.to_string(), cluster.work().join("state"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        command.args(["--json", "--cgroup-root", root, "--gpu-root", inventory, "activity", "--job", &id]);
        command.args(["--every", "300ms", "--for", "120s", "--state"]).arg(&state);
        let mut activity = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(activity.stdout.take().unwrap()).lines();
        let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        next();
        // It goes on when its input has a line.
        fs::write(format!("/proc/{pid}/fd/0"), "\n").unwrap();
        let process = (0..200).find_map(|_| {
            let document = next();
            let processes = document["activity"]["processes"].as_array().unwrap().clone();
            processes.into_iter().find(|process| process["pid"] == pid)
        });
        let process = process.expect("the process is told");
        assert_eq!(process["owner"]["job_id"], job.id, "{process}");
        assert_eq!((&process["partial"], process["cgroup"].as_str().is_some()), (&json!(true), true));
        let used = &process["gpus"][0];
        assert_eq!(used["counts"]["launches"], 7, "{process}");
        let (document, _) = cluster.outside(&["job", &id, "--state", state.to_str().unwrap()]);
        let its = &document["activity"]["processes"][0];
        assert_eq!(
            (&its["pid"], &its["gpus"][0]["counts"]["launches"]),
            (&json!(pid), &json!(7)),
            "{document}"
        );
        fs::write(cluster.work().join(format!("out/{id}.end")), "").unwrap();
        let _ = activity.kill();
        let _ = activity.wait();
    });
}
