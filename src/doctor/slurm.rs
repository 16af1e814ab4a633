//! Slurm's version and configuration, as its files have them: no program of Slurm is
//! asked.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};
use crate::observation::{Answer, SlurmFile};

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "slurm.configuration",
        page: "gpumap reads slurm.conf, cgroup.conf and gres.conf, and asks no daemon of Slurm. It takes all three, \
               with the files that they include, from one directory, as Slurm does: the one that /etc/gpumap.toml \
               names (directory under [slurm]), else that of the file that the running slurmd was started with (-f \
               or SLURM_CONF), else the first with a slurm.conf among /run/slurm/conf, etc beside that slurmd's \
               directory, /etc/slurm, /etc/slurm-llnl, /usr/local/etc, /usr/local/etc/slurm, /opt/slurm/etc, \
               /cm/shared/apps/slurm/var/etc/slurm and conf-cache below the usual spool directories. A slurmd in a \
               container has files of its own, which are not looked for.",
        look: configuration,
    },
    CheckKind {
        id: "slurm.syntax",
        page: "Slurm's daemons do not start, or not again, with a file that has anything else than Key=Value in a \
               line.",
        look: syntax,
    },
    CheckKind {
        id: "slurm.version",
        page: "Plugins of Slurm name the version that they are of, and Slurm's daemons load plugins of their own \
               version alone. gpumap reads it from the plugins' files, in PluginDir of slurm.conf or where packages \
               put them; it starts no program of Slurm. A slurmd that was not restarted after an update still is of \
               the version before. From 26.05 on Slurm names the cgroups of jobs by SLUID; before 25.05 a job whose \
               device program could not be attached ran without one.",
        look: version,
    },
    CheckKind {
        id: "slurm.constrain-devices",
        page: "Without ConstrainDevices=yes in cgroup.conf Slurm attaches no device program, and every job may \
               open every GPU.",
        look: constrain,
    },
    CheckKind {
        id: "slurm.task-plugin",
        page: "ConstrainDevices has an effect with task/cgroup in TaskPlugin of slurm.conf alone.",
        look: task_plugin,
    },
];

fn configuration(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let slurm = &node.setup.slurm;
    let files = [&slurm.slurm_conf, &slurm.cgroup_conf, &slurm.gres_conf];
    let paths: Vec<&str> = files.into_iter().flatten().map(|file| file.path.as_str()).collect();
    let unread = files.into_iter().flatten().find_map(|file| Some((&file.path, file.values.missing()?)));
    if let Some((path, why)) = unread {
        let fix = "run gpumap as root, and again where that is so already";
        return Some(unknown(
            format!("Whether {path} is there, and what it says, is not known: {why}."),
            fix,
        ));
    }
    let fix = "name the directory of slurm.conf in /etc/gpumap.toml (directory under [slurm]), or gres.conf with \
               --gres-conf FILE";
    if let Some(why) = &slurm.unknown {
        return Some(unknown(format!("Which slurm.conf Slurm uses is not known: {why}."), fix));
    }
    let looked = match slurm.looked_for.as_slice() {
        [] => String::new(),
        files => format!(" (looked for {})", files.join(", ")),
    };
    Some(match paths.as_slice() {
        [] if node.runs("slurmd") => {
            unknown(format!("slurmd runs, and its configuration was not found{looked}."), fix)
        }
        [] => match node.hides_processes() {
            Some(why) => note(format!(
                "No configuration of Slurm was found{looked}. Whether a slurmd runs is not known: {why}."
            )),
            None => note(format!(
                "No configuration of Slurm was found{looked}, and no slurmd runs. That is right on a node without Slurm."
            )),
        },
        paths => ok(format!("Slurm's files: {}.", paths.join(", "))),
    })
}

fn syntax(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let slurm = &node.setup.slurm;
    let files = [&slurm.slurm_conf, &slurm.cgroup_conf, &slurm.gres_conf].into_iter().flatten();
    let broken: Vec<String> = files
        .filter_map(|file| {
            let line = file.values.known()?.iter().find(|(key, _)| key == "broken").map(|(_, line)| line)?;
            Some(format!("{} (line {line}, of it or of a file that it includes)", file.path))
        })
        .collect();
    (!broken.is_empty()).then(|| {
        missing(
            format!("Slurm refuses what is not Key=Value: {}.", broken.join(", ")),
            "mend that line and restart slurmd",
        )
    })
}

