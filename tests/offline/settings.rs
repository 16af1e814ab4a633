//! Tests the guard of kernel settings in `support::sysctl`, on a plain file.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::support::sysctl::Setting;

/// Make sure that a setting comes back when the value is dropped, and when the
/// process that changed it is killed with its whole process group.
#[test]
fn comes_back() {
    let file = std::env::temp_dir().join(format!("gpumap-setting-{}", std::process::id()));
    fs::write(&file, "1\n").unwrap();
    let read = || fs::read_to_string(&file).unwrap_or_default();
    let setting = Setting::change_file(file.clone(), "2").unwrap();
    assert_eq!(read(), "2");
    drop(setting);
    assert_eq!(read(), "1");
    kill_one_that_changed(&file);
    let end = Instant::now() + Duration::from_secs(20);
    while read() != "1" && Instant::now() < end {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(read(), "1");
    fs::remove_file(&file).unwrap();
}

/// Runs this test binary again with `changes_and_waits`, and kills it once it has
/// changed the file.
fn kill_one_that_changed(file: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "settings::changes_and_waits"])
        .env("GPUMAP_SETTING", file)
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while fs::read_to_string(file).unwrap_or_default() != "2" && Instant::now() < end {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "2");
    let group = Pid::from_raw(child.id().try_into().unwrap());
    killpg(group, Signal::SIGKILL).unwrap();
    child.wait().unwrap();
}

/// The child of `comes_back`.
#[test]
#[ignore = "run by comes_back"]
fn changes_and_waits() {
    let Some(file) = std::env::var_os("GPUMAP_SETTING") else { return };
    let _setting = Setting::change_file(file.into(), "2").unwrap();
    sleep(Duration::from_secs(60));
}
