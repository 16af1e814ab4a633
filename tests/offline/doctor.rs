//! `gpumap doctor` on a node with four GPUs and Slurm's files as sites have them: a
//! `gres.conf` that leaves a GPU open is never right, and files are found where sites keep
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A node with four GPUs, and files of its own below one root.
struct Root(PathBuf);

impl Root {
    fn new(files: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("gpumap-doctor-{}-{number}", std::process::id()));
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/four-h200");
        let copied = Command::new("cp").arg("-r").arg(&tree).arg(&root).status().unwrap();
        assert!(copied.success());
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(root)
    }

    /// With these files in one directory.
    fn with_slurm(directory: &str, slurm: &str, gres: &str) -> Self {
        let file = |name: &str| format!("{directory}/{name}");
        let (conf, cgroup, gres_conf) = (file("slurm.conf"), file("cgroup.conf"), file("gres.conf"));
        let slurm = format!("ClusterName=c\nTaskPlugin=task/cgroup\n{slurm}");
        Self::new(&[(&conf, &slurm), (&cgroup, "ConstrainDevices=yes\n"), (&gres_conf, gres)])
    }

    /// State and text of a check.
    fn check(&self, id: &str, options: &[&str]) -> Option<(String, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        let output = command.arg("--gpu-root").arg(&self.0).args(["--json", "doctor"]).args(options).output();
        let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let check = answer["doctor"].as_array().unwrap().iter().find(|check| check["id"] == id)?;
        let text = |key: &str| check[key].as_str().unwrap().to_owned();
        Some((text("state"), text("found")))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const GPU: &str = "GresTypes=gpu,mps\n";
const ALL: &str = "Name=gpu File=/dev/nvidia[0-3]\n";

/// Make sure that a file which leaves GPUs to every job is called so, and which.
#[test]
fn gres_conf() {
    let names = nix::sys::utsname::uname().unwrap();
    let host = names.nodename().to_string_lossy().into_owned();
    let short = host.split('.').next().unwrap();
    let ours = format!("{GPU}NodeName={short} Gres=gpu:4\n");
    let own = format!(
        "NodeName=zzz Name=gpu File=/dev/nvidia[0-3]\nNodeName={short} Name=gpu File=/dev/nvidia[0-2]\n"
    );
    for (slurm, gres, state, part) in [
        (GPU, ALL, "ok", "all 4 GPUs"),
        (GPU, "Name=gpu File=/dev/nvidia[0-1]\nName=gpu File=/dev/nvidia[2-3]\n", "ok", "all 4"),
        (GPU, "Name=gpu File=/dev/nvidia[0-1]\n", "missing", "nvidia2, nvidia3"),
        (&ours, own.as_str(), "missing", "nvidia3"),
        (&ours, "NodeName=zzz Name=gpu File=/dev/nvidia[0-3]\n", "missing", "no GPU of this node"),
        // Slurm may call this node zzz.
        (GPU, "NodeName=zzz Name=gpu File=/dev/nvidia[0-3]\n", "unknown", "no NodeName line"),
        (GPU, "Name=gpu Count=4\n", "missing", "without File="),
        (GPU, "Name=gpu File=/dev/nvidia[0-4]\n", "missing", "/dev/nvidia4"),
        (GPU, "Name=shard Count=8\n", "missing", "no GPU of this node"),
        (GPU, "AutoDetect=nvml\n", "note", "AutoDetect=nvml"),
        (GPU, "AutoDetect=nvml\nName=gpu Count=4\n", "note", "AutoDetect=nvml"),
        (GPU, "AutoDetect=rsmi\n", "missing", "none of the GPUs"),
        (GPU, "AutoDetect=amdgpu\n", "missing", "no value"),
        (GPU, "Name=gpu Filee=/dev/nvidia0\n", "unknown", "line 1"),
        (GPU, "Include gpus.conf\n", "unknown", "cannot be read"),
        ("", ALL, "missing", "GresTypes"),
        ("GresTypes=mps,gpux\n", ALL, "missing", "without gpu"),
        ("Include more.conf\n", ALL, "unknown", "GresTypes"),
    ] {
        let root = Root::with_slurm("etc/slurm", slurm, gres);
        let found = root.check("slurm.gres", &[]).unwrap();
        assert!(found.0 == state && found.1.contains(part), "{slurm}{gres}: {found:?}");
        // What the answer says without the site's names is the same.
        let redacted = root.check("slurm.gres", &["--redact"]).unwrap();
        let has_host = redacted.1.split([' ', '.', ',', ':']).any(|word| word == host);
        assert!(redacted.0 == state && !has_host, "{slurm}{gres}: {redacted:?}");
    }
}

/// Make sure that files are found where packages and clouds put them, with those that they
/// include, and that the caller's file is taken first.
#[test]
fn places() {
    for place in [
        "etc/slurm",
        "usr/local/etc",
        "opt/slurm/etc",
        "usr/local/etc/slurm",
        "cm/shared/apps/slurm/var/etc/slurm",
        "var/spool/slurmd/conf-cache",
    ] {
        let root = Root::with_slurm(place, GPU, ALL);
        let found = root.check("slurm.configuration", &[]).unwrap();
        assert!(found.0 == "ok" && found.1.contains(&format!("/{place}/gres.conf")), "{place}: {found:?}");
    }
    let cluster = Root::with_slurm("opt/slurm/etc", GPU, "include pcluster/gres.conf\n");
    std::fs::create_dir(cluster.0.join("opt/slurm/etc/pcluster")).unwrap();
    std::fs::write(cluster.0.join("opt/slurm/etc/pcluster/gres.conf"), ALL).unwrap();
    assert_eq!(cluster.check("slurm.gres", &[]).unwrap().0, "ok");
    let named = cluster.0.join("mine.conf");
    std::fs::write(&named, "Name=gpu File=/dev/nvidia0\n").unwrap();
    let found = cluster.check("slurm.gres", &["--gres-conf", &named.to_string_lossy()]).unwrap();
    assert!(found.0 == "missing" && found.1.contains("nvidia1, nvidia2, nvidia3"), "{found:?}");
}

/// Make sure that a plugin that AutoDetect needs is missed where all others are there.
#[test]
fn plugins() {
    let gcc = |path: PathBuf| {
        let source = path.with_extension("c");
        std::fs::write(&source, "const unsigned plugin_version = 0x180b00;").unwrap();
        let made = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&source).status();
        made.is_ok_and(|made| made.success())
    };
    let root = Root::with_slurm("etc/slurm", GPU, "AutoDetect=nvml\n");
    let plugins = root.0.join("usr/lib64/slurm");
    std::fs::create_dir_all(&plugins).unwrap();
    assert!(gcc(plugins.join("task_cgroup.so")), "a C compiler is a part of the build");
    let found = root.check("slurm.gres", &[]).unwrap();
    assert!(found.0 == "missing" && found.1.contains("gpu_nvml.so"), "{found:?}");
    assert!(gcc(plugins.join("gpu_nvml.so")));
    assert_eq!(root.check("slurm.gres", &[]).unwrap().0, "note");
}

/// Make sure that no directory of Slurm's is said to be right without one, but where no
/// slurmd runs, and that it is said where they were looked for.
#[test]
fn no_slurm() {
    let (state, found) = Root::new(&[]).check("slurm.configuration", &[]).unwrap();
    if found.contains("slurmd runs,") {
        assert_eq!(state, "unknown", "{found}");
    }
    assert!(found.contains("/opt/slurm/etc/slurm.conf"), "{found}");
}
