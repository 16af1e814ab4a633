//! What somebody types who does not know gpumap yet: paths from where they
//! are, names as other tools print them, wrong directories, no rights. No
//! answer may be about something else than what was asked.
//!
//! Needs root, a cgroup2 mount and bpf(2); without them the tests say so and
//! pass, unless `GPUMAP_REQUIRE_ROOT=1`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is test code: a surprise ends the test"
)]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::bpf::MULTI;
use support::cgroup::{self, Cgroup};
use support::node::{self, Sleeper, relative};
use support::root;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs gpumap in a working directory.
fn at(dir: &Path, args: &[&str]) -> Output {
    node::command(args).current_dir(dir).output().expect("the built program")
}

/// Make sure that a relative path in a cgroup's directory means what is there,
/// and never the root.
#[test]
fn relative_paths() {
    if !root::available() {
        return;
    }
    let levels = Cgroup::chain(2).expect("scratch cgroups");
    node::attach_deny(&levels[1], 195, 3, MULTI);
    let (top, below) = (levels[0].path(), levels[1].path());
    let name = below.file_name().and_then(|name| name.to_str()).expect("a name");
    for (dir, path) in [
        (below, "."),
        (below, "./"),
        (top, name),
        (top, "./below"),
        (below, "../below"),
        (below, "../../../sys/../../../../sys"),
    ] {
        let output = at(dir, &["check", "--cgroup", path, "c 195:3"]);
        if path.contains("sys") {
            assert_eq!(output.status.code(), Some(2), "{path} leads out of the hierarchy: {}", out(&output));
        } else {
            assert_eq!((out(&output).as_str(), output.status.code()), ("deny\tc 195:3\n", Some(1)), "{path}");
        }
    }
    assert_eq!(out(&at(top, &["check", "--cgroup", ".", "c 195:3"])), "allow\tc 195:3\n");
    assert_eq!(out(&at(below, &["check", "--cgroup", "..", "c 195:3"])), "allow\tc 195:3\n");
    let shown = out(&at(below, &["cgroup", "."]));
    assert!(shown.starts_with(&format!("{}\n", relative(below))), "{shown}");
    let differ = at(top, &["diff", ".", "below"]);
    assert_eq!(differ.status.code(), Some(1), "{}", out(&differ));
    // From elsewhere a path without a leading slash is still one from the root.
    let from_root = relative(below).trim_start_matches('/').to_owned();
    let elsewhere = at(Path::new("/"), &["check", "--cgroup", &from_root, "c 195:3"]);
    assert_eq!(out(&elsewhere), "deny\tc 195:3\n", "{}", err(&elsewhere));
    // And a path that leads to a cgroup by the file system alone is that cgroup.
    let mount = cgroup::mount().expect("a mount");
    let (above, mounted) = (mount.parent().expect("above"), mount.file_name().expect("a name"));
    let path = Path::new(mounted).join(&from_root);
    let by_files = at(above, &["check", "--cgroup", path.to_str().expect("text"), "c 195:3"]);
    assert_eq!(out(&by_files), "deny\tc 195:3\n", "{}", err(&by_files));
}

/// Runs a script with gpumap as `$1` and more arguments in a mount namespace
/// of its own.
fn with_mounts(script: &str, args: &[&Path]) -> Output {
    let script = format!("mount --make-rprivate / && {script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &script, "sh", env!("CARGO_BIN_EXE_gpumap")]).args(args);
    command.output().expect("unshare")
}

/// Make sure that of several cgroup2 mounts the one is used that a path leads
/// to.
#[test]
fn hidden_mounts() {
    if !root::available() {
        return;
    }
    let levels = Cgroup::chain(2).expect("scratch cgroups");
    node::attach_deny(&levels[1], 195, 3, MULTI);
    let sleeper = Sleeper::in_cgroup(&levels[1]);
    let (mount, pid) = (cgroup::mount().expect("a mount"), sleeper.pid().to_string());
    let scratch = levels[0].path();
    // A part of the hierarchy over the whole.
    let over = with_mounts(
        r#"mount --bind "$3" "$2"; "$1" check --pid "$4" 'c 195:3'"#,
        &[&mount, scratch, Path::new(&pid)],
    );
    assert_eq!(out(&over), "deny\tc 195:3\n", "{}", err(&over));
    // Something else over it, and the hierarchy again in another place.
    let elsewhere = with_mounts(
        r#"mount -t tmpfs none "$2"; mount -t tmpfs none /mnt; mkdir /mnt/cg; mount -t cgroup2 none /mnt/cg
           "$1" check --pid "$3" 'c 195:3'; "$1" --json cgroup / | grep -o '"cgroup_root": *"[^"]*"'"#,
        &[&mount, Path::new(&pid)],
    );
    assert!(out(&elsewhere).starts_with("deny\tc 195:3\n"), "{}{}", out(&elsewhere), err(&elsewhere));
    // Nothing left of it: an error, and not an answer about something else.
    let gone = with_mounts(r#"mount -t tmpfs none "$2"; "$1" cgroup /"#, &[&mount]);
    assert_eq!(gone.status.code(), Some(2), "{}", out(&gone));
    assert!(err(&gone).contains("a later mount hides it"), "{}", err(&gone));
}
