//! The example units, started by a real systemd with every restriction that
//! they set (root, systemd).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::host;
use crate::support::systemd::{PATIENCE, Systemd, with_systemd};
use serde_json::Value;

/// The unit files of the examples.
fn units() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/systemd");
    let files = std::fs::read_dir(dir).expect("the examples").flatten();
    files.map(|file| file.path()).collect()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

/// Make sure that systemd starts the watch, that it stays up, tells a change
/// of policy and ends well.
#[test]
fn the_watch_runs_as_a_service() {
    with_systemd(&units(), |systemd| {
        let unit = "gpumap-watch.service";
        systemd.run("systemctl", &["enable", "--now", unit]);
        let start = systemd.wait_for(unit, |event| event["event"] == "start");
        assert_eq!(start["uncovered"], Value::Null, "{start}");
        // A service with a device policy is a change of policy.
        systemd.run(
            "systemd-run",
            &["--unit=closed", "-p", "DevicePolicy=closed", "-p", "DeviceAllow=/dev/null rw", "sleep", "60"],
        );
        let policy = systemd.wait_for(unit, |event| {
            event["event"] == "policy" && event["cgroup"] == "/system.slice/closed.service"
        });
        assert_eq!(policy["policy"]["attached"][0]["writer"], "systemd", "{policy}");
        systemd.run("systemctl", &["stop", unit]);
        ends_well(systemd, unit);
        assert_eq!(systemd.property(unit, "NRestarts"), "0", "{}", systemd.journal(unit));
        assert!(systemd.journal(unit).contains("\"event\":\"end\""), "{}", systemd.journal(unit));
        systemd.run("test", &["-s", "/var/lib/gpumap/last-set"]);
    });
}

/// Make sure that the audit's service writes its report and that the timer
/// starts it.
#[test]
fn the_audit_runs_as_a_service() {
    with_systemd(&units(), |systemd| {
        let unit = "gpumap-audit.service";
        systemd.run("systemctl", &["start", unit]);
        ends_well(systemd, unit);
        let report = json(&systemd.run("cat", &["/var/lib/gpumap/audit.json"]));
        assert_eq!(report["schema"], "gpumap/1");
        systemd.run("systemctl", &["enable", "--now", "gpumap-audit.timer"]);
        assert_eq!(systemd.property("gpumap-audit.timer", "ActiveState"), "active");
    });
}

/// Make sure that the export's service writes its file, keeps it up to date and ends
/// well.
#[test]
fn the_export_runs_as_a_service() {
    with_systemd(&units(), |systemd| {
        let (unit, directory) = ("gpumap-export.service", "/var/lib/prometheus/node-exporter");
        systemd.run("mkdir", &["-p", directory]);
        systemd.run("systemctl", &["enable", "--now", unit]);
        let file = format!("{directory}/gpumap.prom");
        let began = Instant::now();
        while !systemd.command("test").args(["-s", &file]).status().is_ok_and(|status| status.success()) {
            assert!(began.elapsed() < PATIENCE, "{}", systemd.journal(unit));
            std::thread::sleep(Duration::from_millis(200));
        }
        let text = systemd.run("cat", &[&file]);
        assert!(text.contains("\ngpumap_complete 1\n"), "{text}\n{}", systemd.journal(unit));
        assert_eq!(systemd.run("stat", &["-c", "%a", &file]).trim(), "644");
        systemd.run("systemctl", &["stop", unit]);
        ends_well(systemd, unit);
        assert_eq!(systemd.property(unit, "NRestarts"), "0", "{}", systemd.journal(unit));
    });
}

/// The unit ran to its end, and nothing was forbidden to it that it needs.
fn ends_well(systemd: &Systemd, unit: &str) {
    let journal = systemd.journal(unit);
    assert_eq!(systemd.property(unit, "Result"), "success", "{journal}");
    let status = systemd.property(unit, "ExecMainStatus");
    assert!(["0", "3"].contains(&status.as_str()), "{status}: {journal}");
    for word in ["EPERM", "not permitted", "seccomp", "panicked"] {
        assert!(!journal.contains(word), "{journal}");
    }
}

