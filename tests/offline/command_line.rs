//! The command line from outside: help, errors, envelopes, exit codes.
//!
//! Expected texts lie in `fixtures/cli`; `SNAPSHOTS=overwrite cargo test`
//! accepts new ones. `fixtures/nodes/*.json` are saved observations; each is
//! run through the commands and compared with the texts beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

use crate::support::shell_words;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(args).current_dir(fixtures().join("cli")).env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

fn gpumap(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn gpumap_with_stdin(args: &[&str], input: &[u8]) -> Output {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stdin-{}", args.join("-").replace('/', "_")));
    fs::write(&path, input).unwrap();
    command(args).stdin(fs::File::open(path).unwrap()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn golden(actual: &[u8], path: impl AsRef<Path>) {
    let path = fixtures().join(path);
    assert_data_eq!(text(actual), Data::read_from(&path, Some(DataFormat::Text)).raw());
}

/// Runs a command that must fail with exit code 2 and one line on standard
/// error, and again with --json, where an envelope must say the same.
fn refused(args: &[&str]) -> String {
    let output = gpumap(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    let line = text(&output.stderr);
    assert!(line.starts_with("gpumap: ") && line.lines().count() == 1, "{args:?}: {line}");

    let output = gpumap(&[&["--json"], args].concat());
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["schema"], &document["complete"]), (&"gpumap/1".into(), &false.into()));
    assert!(document["errors"][0]["why"].as_str().is_some_and(|why| line.contains(why)), "{document}");
    line.trim_start_matches("gpumap: ").trim_end().to_owned()
}

/// Make sure that every help text is as committed.
#[test]
fn help() {
    let names = [
        "node",
        "job",
        "pid",
        "cgroup",
        "prog",
        "check",
        "explain",
        "diff",
        "audit",
        "leftovers",
        "free",
        "activity",
        "vgpu",
        "repair",
        "report",
        "fleet",
        "doctor",
        "export",
        "top",
        "snapshot",
    ];
    for name in names.into_iter().chain(["schema", "completions"]) {
        let output = gpumap(&["help", name]);
        assert_eq!(output.status.code(), Some(0));
        golden(&output.stdout, format!("cli/help/{name}.txt"));
    }
    golden(&gpumap(&["--help"]).stdout, "cli/help/gpumap.txt");
    golden(&gpumap(&["-h"]).stdout, "cli/help/short.txt");
}

/// Make sure that without a command the node is shown.
#[test]
fn no_command() {
    let args = ["--from", "empty.json"];
    let (short, long) = (gpumap(&args), gpumap(&["--from", "empty.json", "node"]));
    assert_eq!(short.status.code(), Some(0), "{}", text(&short.stderr));
    assert_eq!(text(&short.stdout), text(&long.stdout));
    assert!(text(&short.stdout).starts_with("This node has no GPU\n"), "{}", text(&short.stdout));
    let output = gpumap(&["--json", "--from", "empty.json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["command"], &document["complete"]), (&"node".into(), &true.into()));
}

/// Make sure that a saved observation is not passed over silently by what asks the
/// kernel.
#[test]
fn own_access_of_a_saved_node() {
    let said = refused(&["--from", "empty.json", "check", "--self", "c 1:3"]);
    assert!(said.starts_with("--self: ") && said.contains("leave out --from"), "{said}");
}

/// Make sure that what is no job, and a job that is not there, are told apart.
#[test]
fn jobs() {
    let forms = "'4711_x': not a job; write its number, such as 4711, or its SLUID, such as sEKNKTV3WPV500; \
                 a step as 4711.0, 4711.batch; an array task as 4711_3, several as 4711_[3-5,9] or 4711_*; gpumap job lists those that are here";
    for args in
        [&["job", "4711_x"][..], &["leftovers", "--job", "4711_x"], &["check", "--job", "4711_x", "c 1:3"]]
    {
        assert_eq!(refused(&[&["--from", "empty.json"], args].concat()), forms);
    }
    let absent = "job 4711: has no cgroup here; gpumap job shows which jobs there are, gpumap job 4711_* the tasks of an array";
    for args in
        [&["job", "4711"][..], &["check", "--job", "4711", "c 1:3"], &["explain", "--job", "4711", "c 1:3"]]
    {
        assert_eq!(refused(&[&["--from", "empty.json"], args].concat()), absent);
    }
    assert_eq!(
        refused(&["--from", "empty.json", "pid", "7"]),
        "pid 7: no such process in the saved observation"
    );
}

/// Make sure that only the process asked about is shown, with its cgroup.
#[test]
fn one_process() {
    let node = fixtures().join("nodes/slurm-4gpu.json");
    let output = gpumap(&["--from", node.to_str().unwrap(), "pid", "126"]);
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("process ").count(), 1, "{shown}");
    assert!(shown.starts_with("process 126  train\n") && shown.contains("\nRules\n"), "{shown}");
}

/// Make sure that nothing found in an observation without details of processes
/// is no yes, on both kinds of output.
#[test]
fn leftovers() {
    let output = gpumap(&["--from", "empty.json", "leftovers", "--job", "4711"]);
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("No process of job 4711 was seen to hold a GPU, but not all could be seen.\n", Some(3))
    );
    assert!(text(&output.stderr).contains("does not tell what processes ask for and hold"));
    let output = gpumap(&["--from", "empty.json", "leftovers", "--job", "4711", "--porcelain"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(3)));
    let output = gpumap(&["--json", "leftovers", "--job", "4711", "--porcelain"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--porcelain: does not go with --json"));
}

/// Make sure that the hook's environment is only taken where it is one, and
/// for the job it names.
#[test]
fn hook_environment() {
    let run = |args: &[&str], id: Option<&str>| {
        let mut command = command(args);
        command.env_remove("SLURM_JOB_ID");
        if let Some(id) = id {
            command.env("SLURM_JOB_ID", id);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?} {id:?}");
        text(&output.stderr)
    };
    for args in [&["job", "--from-env"][..], &["leftovers", "--from-env"]] {
        assert!(run(args, None).contains("--from-env: SLURM_JOB_ID is not set"));
        assert!(run(args, Some("x")).contains("SLURM_JOB_ID is not a job number"));
    }
    let other = run(&["leftovers", "--from-env", "--job", "5"], Some("6"));
    assert!(other.contains("--job 5: names another job than SLURM_JOB_ID"), "{other}");
    let saved = run(&["--from", "empty.json", "job", "--from-env"], Some("6"));
    assert!(saved.contains("--from-env: does not go with --from"), "{saved}");
}

/// Make sure that a bad command line is exit code 2, and an envelope if JSON
/// was asked for.
#[test]
fn usage_errors() {
    for args in
        [&["nonsense"][..], &["check"], &["cgroup", "--timeout", "2"], &["check", "--pid", "x", "c 1:3"]]
    {
        let output = gpumap(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let output = gpumap(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["errors"][0]["code"], "usage", "{args:?}");
    }
}

/// Make sure that a name that a pattern of the shell's made an argument turns no text
/// around on the screen.
#[test]
fn usage_errors_of_hostile_names() {
    for name in ["x\u{202e}y", "x\u{2066}\u{85}y"] {
        let output = gpumap(&["doctor", name]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text.contains("unexpected argument 'x\\u{") && !text.contains(name), "{text:?}");
        assert!(text.contains("Usage: "), "{text:?}");
    }
}

/// Make sure that a bad device is one line that names the grammar.
#[test]
fn bad_devices() {
    let grammar = "; write 'TYPE MAJOR:MINOR [REQUEST]' as one argument, such as 'c 195:3 rw', \
                   a path such as /dev/nvidia3, or a GPU's name, UUID or PCI address";
    for (device, why) in [
        ("c", "not a device"),
        ("", "not a device"),
        ("d 195:3", "no such device type (c, b or a)"),
        ("c 5000:3", "no such major number (0 to 4095, a range of them, or *)"),
        ("c 195:1048576", "no such minor number (0 to 1048575, a range of them, or *)"),
        ("c 195:3 rm", "no such request (r, w, rw, m, f or rwm)"),
        ("c 195:3 rw extra", "not a device"),
    ] {
        for command in ["check", "explain"] {
            assert_eq!(refused(&[command, device]), format!("'{device}': {why}{grammar}"));
        }
    }
    let line = refused(&["check", "c 1:3\x1b[2J"]);
    assert!(line.starts_with("'c 1:3\\x1b[2J': "), "{line}");
}

/// Make sure that files that are no observation are refused for the right
/// reason.
#[test]
fn bad_observations() {
    let from = |file: &str| refused(&["--from", file, "cgroup", "/"]);
    assert_eq!(
        from("newer.json"),
        "newer.json: written by a newer gpumap (gpumap.observation/2); update this gpumap"
    );
    let broken = from("broken.json");
    assert!(
        broken.starts_with("broken.json: not an observation: ") && broken.contains("line 2 column"),
        "{broken}"
    );
    assert_eq!(
        from("answer.json"),
        "answer.json: \"gpumap/1\", not an observation (gpumap.observation/1); save one with gpumap snapshot"
    );
    assert_eq!(from("no-such-file.json"), "no-such-file.json: no such file or directory");
    assert_eq!(
        from("empty.json"),
        "/: no such cgroup in the saved observation; gpumap --from FILE cgroup -r / lists what it holds"
    );
    let line = refused(&["--from", "evil\x1b]0;\u{202e}.json", "cgroup", "/"]);
    assert!(line.starts_with("evil\\x1b]0;\\u{202e}.json: "), "{line}");
}

/// Make sure that a device of which a part is missing is refused with the way to
/// write it.
#[test]
fn incomplete_devices() {
    let check = |device: &str| refused(&["--gpu-root", "../gpu/four-h200", "check", "--self", device]);
    assert_eq!(check("3b:00"), "'3b:00': a PCI address ends with its function: write 3b:00.0");
    let line = check("c:195:3");
    assert!(line.contains("a space, not a colon") && line.contains("'c 195:3 rw'"), "{line}");
}

/// Make sure that `check --self` looks for nodes below `--gpu-root`, and that a file
/// is no device.
#[test]
fn own_access_below_a_root() {
    let output = gpumap(&["--gpu-root", "../gpu/four-h200", "check", "--self", "/dev/nvidia0"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("unknown\t/dev/nvidia0\n", Some(3)));
    let why = text(&output.stderr);
    assert!(why.contains("it is not a device node"), "{why}");
}

/// Make sure that a side of a comparison that is neither is called neither.
#[test]
fn neither_file_nor_cgroup() {
    let line = refused(&["diff", "no-such-file.json", "no-such-file.json"]);
    assert!(line.starts_with("no such file, and no such cgroup: no-such-file.json"), "{line}");
}

/// Make sure that standard input is not read twice.
#[test]
fn one_standard_input() {
    let args = ["--from", "-", "check", "--prog", "-", "c 1:3"];
    let output = gpumap_with_stdin(&args, &fs::read(fixtures().join("cli/empty.json")).unwrap());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("standard input: asked for twice"));
}

/// Make sure that check --self answers line by line and exits with the worst.
#[test]
fn check_own_access() {
    let output = gpumap(&["check", "--self", "/dev/null", "c 1:3 r"]);
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("allow\t/dev/null\nallow\tc 1:3 r\n", Some(0))
    );

    let input = b"c 1:3\n\nnonsense\x1b\n/dev/no-such-node\nc 1:3 r";
    let output = gpumap_with_stdin(&["check", "--self", "-"], input);
    let expected = "allow\tc 1:3\nunknown\tnonsense\\x1b\nunknown\t/dev/no-such-node\nallow\tc 1:3 r\n";
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), (expected, Some(2)));
    assert!(text(&output.stderr).contains("/dev/no-such-node: there is no such node"));

    let output = gpumap(&["--json", "check", "--self", "c 1:3", "c *:3"]);
    assert_eq!(output.status.code(), Some(3));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["checks"][0]["verdict"], "allow");
    assert_eq!(document["checks"][1]["verdict"], "unknown");
    assert!(document["checks"][1]["why"].is_string());
}

/// Make sure that an endless line costs no memory and one answer.
#[test]
fn overlong_line() {
    let mut input = vec![b'x'; 1 << 20];
    input.extend_from_slice(b"\nc 1:3\n");
    let output = gpumap_with_stdin(&["check", "--self", "-"], &input);
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].len() < 5000);
    assert_eq!(lines[1], "allow\tc 1:3");
}

