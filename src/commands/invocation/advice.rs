//! What a word that is no command may stand for, by meaning: clap proposes by spelling.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli;

/// Words that people try, and the command that does it.
const MEANT: [(&str, &[&str]); 16] = [
    (
        "node",
        &[
            "gpu",
            "gpus",
            "device",
            "devices",
            "list",
            "ls",
            "show",
            "status",
            "info",
            "nvidia-smi",
            "smi",
            "who",
        ],
    ),
    ("pid", &["proc", "process", "processes", "procs", "ps", "pids"]),
    ("job", &["jobs", "squeue", "slurm", "step", "steps"]),
    ("cgroup", &["cgroups", "cg", "rules", "policy", "policies", "container", "pod", "unit", "devices.list"]),
    ("prog", &["program", "programs", "bpf", "bpftool", "decode", "dump", "disasm"]),
    ("check", &["can", "may", "test", "access", "allowed", "ask"]),
    ("explain", &["why", "prove", "proof", "trace"]),
    ("audit", &["verify", "security", "isolation", "findings", "lint"]),
    ("leftovers", &["orphans", "orphan", "zombies", "cleanup", "kill", "leftover"]),
    ("denials", &["denied", "refusals", "refused", "eperm"]),
    ("watch", &["monitor", "events", "follow", "tail"]),
    ("activity", &["usage", "util", "utilization", "stats", "stat", "calls"]),
    ("repair", &["fix", "restore", "undo", "mend"]),
    ("export", &["metrics", "prometheus", "exporter", "textfile"]),
    ("report", &["html", "page", "web"]),
    ("doctor", &["diagnose", "setup", "health", "selftest"]),
];

/// Replaces clap's proposal where the meaning of what was typed is known.
pub(super) fn add(error: &mut clap::Error) {
    let proposal = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            text(error, ContextKind::InvalidSubcommand).as_deref().and_then(command)
        }
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
fn command(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    if let Some((command, _)) = MEANT.iter().find(|(_, words)| words.contains(&lower.as_str())) {
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
    word.starts_with('/').then(|| format!("'gpumap cgroup {word}' shows a cgroup"))
}

/// What to type where an option belongs to a command.
fn option(word: &str) -> Option<String> {
    let name = word.split('=').next().unwrap_or(word);
    let of_node = ["--allocated", "--from-env", "--state", "--compact"];
    of_node.contains(&name).then(|| format!("the option stands behind the command: 'gpumap node {name} …'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no word stands for two commands, and that each command exists.
    #[test]
    fn words() {
        let mut seen = std::collections::BTreeSet::new();
        for (command, words) in MEANT {
            assert!(cli::definition().find_subcommand(command).is_some(), "{command}");
            for word in words {
                assert!(seen.insert(word), "{word}");
                assert!(cli::definition().find_subcommand(word).is_none(), "{word}");
            }
        }
    }

    #[test]
    fn proposals() {
        assert_eq!(command("GPUs").as_deref(), Some("'gpumap node' does that"));
        assert!(command("s1.json").unwrap().contains("--from s1.json"));
        assert!(command("4711").unwrap().contains("gpumap job 4711"));
        assert_eq!(command("jbo").as_deref(), Some("'gpumap job' is near it"));
        assert_eq!(command("jxo"), None);
        assert_eq!(command("\u{202e}.json"), None);
        assert!(option("--allocated=x").is_some() && option("--jsno").is_none());
    }
}