/// Make sure that a job that only the site's configuration knows is found by its number
/// while root alone may write the configuration, and not when others may.
#[test]
fn jobs_that_the_site_describes() {
    with_systemd(&[], |systemd| {
        let table = "[[owner]]\\ncgroup = \"/acme.slice/u{uid}-job{job}.service\"\\nkind = \"acme\"\\n";
        systemd.run("sh", &["-c", &format!("umask 022; printf '{table}' >/etc/gpumap.toml")]);
        systemd.run("systemd-run", &["--unit=u7-job4242", "--slice=acme.slice", "sleep", "60"]);
        let ask = || systemd.command("gpumap").args(["--json", "job", "4242"]).output().expect("gpumap");
        let found = json(&String::from_utf8_lossy(&ask().stdout));
        let owner = &found["cgroups"][0]["owner"];
        assert_eq!(
            (&owner["kind"], &owner["job_id"], &owner["uid"]),
            (&"acme".into(), &4242.into(), &7.into())
        );
        systemd.run("chmod", &["666", "/etc/gpumap.toml"]);
        let refused = ask();
        let said = String::from_utf8_lossy(&refused.stdout);
        assert!(matches!(refused.status.code(), Some(2 | 3)) && !said.contains("\"acme\""), "{said}");
    });
}

/// What Debian's template says of devices, and what nspawn needs to run here.
const NSPAWN: &str = "\
[Service]
ExecStart=systemd-nspawn --quiet --register=no --keep-unit --directory=/mnt/test/tree \
    --resolv-conf=off --timezone=off --setenv=CUDA_VISIBLE_DEVICES=1 /bin/sleep 600
KillMode=mixed
Slice=machine.slice
Delegate=yes
DevicePolicy=closed
DeviceAllow=/dev/net/tun rwm
DeviceAllow=char-pts rw
";

/// Make sure that a container of systemd-nspawn is told as that, with the rules of its unit,
/// and its monitor as its own part.
#[test]
fn nspawn() {
    for program in ["systemd-nspawn", "busybox"] {
        if !host::is_installed(program) {
            return host::skip(&format!("{program} is not installed"));
        }
    }
    with_systemd(&[], |systemd| {
        let tree = systemd.work().join("tree");
        for directory in ["bin", "etc", "usr"] {
            std::fs::create_dir_all(tree.join(directory)).expect("a directory");
        }
        std::fs::copy("/bin/busybox", tree.join("bin/sleep")).expect("a static program");
        // nspawn wants the tree of an operating system.
        std::fs::write(tree.join("etc/os-release"), "ID=test\n").expect("a file");
        let unit = "systemd-nspawn@web.service";
        let file = systemd.work().join(unit);
        std::fs::write(&file, NSPAWN).expect("a file");
        systemd.run("cp", &[&format!("/mnt/test/{unit}"), "/run/systemd/system/"]);
        systemd.run("systemctl", &["daemon-reload"]);
        systemd.run("systemctl", &["start", unit]);
        let began = Instant::now();
        let rows = loop {
            let document = json(&systemd.run("gpumap", &["--json", "node"]));
            let rows = document["owners"].as_array().cloned().unwrap_or_default();
            let rows: Vec<Value> = rows.into_iter().filter(|row| row["owner"]["kind"] == "nspawn").collect();
            if rows.iter().any(|row| row["cgroup"].as_str().is_some_and(|path| path.ends_with("web.service")))
            {
                break rows;
            }
            assert!(began.elapsed() < PATIENCE, "{document}\n{}", systemd.journal(unit));
            std::thread::sleep(Duration::from_millis(100));
        };
        assert!(rows.iter().all(|row| row["owner"]["name"] == "web"), "{rows:?}");
        let path = "/machine.slice/systemd-nspawn@web.service/payload";
        let refused = systemd.command("gpumap").args(["check", "--cgroup", path, "c 195:0"]).status();
        assert_eq!(refused.expect("nsenter").code(), Some(1));
        systemd.run("gpumap", &["check", "--cgroup", path, "c 1:3"]);
        let payload = json(&systemd.run("gpumap", &["--json", "cgroup", path]));
        assert_eq!(payload["cgroups"][0]["owner"]["part"], Value::Null, "{payload}");
        let monitor = "/machine.slice/systemd-nspawn@web.service/supervisor";
        let monitor = json(&systemd.run("gpumap", &["--json", "cgroup", monitor]));
        assert_eq!(monitor["cgroups"][0]["owner"]["part"], "monitor", "{monitor}");
        systemd.run("systemctl", &["stop", unit]);
    });
}
