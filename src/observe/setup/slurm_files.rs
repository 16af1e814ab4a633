//! Reads what Slurm's configuration says about GPUs and cgroups. Slurm itself is
//! not asked, and of its files only the keys named here are kept.

use std::path::Path;

use nix::errno::Errno;

use super::slurm_plugins;
use crate::observation::{Answer, SlurmFile, SlurmSetup};
use crate::observe::slurm_config::{PLACES, read};

/// Keys that are kept of each file, in lower case.
const SLURM_CONF: &[&str] = &["clustername", "taskplugin", "grestypes", "plugindir", "include"];
const CGROUP_CONF: &[&str] = &["constraindevices", "include"];
const GRES_CONF: &[&str] = &["name", "nodename", "autodetect", "include"];

/// Collects the three files below `root`, and the version of the plugins there.
pub(super) fn collect(root: &Path, proc: &Path) -> SlurmSetup {
    let slurm_conf = file(root, "slurm.conf", SLURM_CONF);
    SlurmSetup {
        plugins: slurm_plugins::collect(
            root,
            proc,
            slurm_conf.as_ref().and_then(|file| file.value("plugindir")),
        ),
        slurm_conf,
        cgroup_conf: file(root, "cgroup.conf", CGROUP_CONF),
        gres_conf: file(root, "gres.conf", GRES_CONF),
    }
}

/// The first file of this name in the places where `gres.conf` may be.
fn file(root: &Path, name: &str, keys: &[&str]) -> Option<SlurmFile> {
    let places = PLACES.iter().map(|place| Path::new(place).with_file_name(name));
    places.into_iter().find_map(|place| {
        let real = root.join(place.strip_prefix("/").unwrap_or(&place));
        let values = match read(&real) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => return None,
            Err(errno) => Answer::Missing(errno.desc().to_owned()),
            Ok(bytes) => Answer::Known(values(&String::from_utf8_lossy(&bytes), keys)),
        };
        Some(SlurmFile { path: place.to_string_lossy().into_owned(), values })
    })
}

/// `Key=Value` pairs of these keys, and `Include FILE`, as slurm.conf(5) has them:
/// upper and lower case are the same in keys, `#` begins a comment, and there may be
/// space around `=`.
fn values(text: &str, keys: &[&str]) -> Vec<(String, String)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.flat_map(|line| pairs(&joined(line), keys)).collect()
}

/// A line without space around `=`.
fn joined(line: &str) -> String {
    line.split('=').map(str::trim).collect::<Vec<_>>().join("=")
}

fn pairs(line: &str, keys: &[&str]) -> Vec<(String, String)> {
    let mut words = line.split_whitespace();
    if line.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("include ")) {
        let included = words.nth(1).unwrap_or_default().to_owned();
        return vec![("include".to_owned(), included)];
    }
    let pair = |word: &str| {
        let (key, value) = word.split_once('=')?;
        let key = key.to_ascii_lowercase();
        keys.contains(&key.as_str()).then(|| (key, value.trim_matches('"').to_owned()))
    };
    words.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that keys are read as Slurm reads them, and that others are not
    /// kept.
    #[test]
    fn pairs_of_a_file() {
        let text = "# TaskPlugin=task/none\nSlurmUser=secret\ntaskPLUGIN=task/cgroup,task/affinity # x\n\
                    INCLUDE more.conf\nIncluded=1\nGresTypes = \"gpu\" x= y\n";
        let found = values(text, SLURM_CONF);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            found,
            [
                pair("taskplugin", "task/cgroup,task/affinity"),
                pair("include", "more.conf"),
                pair("grestypes", "gpu")
            ]
        );
    }

    /// Make sure that a file below a root is found by its name on the node, and
    /// that a name which is not that of a regular file is reported.
    #[test]
    fn places() {
        let root = std::env::temp_dir().join(format!("gpumap-setup-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc/slurm/gres.conf")).unwrap();
        std::fs::write(root.join("etc/slurm/cgroup.conf"), "ConstrainDevices=YES\n").unwrap();
        let found = collect(&root, &root);
        std::fs::remove_dir_all(&root).unwrap();
        let cgroup_conf = found.cgroup_conf.unwrap();
        assert_eq!(cgroup_conf.path, "/etc/slurm/cgroup.conf");
        assert_eq!(cgroup_conf.value("constraindevices"), Some("YES"));
        assert_eq!(found.slurm_conf, None);
        assert!(found.gres_conf.unwrap().values.missing().is_some());
    }
}
