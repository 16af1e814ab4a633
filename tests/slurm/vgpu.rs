//! Limits of libvgpu.so and SoftMig in containers of a real runtime and in jobs of a
//! real Slurm, with what the test set up. The libraries are a stand-in, which makes a
//! process look as one that the real library has registered.
//!
//! Needs root, a cgroup2 mount, bpf(2), crun, busybox and gcc; the jobs need Slurm.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::container::{Bundle, Container};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, PATIENCE, compile, inner_pid, with_cluster};
use crate::support::{elf, host, node};

/// Offsets of layout 1.2, and of SoftMig's, which is the same up to the lock of entries.
const LIMITS: u64 = 1600;
const ENTRIES: u64 = 1856;
const STRIDE: u64 = 1960;
const LOCK: u64 = 1936;
const COUNT: u64 = 2_008_896;

/// A region, its library and a program, in a directory that goes with the value.
struct Bench {
    dir: PathBuf,
    region: PathBuf,
}

impl Bench {
    fn new(name: &str, dir: PathBuf, capture: &str, library: &str) -> Self {
        fs::create_dir_all(&dir).unwrap();
        compile(&["-shared", "-fPIC", "-w"], "c/libvgpu.c", &dir.join(library));
        let region = dir.join(name);
        let capture = format!("{}/fixtures/vgpu/{capture}.bin.gz", env!("CARGO_MANIFEST_DIR"));
        let mut bytes = Vec::new();
        GzDecoder::new(fs::File::open(capture).unwrap()).read_to_end(&mut bytes).unwrap();
        fs::write(&region, bytes).unwrap();
        fs::set_permissions(&region, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        Self { dir, region }
    }

    /// Writes into the region, as the library or HAMi's monitor would.
    fn put(&self, at: u64, bytes: &[u8]) {
        fs::File::options().write(true).open(&self.region).unwrap().write_all_at(bytes, at).unwrap();
    }

    fn entry(&self, index: u64) -> Vec<u8> {
        let mut bytes = vec![0; STRIDE as usize];
        let file = fs::File::open(&self.region).unwrap();
        file.read_exact_at(&mut bytes, ENTRIES + index * STRIDE).unwrap();
        bytes
    }

    /// Which pid on the node the library has found for an entry.
    fn found(&self, index: u64, pid: u32) {
        self.put(ENTRIES + index * STRIDE + 4, &pid.to_le_bytes());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn codes(told: &Value) -> (&str, &str) {
    (told["memory"]["code"].as_str().unwrap_or("none"), told["sm"]["code"].as_str().unwrap_or("none"))
}

fn of_process(pid: u32) -> Value {
    let output = node::command(&["--json", "vgpu", "--pid", &pid.to_string()]).output().unwrap();
    let (document, _) = node::document(&output);
    document["processes"][0]["vgpu"].clone()
}

/// A container whose first process is registered as this entry of the region.
fn container(bench: &Bench, entry: u64) -> Container {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.ends_with("/libc.so.6")));
    let [library, actor] = ["libvgpu.so", "actor"].map(|name| bench.dir.join(name));
    let loader = fs::canonicalize(elf::LOADER).unwrap();
    let inside = |path: &Path| format!("/bin/{}", path.file_name().unwrap().to_str().unwrap());
    let args =
        [&inside(&loader), "--library-path", "/bin", "--preload", "/bin/libvgpu.so", "/bin/actor", "ready"];
    let env = [
        format!("HOOKED_REGION={}", inside(&bench.region)),
        format!("HOOKED_ENTRY={entry}"),
        "CUDA_DEVICE_MEMORY_LIMIT=2g".to_owned(),
        "CUDA_DEVICE_SM_LIMIT=30".to_owned(),
    ];
    let bundle = Bundle {
        args: args.map(str::to_owned).into_iter().chain(["/out/ready".to_owned()]).collect(),
        env: env.into(),
        programs: vec![loader, PathBuf::from(libc.unwrap()), actor],
        mounted: vec![library],
        shared: vec![bench.region.clone()],
        ..Bundle::sleeping(&json!([{ "allow": false, "access": "rwm" }]))
    };
    let container = Container::run("crun", &bundle).unwrap_or_else(|log| panic!("{log}"));
    container.wait_for("/out/ready");
    container
}

/// Make sure that processes of two containers that share a region are told apart
/// although both have pid 1, with all that becomes of the region and of them.
#[test]
fn containers_that_share_a_region() {
    let Some(_host) = host::shared() else { return };
    if let Some(program) = ["crun", "busybox", "gcc"].into_iter().find(|name| !host::is_installed(name)) {
        return host::skip(&format!("{program} is not installed"));
    }
    let dir = std::env::temp_dir().join(format!("gpumap-vgpu-{}", std::process::id()));
    let bench = Bench::new("r.cache", dir, "v1.2-one-plain", "libvgpu.so");
    compile(&[], "c/actor.c", &bench.dir.join("actor"));
    bench.put(COUNT, &2_i32.to_le_bytes());
    let first = container(&bench, 0);
    let second = container(&bench, 1);
    let (one, two) = (first.pid(), second.pid());
    assert_eq!((inner_pid(one), inner_pid(two)), (Some(1), Some(1)));
    bench.found(0, one);
    bench.found(1, two);
    for (pid, entry) in [(one, 0), (two, 1)] {
        let told = of_process(pid);
        assert_eq!(codes(&told), ("held", "held"), "{told}");
        assert_eq!((&told["entry"], &told["inner_pid"]), (&entry.into(), &1.into()), "{told}");
    }
    // The library takes the second container's process for the first one's.
    bench.found(0, two);
    bench.found(1, 4_194_000);
    assert_eq!(codes(&of_process(one)), ("held", "host-pid-of-another"));
    bench.found(0, one);
    bench.found(1, two);

    // The second entry is moved to the place of one that was removed, and its process
    // goes on writing to the old place.
    bench.put(COUNT, &1_i32.to_le_bytes());
    let moved = bench.entry(1);
    bench.put(ENTRIES, &moved);
    bench.put(ENTRIES + STRIDE + LOCK, &8_u64.to_le_bytes());
    let told = of_process(two);
    assert_eq!(codes(&told).0, "moved-entry", "{told}");
    assert_eq!(told["memory"]["in_force"], "no");

    // Killed: its entry stays, and is told by itself; a new process has its own.
    kill(Pid::from_raw(two as i32), Signal::SIGKILL).unwrap();
    let began = Instant::now();
    while Path::new(&format!("/proc/{two}/exe")).exists() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = node::command(&["--json", "vgpu", "--region"]).arg(&bench.region).output().unwrap();
    let (document, code) = node::document(&output);
    let left = &document["region"]["procs"][1];
    assert_eq!((code, &left["hostpid"], &left["status"]), (0, &two.into(), &1.into()), "{left}");
    drop(second);
    let third = container(&bench, 0);
    bench.found(0, third.pid());
    assert_eq!(codes(&of_process(third.pid())), ("held", "held"));

    // Removed while it is in use.
    fs::remove_file(&bench.region).unwrap();
    let told = of_process(third.pid());
    assert_eq!((codes(&told), &told["region"]["deleted"]), (("held", "held"), &true.into()), "{told}");
}

/// The directory of the prolog's files, on a file system of the cluster's own.
const FILES: &str = "/run/softmig";

/// That directory, which is removed with the value, also where the test fails.
struct Files<'a>(&'a Cluster);

