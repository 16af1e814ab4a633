//! Usage errors: command lines that clap refuses, and what a word that is no command may
//! stand for, by meaning: clap proposes by spelling.

use std::borrow::Cow;
use std::io::{self, Write as _};

use anstream::{AutoStream, ColorChoice};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::envelope;
use crate::audit;
use crate::cli::{self, Exit, device};
use crate::model::{ProblemCode, is_id};
use crate::observation::Problem;
use crate::render::{self, sanitize};

/// Prints clap's message: help and version on standard output, a usage error on
/// standard error, and with --json an envelope too.
pub fn refuse(mut error: clap::Error) -> Exit {
    add(&mut error);
    let error = &error;
    // `env::args()` would panic at arguments that are not UTF-8.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.take_while(|word| word != "--").collect();
    let is_redacted = error.use_stderr() && words.iter().any(|word| word == "--redact");
    let message = if is_redacted { redacted(error) } else { error.to_string() };
    let _nobody_left = if is_redacted { io::stderr().write_all(message.as_bytes()) } else { print(error) };
    if !error.use_stderr() {
        return Exit::Yes;
    }
    if words.iter().any(|word| word == "--json") {
        let first = message.lines().next().unwrap_or_default();
        usage(command(&words), first.trim_start_matches("error: "));
    }
    exit(&words)
}

/// The message without what was typed: for a bug report.
fn redacted(error: &clap::Error) -> String {
    let kind = error.kind();
    format!(
        "error: {}\n\nFor more information, try '--help'.\n",
        kind.as_str().unwrap_or("malformed command line")
    )
}

/// Prints clap's message. It repeats the arguments, and these may be names that a user
/// gave (a pattern of the shell's, an `xargs`): characters that move the cursor or turn
/// the text around are shown as escapes, and colours are left out then.
fn print(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let message = error.to_string();
    let harmless: Vec<_> = message.split('\n').map(sanitize::text).collect();
    let is_harmless = harmless.iter().all(|line| matches!(line, Cow::Borrowed(_)));
    let is_plain = AutoStream::choice(&io::stderr()) == ColorChoice::Never;
    let text = match is_harmless && !is_plain {
        true => error.render().ansi().to_string(),
        false => harmless.join("\n"),
    };
    super::standard_error().write_all(text.as_bytes())
}

/// The exit code. An audit in a hook must not fail, and clap has not parsed enough
/// to know that.
fn exit(words: &[String]) -> Exit {
    let has = |option: &str| {
        words
            .iter()
            .any(|word| word.strip_prefix(option).is_some_and(|it| it.is_empty() || it.starts_with('=')))
    };
    if command(words) != "audit" {
        return Exit::Failed;
    }
    if has("--nagios") {
        let _nobody_left = render::nagios_unknown(&mut io::stdout().lock(), "the command line is malformed");
        return Exit::Incomplete;
    }
    if has("--from-env") && !has("--fail-on") { Exit::Yes } else { Exit::Failed }
}

fn usage(command: &str, why: &str) {
    let problem = Problem {
        code: ProblemCode::Usage,
        what: "command line".to_owned(),
        why: why.to_owned(),
        needs: "see gpumap --help".to_owned(),
    };
    let _nobody_left = render::json::write(&mut io::stdout().lock(), &envelope::failed(command, &problem));
}

/// The first word that is a command's name.
fn command(words: &[String]) -> &str {
    let definition = cli::definition();
    let is_command = |word: &&String| definition.find_subcommand(word).is_some();
    words.iter().find(is_command).map_or("", String::as_str)
}

/// Words that people try, and the command that does it.
const MEANT: [(&str, &str); 16] = [
    (
        "node",
        "gpu gpus device devices list ls show status info nvidia-smi rocm-smi xpu-smi smi who nvtop nvitop",
    ),
    ("pid", "proc process processes procs ps pids"),
    ("job", "jobs squeue scontrol slurm step steps"),
    (
        "cgroup",
        "cgroups cg rules policy policies container containers docker podman nerdctl ctr crictl containerd kubectl \
         pod pods lxc incus unit units service systemctl devices.list",
    ),
    ("prog", "program programs bpf bpftool decode dump disasm"),
    ("check", "can may test access allowed ask"),
    ("explain", "why prove proof trace"),
    ("audit", "verify security isolation findings lint"),
    ("leftovers", "orphans orphan zombies cleanup kill leftover"),
    ("denials", "denied refusals refused eperm"),
    ("watch", "monitor events follow tail"),
    ("activity", "usage util utilization stats stat calls"),
    ("repair", "fix restore undo mend"),
    ("export", "metrics prometheus exporter textfile"),
    ("report", "html page web"),
    ("doctor", "diagnose setup health selftest"),
];

