//! Limits of libvgpu.so as `gpumap vgpu` tells them of living processes, honest
//! and hostile ones. The library is a stand-in: it makes a process look as one
//! that the real library has registered.

mod hooked;
mod tenants;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::attacker::build;
use crate::support::host;
use crate::support::meanwhile::meanwhile;
use crate::support::victim::{Scratch, Victim};
use crate::support::wait::{eventually, within};

const SUPPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/c");
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vgpu/v1.2-one-plain.bin.gz");
/// No command may take longer, whatever it looks at.
const LONGEST: u64 = 30;

/// The stand-in library and a region that the real one wrote: 2 GiB and 30 %,
/// one entry, no process.
struct Bench {
    scratch: Scratch,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { scratch: Scratch::new() };
        let source = format!("{SUPPORT}/libvgpu.c");
        let mut compiler = Command::new("gcc");
        compiler.args(["-O1", "-w", "-shared", "-fPIC", &source, "-o"]).arg(bench.library());
        let built = compiler.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::set_permissions(bench.library(), fs::Permissions::from_mode(0o755)).unwrap();
        bench.write_region("r.cache");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.path("libvgpu.so")
    }

    fn write_region(&self, name: &str) -> PathBuf {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut GzDecoder::new(fs::File::open(CAPTURE).unwrap()), &mut bytes)
            .unwrap();
        fs::write(self.path(name), &bytes).unwrap();
        self.path(name)
    }

    /// A program with the library, this region and further variables; it is
    /// there once it has said so.
    fn hooked(&self, region: &Path, variables: &[(&str, &str)], words: &[&str]) -> Victim {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear();
        command.env("LD_PRELOAD", self.library()).env("HOOKED_REGION", region).env("HOOKED_READY", "1");
        command.env("CUDA_DEVICE_MEMORY_LIMIT", "2g").env("CUDA_DEVICE_SM_LIMIT", "30");
        command.envs(variables.iter().copied());
        Victim::with_env(&mut command)
    }
}

