//! Reads what Slurm's configuration says about GPUs and cgroups. Slurm itself is
//! not asked, and of its files only the keys named here are kept.

use std::path::{Path, PathBuf};

use super::slurm_plugins;
use crate::observation::{Answer, SlurmFile, SlurmSetup};
use crate::observe::options::Options;
use crate::observe::slurm_config::{below, directories, is_none, own_directories, read};
use crate::slurm_conf;

/// Keys that are kept of each file, in lower case.
const SLURM_CONF: &[&str] = &["clustername", "taskplugin", "grestypes", "plugindir"];
const CGROUP_CONF: &[&str] = &["constraindevices", "cgroupplugin"];
const GRES_CONF: &[&str] = &["name", "nodename", "autodetect"];
/// Files that one file may include, directly or by others.
const INCLUDED: usize = 64;

/// Collects the three files below `root`, and the version of the plugins there. All
/// three are looked for in the directory of `slurm.conf`, if there is one.
/// A file that is named as `gres.conf` is that one.
pub(super) fn collect(options: &Options) -> SlurmSetup {
    let root = options.gpu_root.as_path();
    let is_here = root == Path::new("/");
    let directories = if is_here { own_directories(options, None) } else { directories(root) };
    let file = |name: &str, keys| file(root, &directories, name, keys);
    let slurm_conf = file("slurm.conf", SLURM_CONF);
    SlurmSetup {
        plugins: slurm_plugins::collect(
            root,
            &options.proc,
            slurm_conf.as_ref().and_then(|file| file.value("plugindir")),
        ),
        slurm_conf,
        cgroup_conf: file("cgroup.conf", CGROUP_CONF),
        gres_conf: match &options.gres_conf {
            Some(path) => Some(one(Path::new("/"), path, GRES_CONF).unwrap_or_else(|| absent(path))),
            None => file("gres.conf", GRES_CONF),
        },
    }
}

/// The first file of this name in these directories.
fn file(root: &Path, directories: &[PathBuf], name: &str, keys: &[&str]) -> Option<SlurmFile> {
    directories.iter().find_map(|directory| one(root, &directory.join(name), keys))
}

/// One file; `None` where there is none.
fn one(root: &Path, place: &Path, keys: &[&str]) -> Option<SlurmFile> {
    let values = match read(&below(root, place)) {
        Err(errno) if is_none(errno) => return None,
        Err(errno) => Answer::Missing(errno.desc().to_owned()),
        Ok(bytes) => Answer::Known(Reader { root, keys, left: INCLUDED }.values(place, &bytes)),
    };
    Some(SlurmFile { path: place.to_string_lossy().into_owned(), values })
}

/// A file that the caller named and that is not there.
fn absent(place: &Path) -> SlurmFile {
    let values = Answer::Missing("there is no such file".to_owned());
    SlurmFile { path: place.to_string_lossy().into_owned(), values }
}

/// Reads one file with those that it includes.
struct Reader<'a> {
    root: &'a Path,
    keys: &'a [&'a str],
    /// Files that may still be included.
    left: usize,
}

impl Reader<'_> {
    /// The pairs of these keys. `include` stands for a file that was not read, and
    /// `broken` for a line that Slurm refuses.
    fn values(&mut self, place: &Path, bytes: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for line in slurm_conf::parse(&String::from_utf8_lossy(bytes)) {
            if let Some(name) = &line.include {
                found.extend(self.include(place, name));
            }
            let kept = line.pairs.into_iter().filter(|pair| self.keys.contains(&&*pair.key));
            found.extend(kept.map(|pair| (pair.key, pair.value)));
            found.extend(line.rest.map(|_| ("broken".to_owned(), line.last.to_string())));
        }
        found
    }

    /// The same of a file that this one includes. A relative name begins where it is.
    fn include(&mut self, place: &Path, name: &str) -> Vec<(String, String)> {
        let unread = || vec![("include".to_owned(), name.to_owned())];
        let Some(left) = self.left.checked_sub(1) else { return unread() };
        self.left = left;
        let place = place.with_file_name(name);
        match read(&below(self.root, &place)) {
            Ok(bytes) => self.values(&place, &bytes),
            // Whatever the reason, Slurm's own words of it are not known.
            Err(_) => unread(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A root with these files, which `look` sees.
    fn with_files(files: &[(&str, &str)], look: impl FnOnce(SlurmSetup)) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("gpumap-slurm-{}-{number}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = collect(&Options { gpu_root: root.clone(), proc: root.clone(), ..Options::default() });
        std::fs::remove_dir_all(&root).unwrap();
        look(found);
    }

    fn own(pairs: &[(&str, &str)]) -> Answer<Vec<(String, String)>> {
        Answer::Known(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    /// Make sure that keys are read as Slurm reads them, those of included files in
    /// their place, that no other is kept, and that what was not read is named.
    #[test]
    fn pairs_of_a_file() {
        let text = "# TaskPlugin=task/none\nSlurmUser=secret\ntaskPLUGIN=task/affinity\n\
                    INCLUDE more.conf\nIncluded=1\nGresTypes = \"gpu\" x= y z\nInclude /gone\n";
        let more = "TaskPlugin=task/cgroup,\\\n task/affinity\nInclude more.conf\n";
        with_files(&[("etc/slurm/slurm.conf", text), ("etc/slurm/more.conf", more)], |found| {
            let Answer::Known(values) = found.slurm_conf.unwrap().values else { panic!() };
            assert_eq!(values[0].1, "task/affinity");
            assert_eq!(values[1].1, "task/cgroup,");
            let included = values.iter().filter(|(key, _)| key == "include").count();
            assert_eq!(included, 2, "a circle ends, and a file that is not there is named: {values:?}");
            assert!(values.contains(&("grestypes".to_owned(), "gpu".to_owned())));
            assert!(values.contains(&("broken".to_owned(), "6".to_owned())));
            assert!(!values.iter().any(|(_, value)| value == "secret" || value == "y"), "{values:?}");
        });
    }

    /// Make sure that all files are those of one directory: Slurm looks nowhere else, so
    /// that files of an earlier installation mean nothing.
    #[test]
    fn one_directory() {
        let old = ("etc/slurm-llnl/cgroup.conf", "ConstrainDevices=yes\n");
        with_files(&[("etc/slurm/slurm.conf", "TaskPlugin=task/cgroup\n"), old], |found| {
            assert_eq!(found.slurm_conf.unwrap().values, own(&[("taskplugin", "task/cgroup")]));
            assert_eq!(found.cgroup_conf, None);
        });
        with_files(&[old], |found| {
            assert_eq!(found.cgroup_conf.unwrap().values, own(&[("constraindevices", "yes")]));
        });
    }

    /// Make sure that a file below a root is found by its name on the node, and
    /// that a name which is not that of a regular file is reported.
    #[test]
    fn places() {
        let root = std::env::temp_dir().join(format!("gpumap-setup-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc/slurm/gres.conf")).unwrap();
        std::fs::write(root.join("etc/slurm/cgroup.conf"), "ConstrainDevices=YES\n").unwrap();
        let found = collect(&Options { gpu_root: root.clone(), proc: root.clone(), ..Options::default() });
        std::fs::remove_dir_all(&root).unwrap();
        let cgroup_conf = found.cgroup_conf.unwrap();
        assert_eq!(cgroup_conf.path, "/etc/slurm/cgroup.conf");
        assert_eq!(cgroup_conf.value("constraindevices"), Some("YES"));
        assert_eq!(found.slurm_conf, None);
        assert!(found.gres_conf.unwrap().values.missing().is_some());
    }
}
