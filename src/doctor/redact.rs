//! Takes out of a node's facts what a bug report should not have.

use crate::observation::{Answer, Observation, Setup};

/// What stands for something that was taken out.
const REDACTED: &str = "(redacted)";
/// Directories whose names are those of distributions and say nothing of a site.
const PUBLIC: [&str; 7] =
    ["/usr/", "/lib", "/opt/rocm/", "/sys/fs/cgroup", "/proc", "/run/nvidia/", "/etc/slurm"];

/// Keys of Slurm's files whose values are words of Slurm and not of a site.
const SLURM_WORDS: [&str; 5] = ["taskplugin", "grestypes", "constraindevices", "name", "autodetect"];

/// Takes out the node's name and boot, and the paths that somebody of the site
/// chose. Names of users, jobs, GPUs and processes are not among these facts.
pub fn redact(observation: &mut Observation, setup: &mut Setup) {
    let host = &mut observation.host;
    (host.name, host.boot_id) = (REDACTED.to_owned(), REDACTED.to_owned());
    (host.boot_time, host.slurm_cluster) = (None, None);
    host.cgroup_root = path(&host.cgroup_root);
    for mount in &mut setup.cgroup2 {
        mount.point = path(&mount.point);
        if mount.root != "/" {
            mount.root = REDACTED.to_owned();
        }
    }
    setup.hierarchy = match &setup.hierarchy {
        Answer::Known(point) => Answer::Known(path(point)),
        Answer::Missing(_) => Answer::Missing("the reason is redacted".to_owned()),
    };
    setup.devices_v1 = setup.devices_v1.as_deref().map(path);
    setup.libraries = setup.libraries.iter().map(|library| path(library)).collect();
    if let Answer::Known(file) = &mut setup.own_file {
        file.path = path(&file.path);
    }
    let slurm = &mut setup.slurm;
    for file in [&mut slurm.slurm_conf, &mut slurm.cgroup_conf, &mut slurm.gres_conf].into_iter().flatten() {
        file.path = path(&file.path);
        if let Answer::Known(values) = &mut file.values {
            values
                .iter_mut()
                .filter(|(key, _)| !SLURM_WORDS.contains(&key.as_str()))
                .for_each(|(_, it)| *it = REDACTED.to_owned());
        }
    }
    for plugins in &mut slurm.plugins {
        plugins.directory = path(&plugins.directory);
    }
    for error in &mut observation.errors {
        error.what = path(&error.what);
    }
}

/// A path of a distribution as it is; of any other its last name at most.
fn path(path: &str) -> String {
    if PUBLIC.iter().any(|start| path.starts_with(start)) || !path.starts_with('/') {
        return path.to_owned();
    }
    match path.rsplit_once('/') {
        Some((_, name)) if name == "gpumap" || name.contains(".so") || name.ends_with(".conf") => {
            format!("{REDACTED}/{name}")
        }
        _ => REDACTED.to_owned(),
    }
}