/// A process that ends with the value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The exit code and the answer of `gpumap ARGUMENTS --json`.
fn gpumap(arguments: &[&str]) -> (i32, Value) {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    let output = command.args(arguments).arg("--json").stdin(Stdio::null()).output().unwrap();
    assert!(begun.elapsed() < within(LONGEST), "{arguments:?} took {:?}", begun.elapsed());
    let code = output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {}", output.status));
    (code, serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
}

/// The exit code and the limits of one process.
fn limits(pid: u32) -> (i32, Value) {
    let (code, answer) = gpumap(&["vgpu", "--pid", &pid.to_string()]);
    let limits = &answer["processes"][0]["vgpu"];
    assert!(limits.is_object(), "{pid}: {answer}");
    (code, limits.clone())
}

fn codes(limits: &Value) -> (&str, &str) {
    (limits["memory"]["code"].as_str().unwrap_or("none"), limits["sm"]["code"].as_str().unwrap_or("none"))
}

/// The only child of a process.
fn child(pid: u32) -> u32 {
    for _ in 0..500 {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        if let Some(child) = text.split_ascii_whitespace().next() {
            return child.parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{pid} has no child");
}

/// Make sure that each way to be registered, or not, is told of a living process.
#[test]
fn registered_or_not() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.path("r.cache");
    let held = bench.hooked(&region, &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    let (code, told) = limits(held.pid());
    assert_eq!((code, codes(&told)), (0, ("held", "held")), "{told}");
    assert_eq!(told["devices"][0]["memory_limit"], 2_u64 << 30);
    assert_eq!((&told["layout"], &told["host_pid"]), (&"1.2".into(), &held.pid().into()));

    let without_entry = bench.hooked(&region, &[], &["sleep", "600"]);
    let (code, told) = limits(without_entry.pid());
    assert_eq!((code, codes(&told)), (1, ("no-entry", "no-entry")), "{told}");

    let second = bench.write_region("s.cache");
    let unknown_pid =
        bench.hooked(&second, &[("HOOKED_ENTRY", "0"), ("HOOKED_HOST_PID", "0")], &["sleep", "600"]);
    assert_eq!(codes(&limits(unknown_pid.pid()).1), ("held", "no-host-pid"));

    let third = bench.write_region("t.cache");
    let higher = [("HOOKED_ENTRY", "0"), ("CUDA_DEVICE_MEMORY_LIMIT", "1g")];
    let higher = bench.hooked(&third, &higher, &["sleep", "600"]);
    let (code, told) = limits(higher.pid());
    assert_eq!((code, codes(&told)), (1, ("limit-higher", "held")), "{told}");

    // Its main thread has ended: another one shows what the process has.
    let fourth = bench.write_region("u.cache");
    let threads = build(&bench.scratch, "threads");
    let (input, script) = (bench.path("input"), "exec \"$0\" ended <> \"$1\" >/dev/null");
    nix::unistd::mkfifo(&input, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let words = ["sh", "-c", script, threads.to_str().unwrap(), input.to_str().unwrap()];
    let orphaned = bench.hooked(&fourth, &[("HOOKED_ENTRY", "0")], &words);
    let stat = format!("/proc/{}/stat", orphaned.pid());
    eventually("its main thread has ended", || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });
    let (code, told) = limits(orphaned.pid());
    assert_eq!((code, codes(&told)), (0, ("held", "held")), "{told}");
    assert_eq!(told["inner_pid"], orphaned.pid(), "{told}");

    let mut plain = Command::new("sh");
    plain.args(["-c", "echo ready; exec sleep 600"]).env_clear().env("CUDA_DEVICE_MEMORY_LIMIT", "1g");
    let plain = Victim::with_env(&mut plain);
    let (code, told) = limits(plain.pid());
    assert_eq!((code, codes(&told)), (1, ("not-loaded", "not-loaded")), "{told}");
}

/// Make sure that a process in a pid namespace of its own is found by its inner
/// pid, and that another's pid on the node is told.
#[test]
fn pid_namespaces() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    for (host_pid, expected) in [("0", ("held", "no-host-pid")), ("1", ("held", "host-pid-of-another"))] {
        let region = bench.write_region(&format!("{host_pid}.cache"));
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "env", "HOOKED_READY=1", "HOOKED_ENTRY=0"]);
        command.arg(format!("LD_PRELOAD={}", bench.library().display()));
        command.arg(format!("HOOKED_REGION={}", region.display()));
        command.arg(format!("HOOKED_HOST_PID={host_pid}"));
        command.args(["CUDA_DEVICE_MEMORY_LIMIT=2g", "CUDA_DEVICE_SM_LIMIT=30", "sleep", "600"]);
        let outside = Victim::with_env(&mut command);
        let pid = child(outside.pid());
        let (_, told) = limits(pid);
        assert_eq!((codes(&told), &told["inner_pid"]), (expected, &1.into()), "{pid}: {told}");
    }
}

/// Make sure that the region is the one that the process has, whatever became of
/// its name, and that a saved node answers as the living one.
#[test]
fn replaced_regions() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.path("r.cache");
    let held = bench.hooked(&region, &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    fs::remove_file(&region).unwrap();
    // Another takes its name, and says that there is no limit.
    fs::write(&region, vec![0; 2_008_953]).unwrap();
    let (_, told) = limits(held.pid());
    assert_eq!((codes(&told), &told["region"]["deleted"]), (("held", "held"), &true.into()), "{told}");
    let saved = bench.path("node.json");
    let _ = gpumap(&["snapshot", "-o", saved.to_str().unwrap()]);
    let (_, again) = gpumap(&["--from", saved.to_str().unwrap(), "vgpu", "--pid", &held.pid().to_string()]);
    assert_eq!(again["processes"][0]["vgpu"], told);
}

