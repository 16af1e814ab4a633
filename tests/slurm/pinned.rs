//! A unit whose device program is pinned (`BPFProgram=device:PATH`) under a real systemd:
//! what a reload does with it, and what gpumap says before (root, systemd, bpftool).

use std::path::{Path, PathBuf};

use crate::support::systemd::{Systemd, with_systemd};
use crate::support::{bpf, programs};
use serde_json::Value;

const CGROUP: &str = "/system.slice/pinned.service";
const PIN: &str = "/sys/fs/bpf/gpus";

/// A unit that names a pinned program and nothing else, in a directory that goes with the value.
struct Unit(PathBuf);

impl Unit {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("gpumap-pinned-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let text = format!("[Service]\nExecStart=/bin/sleep infinity\nBPFProgram=device:{PIN}\n");
        std::fs::write(directory.join("pinned.service"), text).expect("a unit");
        Self(directory)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // What cannot be removed is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The id of a new program that denies c 195:MINOR alone, pinned for the unit; the file is
/// its only hold.
fn pin(systemd: &Systemd, minor: u8) -> u32 {
    let instructions: [u64; 8] = [
        0x0000_0000_0004_1461,
        0x0000_0000_0008_1561,
        0x0000_00c3_0003_0455,
        u64::from(minor) << 32 | 0x0002_0555,
        0x00b7,
        0x0095,
        0x0000_0001_0000_00b7,
        0x0095,
    ];
    let bytes: Vec<u8> = instructions.iter().flat_map(|one| one.to_le_bytes()).collect();
    let program = bpf::load_bytes("gpus", &bytes, true, true).expect("a program");
    let id = programs::prog_id(&program);
    systemd.run("bpftool", &["prog", "pin", "id", &id.to_string(), PIN]);
    id
}

fn gpumap(systemd: &Systemd, args: &[&str]) -> Value {
    let mut command = systemd.command("gpumap");
    let output = command.args(["--json", "--gpu-root", "/mnt/test/gpus"]).args(args).output();
    serde_json::from_slice(&output.expect("gpumap").stdout).expect("JSON")
}

/// The ids of the findings about systemd's reload, with what they say.
fn findings(systemd: &Systemd) -> Vec<(String, String)> {
    let found = gpumap(systemd, &["audit", "--config", "/dev/null"]);
    let found = found["findings"].as_array().expect("findings").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = found.map(|found| (text(&found["id"]), text(&found["summary"])));
    found.filter(|(id, _)| id.starts_with("reload-")).collect()
}

/// The programs in force on the unit.
fn in_force(systemd: &Systemd) -> Vec<u64> {
    let document = gpumap(systemd, &["cgroup", CGROUP]);
    let programs = document["cgroups"][0]["programs"].as_array().expect("programs").iter();
    programs.filter_map(|program| program["id"].as_u64()).collect()
}

/// Make sure that gpumap says before a reload what the reload does: nothing while the
/// program is pinned, take the limit away once it is not, exchange it once another is.
#[test]
fn reloads() {
    let unit = Unit::new();
    with_systemd(&[unit.0.join("pinned.service")], |systemd| {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu/four-h200");
        let copied =
            std::process::Command::new("cp").arg("-r").arg(tree).arg(systemd.work().join("gpus")).status();
        assert!(copied.expect("cp").success());
        let first = pin(systemd, 1);
        systemd.run("systemctl", &["start", "pinned.service"]);
        assert_eq!(in_force(systemd), [u64::from(first)]);
        assert_eq!(findings(systemd), []);
        let plan = gpumap(systemd, &["repair", "--prevent", "--cgroup", CGROUP]);
        assert_eq!(plan["repair"]["state"], "nothing-missing", "{plan:#}");
        let cautions = plan["repair"]["cautions"].to_string();
        assert!(cautions.contains(&format!("program {first} is pinned at {PIN}")), "{cautions}");
        systemd.run("systemctl", &["daemon-reload"]);
        assert_eq!(in_force(systemd), [u64::from(first)]);

        systemd.run("rm", &[PIN]);
        let found = findings(systemd);
        assert_eq!(
            found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(),
            ["reload-would-open"],
            "{found:?}"
        );
        assert!(found[0].1.contains("1 GPU"), "{found:?}");
        systemd.run("systemctl", &["daemon-reload"]);
        assert!(in_force(systemd).is_empty());

        let second = pin(systemd, 0);
        let found = findings(systemd);
        assert_eq!(
            found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(),
            ["reload-would-lose"],
            "{found:?}"
        );
        assert!(found[0].1.contains("nvidia0") && found[0].1.contains(&second.to_string()), "{found:?}");
        let plan = gpumap(systemd, &["repair", "--prevent", "--cgroup", CGROUP]);
        assert!(plan["repair"]["refusals"].to_string().contains("not in force now"), "{plan:#}");
        systemd.run("systemctl", &["daemon-reload"]);
        assert_eq!(in_force(systemd), [u64::from(second)]);
    });
}
