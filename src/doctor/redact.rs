//! Takes out of a node's facts what a bug report should not have.

use crate::observation::{Answer, Observation, Problem, Setup};
use crate::slurm_conf;

/// What stands in the place of what a site chose.
pub const REDACTED: &str = "(redacted)";
/// Directories of distributions, drivers and Slurm's packages: what is below them was
/// named by nobody of the site.
const PUBLIC: [&str; 13] = [
    "/usr/bin/",
    "/usr/sbin/",
    "/usr/lib/",
    "/usr/lib64/",
    "/lib/",
    "/lib64/",
    "/opt/rocm/",
    "/proc/",
    "/sys/kernel/",
    "/sys/module/",
    "/run/nvidia/",
    "/etc/slurm/",
    "/etc/slurm-llnl/",
];
/// Places where the kernel's file systems are mounted on every node.
const MOUNTS: [&str; 6] =
    ["/proc", "/sys", "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/devices", "/sys/fs/bpf"];
/// Names of files that are the same everywhere. So are those of drivers' libraries.
const FILES: [&str; 4] = ["gpumap", "slurm.conf", "cgroup.conf", "gres.conf"];

/// Keys of Slurm's files whose values are words of Slurm and not of a site.
const SLURM_WORDS: [&str; 7] =
    ["taskplugin", "grestypes", "constraindevices", "cgroupplugin", "name", "autodetect", "broken"];

/// Takes out the node's name and boot, and the paths that somebody of the site
/// chose, wherever a fact or the reason for a missing one has them. Names of users,
/// jobs, GPUs and processes are not among these facts.
pub fn redact(observation: &mut Observation, setup: &mut Setup) {
    let host = &mut observation.host;
    let name = host.name.clone();
    (host.name, host.boot_id) = (REDACTED.to_owned(), REDACTED.to_owned());
    (host.boot_time, host.slurm_cluster) = (None, None);
    host.cgroup_root = path(&host.cgroup_root);
    observation.errors.iter_mut().for_each(problem);
    cgroups(setup);
    slurm(setup, &name);
    setup.libraries = setup.libraries.iter().map(|library| path(library)).collect();
    setup.libraries_unknown = setup.libraries_unknown.as_deref().map(text);
    if let Answer::Known(file) = &mut setup.own_file {
        file.path = path(&file.path);
        file.open_directory = file.open_directory.as_deref().map(path);
        file.path_finds = file.path_finds.as_deref().map(path);
    }
    for trial in &mut setup.trials {
        trial.refused = trial.refused.as_deref().map(text);
    }
    reasons(setup);
}

/// The reasons of answers that are missing. Those of Slurm's files are not here.
fn reasons(setup: &mut Setup) {
    reason(&mut setup.rights.capabilities);
    setup.settings.values_mut().for_each(reason);
    reason(&mut setup.btf);
    reason(&mut setup.symbols);
    reason(&mut setup.queries);
    reason(&mut setup.hierarchy);
    reason(&mut setup.software);
    reason(&mut setup.clock_synchronized);
    reason(&mut setup.own_file);
}

fn cgroups(setup: &mut Setup) {
    for mount in &mut setup.cgroup2 {
        mount.point = path(&mount.point);
        if mount.root != "/" {
            mount.root = REDACTED.to_owned();
        }
    }
    if let Answer::Known(place) = &mut setup.hierarchy {
        *place = path(place);
    }
    setup.devices_v1 = setup.devices_v1.as_deref().map(path);
}

fn slurm(setup: &mut Setup, host: &str) {
    let slurm = &mut setup.slurm;
    if let Some(file) = &mut slurm.gres_text {
        file.path = path(&file.path);
        file.included.iter_mut().for_each(|file| *file = path(file));
        file.text = gres(&file.text.lossy(), host).into();
    }
    slurm.looked_for.iter_mut().for_each(|file| *file = path(file));
    slurm.unknown = slurm.unknown.as_deref().map(text);
    for file in [&mut slurm.slurm_conf, &mut slurm.cgroup_conf, &mut slurm.gres_conf].into_iter().flatten() {
        file.path = path(&file.path);
        reason(&mut file.values);
        if let Answer::Known(values) = &mut file.values {
            let others = values.iter_mut().filter(|(key, _)| !SLURM_WORDS.contains(&key.as_str()));
            others.for_each(|(key, it)| {
                *it = if key.as_str() == "nodename" { node(it, host) } else { REDACTED.to_owned() }
            });
        }
    }
    for plugins in &mut slurm.plugins {
        plugins.directory = path(&plugins.directory);
        reason(&mut plugins.version);
    }
}

