//! What the kernel lets gpumap itself open: where it is asked for, and where programs may not be
//! read.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::bpf::MULTI;
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::node::{self, Sleeper, relative};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs gpumap as this user in a cgroup.
fn inside(cgroup: &Cgroup, uid: &str, args: &[&str]) -> Output {
    let script = r#"echo $$ > "$1/cgroup.procs" && uid=$2 && shift 2 && exec setpriv --reuid $uid --regid $uid --clear-groups "$@""#;
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(cgroup.path())
        .args([uid, env!("CARGO_BIN_EXE_gpumap")])
        .args(args);
    command.output().expect("a shell")
}

/// Make sure that check --self tells what the kernel does to gpumap itself,
/// with rights and without.
#[test]
fn asked_for() {
    let Some(_host) = host::shared() else { return };
    if !host::is_installed("setpriv") || !Path::new("/dev/full").exists() {
        return host::skip("setpriv or /dev/full is missing");
    }
    let scratch = Cgroup::new().expect("a cgroup");
    node::attach_deny(&scratch, 1, 7, MULTI);
    for uid in ["0", "65534"] {
        let output = inside(
            &scratch,
            uid,
            &["check", "--self", "c 1:7 rw", "/dev/full", "c 1:7 r", "c 1:3 rw", "/dev/null"],
        );
        let expected = "deny\tc 1:7 rw\ndeny\t/dev/full\ndeny\tc 1:7 r\nallow\tc 1:3 rw\nallow\t/dev/null\n";
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(1)), "uid {uid}");
        let output = inside(&scratch, uid, &["check", "--self", "c 1:3 m"]);
        assert_eq!(output.status.code(), Some(3), "uid {uid}");
        let output = inside(&scratch, uid, &["--json", "check", "--self", "c 1:7", "c 1:3"]);
        let (document, code) = node::document(&output);
        assert_eq!((code, &document["checks"][0]["verdict"]), (1, &"deny".into()));
        assert!(document["checks"][0]["why"].as_str().is_some_and(|why| why.contains("device policy")));
        assert_eq!(document["checks"][1]["verdict"], "allow");
    }
    let output = node::gpumap(&["check", "--self", "c 1:7 rw"]);
    assert_eq!(output.status.code(), Some(0), "outside of the cgroup");
}

/// Make sure that somebody without rights gets the kernel's own answer wherever gpumap's own
/// cgroup is asked about, and nowhere else.
#[test]
fn instead() {
    let Some(_host) = host::shared() else { return };
    if !host::is_installed("setpriv") {
        return host::skip("setpriv is not installed");
    }
    let (own, other) = (Cgroup::new().expect("a cgroup"), Cgroup::new().expect("a cgroup"));
    let gpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/four-h200");
    let (own_path, other_path) = (relative(own.path()), relative(other.path()));
    let sleeper = Sleeper::in_cgroup(&own);
    let pid = sleeper.pid().to_string();
    for (args, is_asked) in [
        (vec!["node"], true),
        (vec!["cgroup", own_path.as_str()], true),
        (vec!["pid", pid.as_str()], true),
        (vec!["cgroup", other_path.as_str()], false),
    ] {
        let args = [vec!["--gpu-root", gpus], args].concat();
        let output = inside(&own, "65534", &args);
        let said = text(&output.stdout);
        let is_said =
            said.split_whitespace().collect::<Vec<_>>().join(" ").contains("kernel was asked instead");
        assert_eq!((output.status.code(), is_said), (Some(3), is_asked), "{args:?}: {said}");
        let (document, _) = node::document(&inside(&own, "65534", &[vec!["--json"], args].concat()));
        let asked = document["own_access"].as_array().map(Vec::len);
        assert_eq!(asked, is_asked.then_some(4), "{document}");
    }
}
