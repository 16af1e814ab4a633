//! Reads what Slurm's configuration says about GPUs and cgroups. Slurm itself is
//! not asked, and of its files only the keys named here are kept.

use std::path::{Path, PathBuf};

use super::slurm_plugins;
use crate::observation::{Answer, ConfigFile, SlurmFile, SlurmSetup};
use crate::observe::Options;
use crate::observe::problems::Log;
use crate::observe::site_config;
use crate::observe::slurm_config::{INCLUDED, read, with_included};
use crate::observe::slurm_daemon;
use crate::observe::slurm_places::{SlurmPlaces, below, is_none};
use crate::slurm_conf;

/// Keys that are kept of each file, in lower case.
const SLURM_CONF: &[&str] = &["clustername", "nodename", "taskplugin", "grestypes", "plugindir"];
const CGROUP_CONF: &[&str] = &["constraindevices", "cgroupplugin"];
const GRES_CONF: &[&str] = &["name", "nodename", "autodetect"];

/// Collects the three files, and the version of the plugins. All three are looked for
/// where the slurmd that runs has its `slurm.conf`; without one where a file is found below
/// the root of the GPUs' files.
pub(super) fn collect(options: &Options) -> SlurmSetup {
    let (daemons, unseen) = match slurm_daemon::all(&options.proc) {
        Ok(daemons) => (daemons, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    // A slurmd that is seen has gpumap's own root directory, whatever GPUs are listed from.
    let root = if daemons.is_empty() { options.gpu_root.as_path() } else { Path::new("/") };
    let mut log = Log::new(None);
    let site = site_config::read(options, &mut log).slurm;
    let unread = log.problems.first().map(|problem| format!("{}: {}", problem.what, problem.why));
    let places = SlurmPlaces::find(root, &site, &daemons);
    let beside = |name| Vec::from_iter(places.beside(name));
    let slurm_conf = first(root, places.confs(), SLURM_CONF).map(|(file, _)| file);
    // What the caller names is a path of his own.
    let (gres_root, gres_places) = match (&options.gres_conf, places.gres_conf()) {
        (Some(path), _) => (Path::new("/"), vec![path.clone()]),
        (None, Some(path)) => (root, vec![path.to_owned()]),
        (None, None) => (root, beside("gres.conf")),
    };
    let (gres_conf, gres_text) = first(gres_root, &gres_places, GRES_CONF).unzip();
    let is_found = slurm_conf.is_some() || gres_conf.is_some();
    let looked_for = if is_found { &[] } else { places.confs() };
    SlurmSetup {
        plugins: slurm_plugins::collect(
            root,
            daemons.iter().find_map(|daemon| daemon.file.as_deref()),
            slurm_conf.as_ref().and_then(|file| file.value("plugindir")),
        ),
        slurm_conf,
        cgroup_conf: first(root, &beside("cgroup.conf"), CGROUP_CONF).map(|(file, _)| file),
        gres_conf,
        gres_text: gres_text.flatten(),
        looked_for: looked_for.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        unknown: places.unknown().map(str::to_owned).or(unread).or(unseen),
    }
}

/// The first of these files that is there, with its text if it can be read.
fn first(root: &Path, places: &[PathBuf], keys: &[&str]) -> Option<(SlurmFile, Option<ConfigFile>)> {
    places.iter().find_map(|place| {
        let path = place.to_string_lossy().into_owned();
        match read(&below(root, place)) {
            Err(errno) if is_none(errno) => None,
            Err(errno) => Some((SlurmFile { path, values: Answer::Missing(errno.desc().to_owned()) }, None)),
            Ok(bytes) => {
                let values = Reader { root, keys, left: INCLUDED }.values(place, &bytes);
                let (text, included) = with_included(root, place, bytes);
                let text = ConfigFile { path: path.clone(), text, included };
                Some((SlurmFile { path, values: Answer::Known(values) }, Some(text)))
            }
        }
    })
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
