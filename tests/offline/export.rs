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
    for (args, advice) in
        [(&["--every", "5s"][..], "--textfile FILE"), (&["--listen", "1"], "leave out --every and --listen")]
    {
        let output = export(&node("slurm-jobs"), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(said(&output).contains(advice), "{}", said(&output));
    }
}

/// Make sure that dcgm-exporter's directory has a file for each GPU of a job, by NVML's
/// index, that files of ended jobs go, that others stay, and that a directory that
/// everybody may write to is refused.
#[test]
fn job_files() {
    let dir = scratch("job-files");
    for (name, text) in [("9", "1\n"), ("0.5", "1\n"), ("notes", "mine")] {
        fs::write(dir.join(name), text).unwrap();
    }
    let args = ["--dcgm-job-mapping", dir.to_str().unwrap()];
    let output = export(&node("slurm-jobs"), &args);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{output:?}");
    let mut files: Vec<(String, String)> = fs::read_dir(&dir)
        .unwrap()
        .flatten()
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect();
    files.sort();
    let expected = [("0", "4712\n"), ("1", "4714\n"), ("2", "4711\n"), ("3", "4712\n"), ("notes", "mine")];
    assert_eq!(files, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert_eq!(fs::metadata(dir.join("0")).unwrap().permissions().mode() & 0o777, 0o644);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let output = export(&node("slurm-jobs"), &args);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Make sure that what a user puts in the place of the file is neither written to nor
/// waited for: a link, another name of a file, a FIFO with a reader that takes nothing, a
/// directory.
#[test]
fn something_in_its_place() {
    let dir = scratch("in-its-place");
    let (file, other) = (dir.join("gpumap.prom"), dir.join("other"));
    let write = || export(&node("slurm-jobs"), &["--textfile", file.to_str().unwrap()]);
    fs::write(&other, "mine").unwrap();
    fs::hard_link(&other, &file).unwrap();
    assert_eq!(write().status.code(), Some(0));
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    assert!(fs::read_to_string(&file).unwrap().contains("\ngpumap_gpus 4\n"));
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).unwrap();
    let reader = fs::OpenOptions::new().read(true).write(true).open(&file).unwrap();
    let output = write();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("it is no regular file"), "{output:?}");
    drop(reader);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(write().status.code(), Some(2));
}

/// Make sure that what has the name of a job file is replaced and never followed, and
/// that what cannot be removed keeps no other file from being written.
#[test]
fn odd_job_files() {
    let dir = scratch("odd-job-files");
    let outside = dir.with_extension("outside");
    fs::write(&outside, "mine").unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("0")).unwrap();
    nix::unistd::mkfifo(&dir.join("1"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::hard_link(&outside, dir.join("2")).unwrap();
    fs::create_dir(dir.join("9")).unwrap();
    let output = export(&node("slurm-jobs"), &["--dcgm-job-mapping", dir.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("odd-job-files/9"), "{output:?}");
    for (name, jobs) in [("0", "4712\n"), ("1", "4714\n"), ("2", "4711\n"), ("3", "4712\n")] {
        let path = dir.join(name);
        assert!(path.symlink_metadata().unwrap().is_file(), "{name}");
        assert_eq!(fs::read_to_string(path).unwrap(), jobs, "{name}");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    fs::remove_file(outside).unwrap();
}

/// Make sure that an answer with gaps is written, says so and ends with 3.
#[test]
fn incomplete() {
    let output = export(&node("runc-container"), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.lines().any(|line| line == "gpumap_complete 0"), "{text}");
}