/// Replaces clap's proposal where the meaning of what was typed is known.
pub(super) fn add(error: &mut clap::Error) {
    let proposal = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            text(error, ContextKind::InvalidSubcommand).as_deref().and_then(meant_command)
        }
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::UnknownArgument => text(error, ContextKind::InvalidArg).as_deref().and_then(option),
        _ => None,
    };
    let Some(proposal) = proposal else { return };
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![proposal.into()]));
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// What to type in place of a word that is no command.
fn meant_command(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    if let Some((command, _)) = MEANT.iter().find(|(_, words)| words.split(' ').any(|word| word == lower)) {
        return Some(format!("'gpumap {command}' does that"));
    }
    // clap proposes what is near, and does not see letters that changed places.
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let names = cli::definition();
    let mut names = names.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| one.get_name());
    if let Some(meant) = names.find(|name| lower != *name && letters(name) == letters(&lower)) {
        return Some(format!("'gpumap {meant}' is near it"));
    }
    if audit::kind(&lower).is_some() {
        return Some(format!("'gpumap audit --explain {lower}' says what this finding means"));
    }
    let is_plain = word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\'');
    if !is_plain {
        return None;
    }
    if [".json", ".json.gz", ".json.zst"].iter().any(|ending| lower.ends_with(ending)) {
        return Some(format!("a saved node is read with 'gpumap --from {word}'"));
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!("'gpumap job {word}' shows a job, 'gpumap pid {word}' a process"));
    }
    let is_unit = [".slice", ".scope", ".service"].iter().any(|kind| lower.ends_with(kind));
    if is_unit || is_id(word.as_bytes()) {
        return Some(format!("'gpumap cgroup {word}' finds it if it is a container, a pod or a unit"));
    }
    if is_device(word) {
        return Some(format!(
            "'gpumap free {word}' says who holds a GPU, 'gpumap check {word}' who may open it"
        ));
    }
    word.starts_with('/').then(|| format!("'gpumap cgroup {word}' shows a cgroup"))
}

/// Whether a word is the name or the number of a device.
fn is_device(word: &str) -> bool {
    let is_numbered = |name: &str| {
        word.strip_prefix(name).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    ["/dev/", "GPU-", "MIG-"].iter().any(|start| word.starts_with(start))
        || ["nvidia", "renderD", "card"].into_iter().any(is_numbered)
        || word.contains(':') && device::parse(word.as_bytes()).is_ok()
}

/// What to type where nothing was named.
fn missing(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(arguments)) = error.get(ContextKind::InvalidArg) else { return None };
    let is = |name: &str| arguments.iter().any(|argument| argument.starts_with(name));
    match () {
        () if is("--job") => {
            Some("'gpumap job' lists the jobs that are here, 'gpumap free' who holds GPUs".to_owned())
        }
        () if is("<PID>") => {
            Some("'gpumap pid $(pgrep -d' ' NAME)' names the processes of a name".to_owned())
        }
        () => None,
    }
}

/// What to type where an option belongs to a command.
fn option(word: &str) -> Option<String> {
    let name = word.split('=').next().unwrap_or(word);
    if name == "--cgroup" {
        return Some(
            "'gpumap cgroup PATH' and 'gpumap audit PATH' name a cgroup without an option".to_owned(),
        );
    }
    let of_node = ["--allocated", "--from-env", "--state", "--compact"];
    of_node.contains(&name).then(|| format!("the option stands behind the command: 'gpumap node {name} …'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a typing error in a Prolog drains no node unless its
    /// author asked for it.
    #[test]
    fn audits_fail_open() {
        let exit = |line: &str| exit(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(exit("audit --from-env --tiemout 5s"), Exit::Yes);
        assert_eq!(exit("--tiemout 5s audit --from-env"), Exit::Yes);
        assert_eq!(exit("audit --from-env --fail-on=bad"), Exit::Failed);
        assert_eq!(exit("audit --from-env --fail-on bad"), Exit::Failed);
        assert_eq!(exit("audit --nonsense"), Exit::Failed);
        assert_eq!(exit("job --from-env --nonsense"), Exit::Failed);
    }

    /// Make sure that no word stands for two commands, and that each command exists.
    #[test]
    fn words() {
        let mut seen = std::collections::BTreeSet::new();
        for (command, words) in MEANT {
            assert!(cli::definition().find_subcommand(command).is_some(), "{command}");
            for word in words.split(' ') {
                assert!(seen.insert(word), "{word}");
                assert!(cli::definition().find_subcommand(word).is_none(), "{word}");
            }
        }
    }

    #[test]
    fn proposals() {
        assert_eq!(meant_command("GPUs").as_deref(), Some("'gpumap node' does that"));
        assert!(meant_command("s1.json").unwrap().contains("--from s1.json"));
        assert!(meant_command("4711").unwrap().contains("gpumap job 4711"));
        assert_eq!(meant_command("jbo").as_deref(), Some("'gpumap job' is near it"));
        assert_eq!(meant_command("jxo"), None);
        for id in ["bc5e403af8fe", "3a5b1c7e-1111-2222", "docker.service", "DOCKER", "kubectl"] {
            assert!(meant_command(id).unwrap().contains("gpumap cgroup"), "{id}");
        }
        for device in ["nvidia1", "/dev/nvidia1", "GPU-1111", "195:1", "renderD128"] {
            assert!(meant_command(device).unwrap().contains(&format!("gpumap free {device}")), "{device}");
        }
        assert_eq!(meant_command("\u{202e}.json"), None);
        assert!(option("--allocated=x").is_some() && option("--jsno").is_none());
    }
}