impl Drop for Files<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return shell(self.0, &format!("umount {FILES}; rmdir {FILES}"));
        }
        // The cluster's mounts go with it.
        let _ = fs::remove_dir(FILES);
    }
}

/// Runs a shell in the cluster.
fn shell(cluster: &Cluster, script: &str) {
    cluster.run("sh", &["-ec", script]);
}

/// What makes the process of a job under SoftMig's library.
#[derive(Clone, Copy)]
struct InJob<'a> {
    uid: u32,
    /// Whether it is registered in the bench's region; else the library is passive.
    registered: bool,
    /// Variables that its user sets.
    variables: &'a str,
    /// A script that makes the job's file, `@.conf`, before anybody looks.
    file: Option<&'a str>,
}

/// What is told of such a process in a job with a shard.
fn job(cluster: &Cluster, bench: &Bench, InJob { uid, registered, variables, file }: InJob<'_>) -> Value {
    let library = bench.dir.join("libsoftmig.so");
    let region = if registered {
        format!("HOOKED_REGION={} HOOKED_ENTRY=0", bench.region.display())
    } else {
        String::new()
    };
    let options = &["--gres=shard:1"];
    let script = format!(
        "exec setpriv --reuid {uid} --clear-groups env LD_PRELOAD={} {region} {variables} HOOKED_READY=1 sleep 600",
        library.display()
    );
    let job = cluster.submit(options, &script);
    if let Some(make) = file {
        shell(cluster, &make.replace("@", &format!("{FILES}/{}", job.id)));
    }
    let began = Instant::now();
    while !job.output().contains("ready") {
        assert!(began.elapsed() < PATIENCE, "job {}: {}", job.id, job.output());
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = job.id.to_string();
    let mut answers = [cluster.outside(&["vgpu", "--job", &id]), cluster.inside(&["vgpu", "--job", &id])]
        .map(|(document, _)| {
            let processes = document["processes"].as_array().cloned().unwrap_or_default();
            let its = processes.into_iter().find(|process| process["comm"] == "sleep");
            its.map_or_else(|| panic!("job {id}: {document}"), |process| process["vgpu"].clone())
        });
    job.cancel();
    for answer in &mut answers {
        answer["host_pid"] = Value::Null;
    }
    // What the region takes for its pid on the node is another one from there.
    if variables.is_empty() {
        assert_eq!(answers[0]["memory"], answers[1]["memory"], "inside and outside");
    }
    // From outside the cluster's cgroups lie below others, and prove no job's number.
    answers[1].take()
}

/// Make sure that SoftMig's limits in jobs of a real Slurm are told as its files, their
/// owners, the user and the region say.
#[test]
fn softmig_in_jobs() {
    if Path::new(FILES).exists() {
        return host::skip("/run/softmig is in use");
    }
    with_cluster(&Spec::shards(), |cluster| {
        shell(cluster, &format!("mkdir {FILES}; mount -t tmpfs -o mode=755 none {FILES}"));
        let _files = Files(cluster);
        let bench =
            Bench::new("cudevshr.cache.1", cluster.work().join("softmig"), "softmig-job", "libsoftmig.so");
        bench.put(LIMITS, &[(2_u64 << 30).to_le_bytes(); 16].concat());
        let file = Some("printf 'CUDA_DEVICE_MEMORY_LIMIT=2g\nCUDA_DEVICE_SM_LIMIT=40\n' > @.conf");
        let honest = InJob { uid: 12345, registered: true, variables: "", file };
        let told = job(cluster, &bench, honest);
        assert_eq!((codes(&told).0, &told["meant_by"]), ("held", &"job-file".into()), "{told}");
        assert_eq!(
            (&told["layout"], &told["devices"][0]["memory_meant"]),
            (&"softmig-1.1".into(), &(2_u64 << 30).into())
        );
        let told = job(cluster, &bench, InJob { uid: 0, ..honest });
        assert_eq!(
            (codes(&told).0, told["memory"]["in_force"].as_str()),
            ("root-exempt", Some("no")),
            "{told}"
        );
        let none = job(cluster, &bench, InJob { registered: false, file: None, ..honest });
        assert_eq!(codes(&none), ("no-job-file", "no-job-file"), "{none}");
        for make in [
            "echo CUDA_DEVICE_MEMORY_LIMIT=2g > @.other; ln -s @.other @.conf",
            "echo CUDA_DEVICE_MEMORY_LIMIT=2g > @.conf; chown 12345 @.conf",
        ] {
            let told = job(cluster, &bench, InJob { registered: false, file: Some(make), ..honest });
            assert_eq!(codes(&told).0, "job-file-refused", "{make}: {told}");
            assert_eq!(told["devices"][0]["memory_meant"], 2_u64 << 30);
        }
        // A limit in the file that the region does not have yet.
        let lower = Some("echo CUDA_DEVICE_MEMORY_LIMIT=1g > @.conf");
        let told = job(cluster, &bench, InJob { file: lower, ..honest });
        assert_eq!(
            (codes(&told).0, told["memory"]["in_force"].as_str()),
            ("limit-higher", Some("partly")),
            "{told}"
        );
        // SoftMig goes by the job that the environment names, and gpumap by the job's own file.
        let file =
            lower.map(|lower| format!("{lower}; echo CUDA_DEVICE_MEMORY_LIMIT=2g > {FILES}/4000000.conf"));
        let named = InJob { variables: "SLURM_JOB_ID=4000000", file: file.as_deref(), ..honest };
        let told = job(cluster, &bench, named);
        assert_eq!(
            (codes(&told).0, &told["devices"][0]["memory_meant"]),
            ("limit-higher", &(1_u64 << 30).into())
        );
        assert!(!told["meant_in"].as_str().unwrap().contains("4000000"), "{told}");
    });
}
