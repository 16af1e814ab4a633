//! `gpumap export` from outside: what it refuses, and the file that it writes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn node(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/nodes").join(format!("{name}.json"))
}

fn export(node: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    // A service manager's umask, which must not hide the file from node_exporter.
    command.args(["-c", "umask 077; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_gpumap"), "--from"]);
    command.arg(node).arg("export").args(args).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("export-{name}"));
    let _left_of_another_run = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Make sure that the file has what is printed otherwise, that everybody may read it,
/// that it is replaced and not written over, and that nothing else is left.
#[test]
fn textfile() {
    let dir = scratch("textfile");
    let path = dir.join("gpumap.prom");
    let args = ["--textfile", path.to_str().unwrap()];
    let mut inodes = Vec::new();
    for _ in 0..2 {
        let output = export(&node("slurm-jobs"), &args);
        assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
        inodes.push((metadata.ino(), fs::File::open(&path).unwrap()));
    }
    assert_ne!(inodes[0].0, inodes[1].0);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    assert_eq!(fs::read(&path).unwrap(), export(&node("slurm-jobs"), &[]).stdout);
}

/// Make sure that a file that node_exporter would not read is refused, and that what
/// was there stays where writing fails.
#[test]
fn refused() {
    let dir = scratch("refused");
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = dir.join("gpumap.txt");
    let output = export(&node("slurm-jobs"), &["--textfile", wrong.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("names end in .prom") && !wrong.exists(), "{}", said(&output));
    let missing = dir.join("no/gpumap.prom");
    let output = export(&node("slurm-jobs"), &["--textfile", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = export(&node("slurm-jobs"), &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("gpumap node --json"), "{}", said(&output));
}

/// Make sure that an answer with gaps is written, says so and ends with 3.
#[test]
fn incomplete() {
    let output = export(&node("runc-container"), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.lines().any(|line| line == "gpumap_complete 0"), "{text}");
}