/// Make sure that a reader that goes away is no error, and does not turn a no into a
/// yes: neither that of standard output nor that of both.
#[test]
fn broken_pipe() {
    let denied = ["check", "--prog", "../programs/slurm/22.05.8-job_1.txt", "c 195:3 rw"];
    for (args, exit) in [(&["schema"][..], 0), (&denied, 1), (&["pid", "--from", "empty.json", "1"], 2)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(args).stdout(writer.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{args:?}");
        assert_eq!(output.stderr.is_empty(), exit != 2, "{}", text(&output.stderr));
        let output = command(args).stdout(writer.try_clone().unwrap()).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{args:?}");
    }
}

/// Make sure that `check -` ends when nobody reads its answers, however long its input
/// is, and does not call what it did not look at a yes.
#[test]
fn answers_without_a_reader() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut endless = std::process::Command::new("yes").arg("c 1:3").stdout(Stdio::piped()).spawn().unwrap();
    let input = endless.stdout.take().unwrap();
    let status = command(&["check", "--self", "-"]).stdin(input).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(3));
    endless.wait().unwrap();
}

/// Make sure that a full disk is an error.
#[test]
fn full_disk() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("gpumap: standard output: "));
}

/// Make sure that a saved observation survives being saved again, privately,
/// and that nothing is left beside it.
#[test]
fn snapshot() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshot");
    let _absent = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("again.json");
    fs::write(&file, "old").unwrap();
    let output = gpumap(&["--from", "empty.json", "snapshot", "-o", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    let output = gpumap(&["--from", "empty.json", "snapshot"]);
    assert_eq!(fs::read(&file).unwrap(), output.stdout);

    let output = gpumap(&["--from", "empty.json", "snapshot", "-o", "/no/such/dir/x.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "gpumap: /no/such/dir/x.json: the directory '/no' does not exist; make it first\n"
    );
}

/// Make sure that completion scripts are there and that bash accepts its own.
#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = gpumap(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        for word in ["snapshot", "double-grant", "vgpu-not-in-force"] {
            assert!(text(&output.stdout).contains(word), "{shell} {word}");
        }
        if shell == "bash" {
            let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpumap.bash");
            fs::write(&script, &output.stdout).unwrap();
            assert!(Command::new("bash").arg("-n").arg(script).status().unwrap().success());
        }
    }
}