fn version(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let slurm = &node.setup.slurm;
    let fix = "name the directory of Slurm's plugins as PluginDir in slurm.conf";
    let each = slurm.plugins.iter().map(|plugins| match plugins.version.known() {
        Some(version) => format!("{version} in {}", plugins.directory),
        None => {
            format!("unknown in {} ({})", plugins.directory, plugins.version.missing().unwrap_or_default())
        }
    });
    let each = each.collect::<Vec<_>>().join(", ");
    Some(match slurm.plugins.as_slice() {
        [] if slurm.slurm_conf.is_none() && !node.runs("slurmd") => return None,
        [] => unknown("Which version of Slurm is here is not known: none of its plugins was found.", fix),
        plugins if plugins.iter().any(|one| one.version.known().is_none()) => unknown(
            format!("The version of Slurm's plugins: {each}."),
            "install one version of Slurm again, as root",
        ),
        [_] => ok(format!("The version of Slurm's plugins: {each}.")),
        _ => note(format!("Slurm is here more than once: {each}.")).with_fix(fix),
    })
}

/// What a key is set to in a file that is there.
pub(super) enum Value<'a> {
    Known(Option<&'a str>),
    /// Why it is not known, and what helps.
    Unread(String, &'static str),
}

/// What helps where a file cannot be read.
pub(super) const AS_ROOT: &str = "run gpumap as root";

pub(super) fn value<'a>(file: &'a SlurmFile, key: &str) -> Value<'a> {
    let values = match &file.values {
        Answer::Known(values) => values,
        Answer::Missing(why) => return Value::Unread(format!("{}: {why}", file.path), AS_ROOT),
    };
    // The last one counts. A file that was not read may have a later one.
    let last = |key: &str| values.iter().rposition(|(name, _)| name == key);
    if last("include") > last(key) {
        return Value::Unread(
            format!("{} includes a file that cannot be read and may set it", file.path),
            "run gpumap as root, look into the files that it includes, or set it behind the Include",
        );
    }
    Value::Known(file.value(key))
}

/// Slurm's words for yes and no.
const YES: [&str; 4] = ["yes", "up", "true", "1"];
const NO: [&str; 4] = ["no", "down", "false", "0"];

/// A word for yes or no, as Slurm reads it.
fn is_yes(word: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 4]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    if is_one_of(YES) { Some(true) } else { is_one_of(NO).then_some(false) }
}

fn constrain(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let slurm = &node.setup.slurm;
    let fix = "set ConstrainDevices=yes in cgroup.conf and restart slurmd";
    let Some(file) = &slurm.cgroup_conf else {
        let is_here = slurm.slurm_conf.is_some();
        return is_here.then(|| missing("There is no cgroup.conf: Slurm constrains no devices.", fix));
    };
    if let Value::Known(Some(plugin)) = value(file, "cgroupplugin")
        && plugin.eq_ignore_ascii_case("disabled")
    {
        let text = "CgroupPlugin is disabled: Slurm constrains no devices.";
        return Some(missing(text, "set CgroupPlugin=autodetect in cgroup.conf and restart slurmd"));
    }
    Some(match value(file, "constraindevices") {
        Value::Known(Some(value)) => match is_yes(value) {
            Some(true) => ok("ConstrainDevices is on: Slurm attaches device programs to jobs."),
            Some(false) => missing("ConstrainDevices is off: every job may open every GPU.", fix),
            None => missing("ConstrainDevices is neither yes nor no: Slurm refuses the file.", fix),
        },
        Value::Known(None) => missing("ConstrainDevices is off: every job may open every GPU.", fix),
        Value::Unread(why, fix) => {
            unknown(format!("Whether Slurm constrains devices is not known: {why}."), fix)
        }
    })
}

fn task_plugin(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let file = node.setup.slurm.slurm_conf.as_ref()?;
    let fix = "set TaskPlugin=task/affinity,task/cgroup in slurm.conf and restart slurmd";
    Some(match value(file, "taskplugin") {
        Value::Known(Some(plugins)) if has_cgroup(plugins) => ok(format!("TaskPlugin is {plugins}.")),
        Value::Known(Some(plugins)) => missing(
            format!("TaskPlugin is {plugins}, without task/cgroup: Slurm constrains no devices."),
            fix,
        ),
        Value::Known(None) => missing("TaskPlugin is not set: Slurm constrains no devices.", fix),
        Value::Unread(why, fix) => unknown(format!("TaskPlugin is not known: {why}."), fix),
    })
}

/// Plugins go by their whole name or without `task/`.
fn has_cgroup(plugins: &str) -> bool {
    plugins.split(',').any(|plugin| plugin.trim().trim_start_matches("task/").eq_ignore_ascii_case("cgroup"))
}