/// Make sure that what the library has noted of the SM switch is read from the memory
/// of the process, and that it is unknown for a library without a table of symbols.
#[test]
fn noted_switches() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    for (variable, value, expected) in [
        ("HOOKED_SWITCH", "0", ("no", "switched-off")),
        ("HOOKED_FOUND", "0", ("no", "no-host-pid")),
        ("CUDA_DEVICE_SM_LIMIT", "40", ("yes", "held")),
    ] {
        let region = bench.write_region(&format!("{variable}.cache"));
        let hooked = bench.hooked(&region, &[("HOOKED_ENTRY", "0"), (variable, value)], &["sleep", "600"]);
        let told = limits(hooked.pid()).1;
        let sm = &told["sm"];
        assert_eq!(
            (sm["in_force"].as_str(), sm["code"].as_str()),
            (Some(expected.0), Some(expected.1)),
            "{told}"
        );
    }
    let stripped = Command::new("strip").arg("--strip-all").arg(bench.library()).status().unwrap();
    assert!(stripped.success());
    let hooked = bench.hooked(&bench.write_region("s.cache"), &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    let (code, told) = limits(hooked.pid());
    assert_eq!((code, codes(&told)), (3, ("held", "switch-unknown")), "{told}");
    assert!(told["sm"]["why"].to_string().contains("symbols"), "{told}");
}

/// Make sure that a region is found whatever its name is, on a file system of the
/// process's own mount namespace, by a hard or symbolic link, with all permissions
/// taken away, and after its name was given to another file.
#[test]
fn regions_that_are_hard_to_find() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let entry = [("HOOKED_ENTRY", "0")];
    let odd = bench.write_region("r.cache");
    let names = [bench.path("no name that says it"), bench.path("hard"), bench.path("soft")];
    fs::rename(&odd, &names[0]).unwrap();
    fs::hard_link(&names[0], &names[1]).unwrap();
    std::os::unix::fs::symlink(&names[0], &names[2]).unwrap();
    for name in &names {
        let hooked = bench.hooked(name, &entry, &["sleep", "600"]);
        fs::set_permissions(&names[0], fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(codes(&limits(hooked.pid()).1), ("held", "held"), "{}", name.display());
        fs::set_permissions(&names[0], fs::Permissions::from_mode(0o666)).unwrap();
    }
    // Its name is another's now, and that one says that nobody is limited.
    let hooked = bench.hooked(&names[0], &entry, &["sleep", "600"]);
    fs::rename(&names[0], bench.path("elsewhere")).unwrap();
    fs::write(&names[0], vec![0; 2_008_953]).unwrap();
    assert_eq!(codes(&limits(hooked.pid()).1), ("held", "held"));
}

/// Make sure that a region on a tmpfs or an overlay of the process's own mount
/// namespace is read.
#[test]
fn regions_of_other_namespaces() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.write_region("r.cache");
    let dir = bench.path("inner");
    fs::create_dir(&dir).unwrap();
    let place = dir.display();
    let overlay = format!(
        "mount -t tmpfs none {place} && mkdir {place}/up {place}/work {place}/all && \
         mount -t overlay -o lowerdir={},upperdir={place}/up,workdir={place}/work none {place}/all && \
         touch {place}/all/r.cache && target={place}/all/r.cache",
        bench.scratch.path().display()
    );
    let tmpfs =
        format!("mount -t tmpfs none {place} && cp {} {place}/ && target={place}/r.cache", region.display());
    for mounted in [tmpfs, overlay] {
        let script = format!(
            "{mounted} && HOOKED_REGION=$target HOOKED_READY=1 HOOKED_ENTRY=0 LD_PRELOAD={} exec sleep 600",
            bench.library().display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]);
        command.env("CUDA_DEVICE_MEMORY_LIMIT", "2g").env("CUDA_DEVICE_SM_LIMIT", "30");
        let hooked = Victim::with_env(&mut command);
        let told = limits(hooked.pid()).1;
        assert_eq!(codes(&told), ("held", "held"), "{script}: {told}");
    }
}