/// What stands for a list of nodes: this one, which is called so everywhere, or others.
fn node(list: &str, host: &str) -> String {
    let short = host.split('.').next().unwrap_or_default();
    let is_this = [host, short].iter().any(|name| slurm_conf::contains(list, name) == Ok(true));
    if is_this { REDACTED.to_owned() } else { "other".to_owned() }
}

/// Keys of `gres.conf` whose values are Slurm's words, numbers and device files.
const GRES_KEYS: [&str; 7] = ["name", "autodetect", "file", "files", "multiplefiles", "count", "flags"];
/// Keys of `gres.conf` whose values are names.
const SLURM_KEYS: [&str; 2] = ["nodename", "type"];
/// Keys with places in the machine.
const COMPARED: [&str; 4] = ["cores", "cpus", "link", "links"];

/// Whether a site chose this value of one of these keys.
fn is_private(key: &str, value: &str) -> bool {
    let is_one_of = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    match key {
        "name" => !is_one_of(&["gpu", "mps", "shard"]),
        "autodetect" | "count" | "flags" => !value.chars().all(|c| c.is_ascii_alphanumeric() || c == ','),
        _ => !value.starts_with("/dev/"),
    }
}

/// A `gres.conf` with the same lines, without what the site chose in them.
fn gres(text: &str, host: &str) -> String {
    let (mut out, mut at) = (String::new(), 1);
    for line in slurm_conf::parse(text) {
        out.extend(std::iter::repeat_n('\n', line.first.saturating_sub(at)));
        at = at.max(line.first);
        if line.include.is_some() {
            out.push_str("Include redacted");
        }
        for pair in &line.pairs {
            let key = pair.key.as_str();
            let value = match key {
                "nodename" => node(&pair.value, host),
                "type" => REDACTED.to_owned(),
                // Whether there are any matters, and not which.
                _ if COMPARED.contains(&key) => "0".to_owned(),
                _ if !GRES_KEYS.contains(&key) || is_private(key, &pair.value) => REDACTED.to_owned(),
                _ => pair.value.clone(),
            };
            // A key that Slurm does not know is one of the site's.
            let is_known = GRES_KEYS.contains(&key) || COMPARED.contains(&key) || SLURM_KEYS.contains(&key);
            out.push_str(&format!("{}={value} ", if is_known { key } else { "redacted" }));
        }
        if line.rest.is_some() {
            out.push_str(REDACTED);
        }
    }
    out
}

fn reason<T>(answer: &mut Answer<T>) {
    if let Answer::Missing(why) = answer {
        *why = text(why);
    }
}

fn problem(problem: &mut Problem) {
    for part in [&mut problem.what, &mut problem.why, &mut problem.needs] {
        *part = text(part);
    }
}

/// A sentence up to the first path that is not public, which is redacted. What follows
/// is left out: a path may hold blanks, and nobody can say where it ends.
fn text(sentence: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || ":,;'\"()".contains(c);
    let mut shown = 0;
    while let Some(start) = next_path(sentence, shown) {
        let (before, from) = sentence.split_at(start);
        let name = from.split(is_end).next().unwrap_or_default();
        if !is_public(name) {
            return format!("{before}{}", path(name));
        }
        shown = start + name.len();
    }
    sentence.to_owned()
}

/// Where the next path begins: at a slash that does not stand between two words.
fn next_path(sentence: &str, from: usize) -> Option<usize> {
    let slashes = sentence.match_indices('/').map(|(at, _)| at).filter(|at| *at >= from);
    let is_between =
        |at: &usize| sentence.get(..*at).is_some_and(|text| text.ends_with(char::is_alphanumeric));
    slashes.filter(|at| !is_between(at)).min()
}

/// A path of a distribution as it is; of any other the name of its file, if it is the
/// same everywhere.
fn path(path: &str) -> String {
    if is_public(path) || !path.contains('/') {
        return path.to_owned();
    }
    match path.rsplit_once('/') {
        Some((_, name)) if FILES.contains(&name) || is_library(name) => format!("{REDACTED}/{name}"),
        _ => REDACTED.to_owned(),
    }
}

fn is_public(path: &str) -> bool {
    let is_below = PUBLIC.iter().any(|start| path.starts_with(start));
    MOUNTS.contains(&path) || (is_below && !path.contains("/../"))
}

/// Whether a file is a driver's library by its name.
fn is_library(name: &str) -> bool {
    ["libcuda.so", "libamdhip64.so", "libhsa-runtime64.so"].iter().any(|library| name.starts_with(library))
}
