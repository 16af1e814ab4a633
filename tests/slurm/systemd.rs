//! The example units, started by a real systemd with every restriction that
//! they set (root, systemd).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