/// Make sure that a process which maps the library as data, its region for reading
/// alone, or a copy of the region in private memory is a no.
#[test]
fn mapped_otherwise() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.write_region("r.cache");
    let script = "import mmap,sys,time\nf=open(sys.argv[1],'rb')\nm=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)\n\
                  print('ready',flush=True)\ntime.sleep(600)";
    for mapped in [bench.library(), region.clone()] {
        let hooked = bench.hooked(&region, &[], &["true"]);
        drop(hooked);
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(&mapped).env("CUDA_DEVICE_MEMORY_LIMIT", "2g");
        let plain = Victim::with_env(&mut command);
        let (code, told) = limits(plain.pid());
        assert_eq!((code, codes(&told).0), (1, "not-loaded"), "{}: {told}", mapped.display());
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(&mapped).env("CUDA_DEVICE_MEMORY_LIMIT", "2g");
        command.env("LD_PRELOAD", bench.library());
        let loaded = Victim::with_env(&mut command);
        let (code, told) = limits(loaded.pid());
        assert_eq!((code, codes(&told).0), (1, "no-region"), "{}: {told}", mapped.display());
    }
}

/// Make sure that what a program does to its environment after it began changes
/// nothing of what was meant, and that a killed process stays an entry and no more.
#[test]
fn environments_that_change_and_dead_entries() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let region = bench.write_region("r.cache");
    let script = "import ctypes,time\nc=ctypes.CDLL(None)\nc.unsetenv(b'LD_PRELOAD')\n\
                  c.setenv(b'CUDA_DEVICE_MEMORY_LIMIT',b'64g',1)\nprint('ready',flush=True)\ntime.sleep(600)";
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("LD_PRELOAD", bench.library()).env("HOOKED_REGION", &region);
    command.env("HOOKED_ENTRY", "0").env("CUDA_DEVICE_MEMORY_LIMIT", "1g").env("CUDA_DEVICE_SM_LIMIT", "30");
    let changing = Victim::with_env(&mut command);
    let told = limits(changing.pid()).1;
    assert_eq!(
        (codes(&told).0, &told["devices"][0]["memory_meant"]),
        ("limit-higher", &(1_u64 << 30).into())
    );
    let pid = changing.pid();
    drop(changing);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    let (code, answer) = gpumap(&["vgpu", "--region", region.to_str().unwrap()]);
    let entry = &answer["region"]["procs"][0];
    assert_eq!((code, &entry["pid"], &entry["status"]), (0, &pid.into(), &1.into()), "{entry}");
    // The next process has another entry, and its own verdict.
    let next = bench.hooked(&region, &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    assert_eq!(codes(&limits(next.pid()).1).0, "held");
}

/// Make sure that a library that a user could have written is no yes.
#[test]
fn libraries_of_users() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    std::os::unix::fs::chown(bench.library(), Some(54_321), None).unwrap();
    let own = bench.hooked(&bench.path("r.cache"), &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    let (code, told) = limits(own.pid());
    assert_eq!((code, codes(&told)), (3, ("library-of-user", "library-of-user")), "{told}");
}

/// Make sure that a region of 2 GB, one that is cut off again and again and one
/// of garbage end in an answer.
#[test]
fn regions_that_lie() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let sparse = bench.path("sparse.cache");
    fs::File::create(&sparse).unwrap().set_len(2 << 30).unwrap();
    let large = bench.hooked(&sparse, &[], &["sleep", "600"]);
    assert_eq!(codes(&limits(large.pid()).1).0, "layout-unknown");

    let garbage = bench.path("garbage.cache");
    fs::write(&garbage, vec![0xa5; 2_008_953]).unwrap();
    let hostile = bench.hooked(&garbage, &[], &["sleep", "600"]);
    assert_eq!(codes(&limits(hostile.pid()).1).0, "layout-unknown");

    let cut = bench.write_region("cut.cache");
    let mapped = bench.hooked(&cut, &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    let file = fs::File::options().write(true).open(&cut).unwrap();
    meanwhile(
        |going| {
            while going.is_on() {
                file.set_len(17).unwrap();
                file.set_len(2_008_953).unwrap();
            }
        },
        || {
            for _ in 0..3 {
                let (code, told) = limits(mapped.pid());
                assert!([1, 3].contains(&code), "{told}");
            }
        },
    );
}

