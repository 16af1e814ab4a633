//! Runs the examples for other things than Slurm: the check of NHC with stand-ins
//! for what NHC has, the Nagios command, the systemd units.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::host;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Saved nodes with one critical finding and with none.
const CRITICAL: &str = "fixtures/audit/dropped-denials/trigger.json";
const CLEAN: &str = "fixtures/audit/double-grant/clean.json";

/// A directory with a `gpumap` in it that is this script.
fn path_with(name: &str, script: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checks-{name}"));
    fs::create_dir_all(&dir).expect("a directory");
    let gpumap = dir.join("gpumap");
    fs::write(&gpumap, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&gpumap, fs::Permissions::from_mode(0o755)).expect("a mode");
    dir
}

/// The gpumap under test, looking at a saved node.
fn saved(node: &str) -> String {
    format!("exec '{}' --from '{ROOT}/{node}' \"$@\"", env!("CARGO_BIN_EXE_gpumap"))
}

/// The configuration that makes the finding of [`CRITICAL`] a warning.
fn warning() -> String {
    let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checks.toml");
    fs::write(&config, "[severity]\ndropped-denials = \"warning\"\n").expect("a file");
    format!("{} --config '{}'", saved(CRITICAL), config.display())
}

/// Runs the check as NHC does: what was said and the exit status.
fn nhc(name: &str, script: &str, arguments: &str) -> (String, Option<i32>) {
    let path = format!("{}:/usr/bin:/bin", path_with(name, script).display());
    let stubs = "die() { echo \"die $*\"; return 0; }\nlog() { echo \"log $*\"; }";
    let text = format!("{stubs}\n. '{ROOT}/examples/nhc/gpumap.nhc'\ncheck_gpumap_isolation {arguments}");
    let output = Command::new("bash").args(["-c", &text]).env_clear().env("PATH", path).output();
    let output = output.expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (said(&output), output.status.code())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Make sure that the check of NHC fails for what it was asked to and for
/// nothing else, and that a gpumap which is broken in any way is logged.
#[test]
fn nhc_check() {
    let (said, code) = nhc("critical", &saved(CRITICAL), "");
    assert!(said.starts_with("die 1 check_gpumap_isolation: dropped-denials: "), "{said}");
    assert!(!said.contains('|') && said.lines().count() == 1, "{said}");
    assert_eq!(code, Some(1));
    for (limit, expected) in [("", 0), ("critical", 0), ("warning", 1)] {
        let (said, code) = nhc("warning", &warning(), limit);
        assert_eq!((said.starts_with("die 1 "), code), (expected == 1, Some(expected)), "{said}");
    }
    assert_eq!(nhc("clean", &saved(CLEAN), "warning"), (String::new(), Some(0)));
    for broken in ["exit 1", "exit 2", "echo usage; exit 2", "kill -SEGV $$", "exit 127"] {
        let (said, code) = nhc("broken", broken, "warning");
        assert!(said.starts_with("log check_gpumap_isolation: gpumap could not tell"), "{broken}: {said}");
        assert_eq!(code, Some(0), "{broken}");
    }
}

/// Make sure that the Nagios command, without sudo, prints one line with
/// performance data and has Nagios' exit status.
#[test]
fn nagios() {
    let text = fs::read_to_string(format!("{ROOT}/examples/nagios/gpumap.cfg")).expect("a file");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("command_line")).expect("a command");
    let command = line.trim().replace("/usr/bin/sudo /usr/bin/", "");
    let cases = [
        ("OK", 0, saved(CLEAN)),
        ("WARNING", 1, warning()),
        ("CRITICAL", 2, saved(CRITICAL)),
        ("UNKNOWN", 3, saved("fixtures/no-such.json")),
    ];
    for (state, code, script) in cases {
        let path = format!("{}:/usr/bin:/bin", path_with(&format!("nagios-{code}"), &script).display());
        let output = Command::new("sh").args(["-c", &command]).env("PATH", path).output().expect("sh");
        let said = said(&output);
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(code)), "{said}");
        assert!(said.starts_with(&format!("GPUMAP {state} - ")), "{said}");
        if code < 3 {
            let (_, data) = said.trim().split_once('|').expect("performance data");
            let number = |entry: &str| {
                entry
                    .split_once('=')
                    .is_some_and(|(_, value)| value.starts_with(|c: char| c.is_ascii_digit()))
            };
            assert!(data.split(' ').count() == 5 && data.split(' ').all(number), "{data}");
        }
    }
}