/// Make sure that every saved node gives the answers stored beside it:
/// `NAME.json` the observation, `NAME/` the texts. `NAME/commands` has one
/// command line each; without it the whole tree is shown.
#[test]
fn saved_nodes() {
    let mut nodes: Vec<PathBuf> = fs::read_dir(fixtures().join("nodes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    nodes.sort();
    for node in nodes {
        let dir = node.with_extension("");
        let commands =
            fs::read_to_string(dir.join("commands")).unwrap_or_else(|_| "cgroup -r /\n".to_owned());
        for (number, line) in commands.lines().filter(|line| !line.starts_with('#')).enumerate() {
            saved_node(&node, line, &dir.join(format!("{number:02}.txt")));
        }
    }
}

/// One command on one saved node: command, answer, errors and exit code in one
/// file that reads like a terminal.
fn saved_node(node: &Path, line: &str, expected: &Path) {
    let args: Vec<String> = shell_words::split(line);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = gpumap(&[&["--from", node.to_str().unwrap()], &args[..]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().unwrap();
    let actual = format!("$ gpumap {line}\n{out}{err}exit {code}\n");
    assert_data_eq!(actual, Data::read_from(expected, Some(DataFormat::Text)).raw());
}

/// Make sure that a usage error is one line of what is wrong and how to write it,
/// and that a missing right is called one.
#[test]
fn sentences() {
    let output = gpumap(&["diff", "/a"]);
    let said = text(&output.stderr);
    assert!(
        said.starts_with("error: diff compares two policies; name both, as in 'gpumap diff /a /b'\n"),
        "{said}"
    );
    assert!(!said.contains("\n\n\n"), "{said}");
    let trigger = fixtures().join("audit/unknown-verdict/trigger.json");
    let output = gpumap(&["--from", trigger.to_str().unwrap(), "audit"]);
    assert!(text(&output.stderr).contains("; needs CAP_SYS_ADMIN"), "{}", text(&output.stderr));
}