/// Make sure that a region on a file system that never answers holds nobody up,
/// and that others are answered.
#[test]
fn regions_that_never_come() {
    let Some(_host) = host::exclusive() else { return };
    let bench = Bench::new();
    let stuck = bench.path("stuck");
    let source = format!("{SUPPORT}/stuck.c");
    let built =
        Command::new("gcc").args(["-O1", "-w", "-pthread", &source, "-o"]).arg(&stuck).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut command = Command::new(&stuck);
    command.args(["fuse", "region"]).env_clear().env("LD_PRELOAD", bench.library());
    command.env("CUDA_DEVICE_MEMORY_LIMIT", "2g").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut attacker = Ended(command.spawn().unwrap());
    let mut line = String::new();
    let output = attacker.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert!(line.starts_with("ready"), "{line:?}");
    let held = bench.hooked(&bench.path("r.cache"), &[("HOOKED_ENTRY", "0")], &["sleep", "600"]);
    let (code, answer) = gpumap(&["vgpu", "--timeout", "6s"]);
    assert_eq!(code, 3, "{answer}");
    let processes = answer["processes"].as_array().unwrap();
    let other = processes.iter().find(|one| one["pid"] == held.pid()).unwrap();
    assert_eq!(other["vgpu"]["memory"]["code"], "held", "{answer}");
    assert!(answer["errors"].to_string().contains(&attacker.0.id().to_string()), "{answer}");
}

/// Make sure that a FIFO in the place of the loader's list is not waited for, and
/// that a link leads nowhere but below the process's own root.
#[test]
fn lists_of_the_loader() {
    let Some(_host) = host::shared() else { return };
    let bench = Bench::new();
    let secret = bench.path("secret");
    fs::write(&secret, "/nowhere/libvgpu.so\n").unwrap();
    let link = format!("ln -s /proc/1/root{} /etc/ld.so.preload", secret.display());
    for make in ["mkfifo /etc/ld.so.preload", link.as_str()] {
        // Nothing is executed after the list is there: the loader would wait for it.
        let script = format!("mount -t tmpfs none /etc; sleep 600 & {make}; echo ready; wait");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).env("CUDA_DEVICE_MEMORY_LIMIT", "1g");
        let victim = Victim::with_env(&mut command);
        let (code, told) = limits(victim.pid());
        assert_eq!((code, codes(&told).0), (1, "not-loaded"), "{make}: {told}");
        assert!(!told.to_string().contains("nowhere"), "{make}: {told}");
        // The shell's own child would stay.
        let sleeping = child(victim.pid());
        let _ = Command::new("kill").arg(sleeping.to_string()).status();
    }
}

/// Make sure that many processes with large regions of their own end in an
/// answer for all.
#[test]
fn many_regions() {
    let Some(_host) = host::exclusive() else { return };
    let bench = Bench::new();
    let processes: Vec<Victim> = (0..100)
        .map(|number| {
            let path = bench.path(&format!("{number}.cache"));
            let mut bytes = vec![number as u8 | 1; 2_008_953];
            if number < 12 {
                bytes[..4].copy_from_slice(&19_920_718_u32.to_le_bytes());
            }
            fs::write(&path, bytes).unwrap();
            bench.hooked(&path, &[], &["sleep", "600"])
        })
        .collect();
    let (code, answer) = gpumap(&["vgpu"]);
    let told = answer["processes"].as_array().unwrap();
    assert!([1, 3].contains(&code), "{code}");
    for process in &processes {
        let one = told.iter().find(|one| one["pid"] == process.pid());
        // On a busy machine a build without optimisation may take more than a second for two
        // megabytes: then the process is named as one that did not answer, or, if that
        // happens to many, as one of those of its user that took too long together.
        let Some(one) = one else {
            let errors = answer["errors"].to_string();
            let is_said =
                errors.contains(&process.pid().to_string()) || errors.contains("took more than 10 seconds");
            assert!(is_said, "{answer}");
            continue;
        };
        let code = one["vgpu"]["memory"]["code"].as_str().unwrap();
        assert!(["layout-unknown", "region-unread"].contains(&code), "{one}");
    }
}
