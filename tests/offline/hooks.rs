//! The hooks of `examples/slurm` with a gpumap that is missing, broken or hangs: Slurm sees
//! no failure, and the log says what happened.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SLURM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/slurm");

/// A script in a directory.
fn script(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a hook logs with this in place of gpumap, and its exit status. Programs are looked
/// for in a directory of the test first, and its marks are there.
fn logged(hook: &str, gpumap: Option<&str>) -> (String, Option<i32>) {
    let name = format!("hooks-{hook}-{:x}", gpumap.unwrap_or("none").bytes().map(u64::from).sum::<u64>());
    let work: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).unwrap();
    let log = work.join("log");
    std::fs::write(&log, "").unwrap();
    script(&work, "logger", &format!("echo \"$*\" >>'{0}'; [ $# -gt 4 ] || cat >>'{0}'", log.display()));
    if let Some(text) = gpumap {
        script(&work, "gpumap", text);
    }
    let text = std::fs::read_to_string(format!("{SLURM}/{hook}")).unwrap();
    let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin\n", work.display());
    let text = text.replacen("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", &path, 1);
    assert!(text.contains(&path), "{hook} sets PATH");
    let text = text.replace("/run/gpumap", &work.display().to_string());
    let mut command = Command::new("sh");
    command.args(["-c", &text]).env_clear().env("SLURM_JOB_ID", "77").env("SLURM_JOB_GPUS", "0");
    let code = command.stdin(std::process::Stdio::null()).status().unwrap().code();
    (std::fs::read_to_string(log).unwrap(), code)
}

/// Make sure that each way in which gpumap can fail is logged with its status, and that no
/// hook fails for it.
#[test]
fn failures_are_logged() {
    for hook in ["prolog.sh", "epilog.sh"] {
        for (gpumap, word) in [
            (None, "exit 127"),
            (Some("echo 'gpumap: no cgroup2' >&2; exit 2"), "exit 2"),
            (Some("trap '' TERM; sleep 60"), "exit 137"),
            (Some("kill -SEGV $$"), "exit 139"),
        ] {
            let (said, code) = logged(hook, gpumap);
            assert_eq!(code, Some(0), "{hook} {gpumap:?}");
            assert!(said.contains("could not tell") && said.contains(word), "{hook} {gpumap:?}: {said}");
        }
        let (said, code) = logged(hook, Some("exit 0"));
        assert_eq!((said.as_str(), code), ("", Some(0)), "{hook}");
    }
}

/// Make sure that what is left of a job is logged, and why gpumap does not know more.
#[test]
fn leftovers_are_logged() {
    let line = "printf '12\\t1\\t1000\\tenvironment\\tnvidia0\\tended\\n'";
    let (said, _) = logged("epilog.sh", Some(&format!("{line}; exit 1")));
    assert!(said.contains("left process 12 (uid 1000, by environment) on nvidia0: ended"), "{said}");
    assert!(!said.contains("could not tell"), "{said}");
    let (said, _) =
        logged("epilog.sh", Some(&format!("{line}; echo 'one process cannot be read' >&2; exit 3")));
    assert!(said.contains("left process 12") && said.contains("exit 3"), "{said}");
    assert!(said.contains("one process cannot be read"), "{said}");
}

/// Make sure that every hook can be executed, as Slurm asks of it.
#[test]
fn executable() {
    for entry in std::fs::read_dir(SLURM).unwrap() {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{}", path.display());
    }
}
