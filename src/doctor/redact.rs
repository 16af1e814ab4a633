//! Takes out of a node's facts what a bug report should not have.

use crate::observation::{Answer, Observation, Problem, Setup};

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
    (host.name, host.boot_id) = (REDACTED.to_owned(), REDACTED.to_owned());
    (host.boot_time, host.slurm_cluster) = (None, None);
    host.cgroup_root = path(&host.cgroup_root);
    observation.errors.iter_mut().for_each(problem);
    cgroups(setup);
    slurm(setup);
    setup.libraries = setup.libraries.iter().map(|library| path(library)).collect();
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

fn slurm(setup: &mut Setup) {
    let slurm = &mut setup.slurm;
    for file in [&mut slurm.slurm_conf, &mut slurm.cgroup_conf, &mut slurm.gres_conf].into_iter().flatten() {
        file.path = path(&file.path);
        reason(&mut file.values);
        if let Answer::Known(values) = &mut file.values {
            let others = values.iter_mut().filter(|(key, _)| !SLURM_WORDS.contains(&key.as_str()));
            others.for_each(|(_, it)| *it = REDACTED.to_owned());
        }
    }
    for plugins in &mut slurm.plugins {
        plugins.directory = path(&plugins.directory);
        reason(&mut plugins.version);
    }
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