/// Make sure that sudo is told the whole command and nothing that stands for
/// more: with a pattern, the monitoring user could write files as root.
#[test]
fn nagios_sudoers() {
    let text = fs::read_to_string(format!("{ROOT}/examples/nagios/gpumap.cfg")).expect("a file");
    let command = text.lines().find_map(|line| line.trim().strip_prefix("command_line")).expect("a command");
    let command = command.trim().strip_prefix("/usr/bin/sudo ").expect("sudo");
    let (_, allowed) = text.lines().find_map(|line| line.split_once("NOPASSWD:")).expect("a rule");
    assert_eq!(allowed.trim(), command);
    assert!(!allowed.contains(['*', '?', '[', '!', '^']), "{allowed}");
}

/// Make sure that systemd finds nothing wrong with the units.
#[test]
fn systemd_units() {
    let dir = format!("{ROOT}/examples/systemd");
    let text = fs::read_to_string(format!("{dir}/gpumap-audit.service")).expect("a unit");
    assert!(text.contains("ExecStart=/usr/bin/gpumap audit "));
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return host::skip("systemd-analyze is not installed");
    }
    // Where the program is, and the whole of a timer with its service.
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checks-units");
    fs::create_dir_all(&work).expect("a directory");
    for service in ["gpumap-audit.service", "gpumap-watch.service", "gpumap-export.service"] {
        let text = fs::read_to_string(format!("{dir}/{service}")).expect("a unit");
        let text = text.replace("/usr/bin/gpumap", env!("CARGO_BIN_EXE_gpumap"));
        fs::write(work.join(service), text).expect("a unit");
    }
    fs::copy(format!("{dir}/gpumap-audit.timer"), work.join("gpumap-audit.timer")).expect("a unit");
    let verify = |unit: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(work.join(unit)).output().expect("systemd-analyze")
    };
    for unit in
        ["gpumap-audit.service", "gpumap-audit.timer", "gpumap-watch.service", "gpumap-export.service"]
    {
        let output = verify(unit);
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours: Vec<&str> = complaints.lines().filter(|line| line.contains("gpumap-")).collect();
        assert_eq!(ours, Vec::<&str>::new());
        assert!(output.status.success(), "{complaints}");
    }
}

/// Make sure that the units stay as closed as examples/README.md says: the
/// figure of `systemd-analyze security`, 0 to 10, times ten.
#[test]
fn sandboxes() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return host::skip("systemd-analyze is not installed");
    }
    for (unit, figure) in
        [("gpumap-audit.service", 26), ("gpumap-watch.service", 28), ("gpumap-export.service", 28)]
    {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=yes", "--no-pager"]).arg(format!("--threshold={figure}"));
        let output =
            command.arg(format!("{ROOT}/examples/systemd/{unit}")).output().expect("systemd-analyze");
        let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        assert!(output.status.success(), "{unit} is more open than {figure}: {last}");
    }
}

/// Make sure that a service lets gpumap keep what it needs and gain nothing.
#[test]
fn services_have_the_rights() {
    for unit in ["gpumap-audit.service", "gpumap-watch.service", "gpumap-export.service"] {
        let text = fs::read_to_string(format!("{ROOT}/examples/systemd/{unit}")).expect("a unit");
        let bounding = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let bounding: Vec<&str> = bounding.expect("a set").split(' ').collect();
        // CAP_NET_ADMIN: before Linux 6.9 the kernel lists programs to nobody else.
        for needed in
            ["CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG"]
        {
            assert!(bounding.contains(&needed), "{unit}: {needed}");
        }
        for closed in ["NoNewPrivileges=yes", "ProtectSystem=strict", "SystemCallArchitectures=native"] {
            assert!(text.lines().any(|line| line == closed), "{unit}: {closed}");
        }
    }
}
