//! Where Slurm's files are on this node: in the directory that the site names, in that of
//! the `slurm.conf` that the running slurmd was started with, or where Slurm and its
//! packages put them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::problems::errno_of;
use super::slurm_daemon::Daemon;
use crate::observation::SlurmFiles;
use crate::sys::absence::is_absence;
use crate::sys::retry::again;

/// Where a slurmd without a file of its own keeps what slurmctld gave it: the link that it
/// makes, and below the usual values of SlurmdSpoolDir.
const CONFIGLESS: [&str; 5] = [
    "/run/slurm/conf",
    "/var/spool/slurmd/conf-cache",
    "/var/spool/slurm/slurmd/conf-cache",
    "/var/spool/slurm/d/conf-cache",
    "/var/lib/slurm/slurmd/conf-cache",
];
/// Where packages, `make install` and sites put them: Slurm's own, Debian's of old,
/// `--prefix=/usr/local`, slurm-gcp, AWS ParallelCluster, NVIDIA Base Command Manager
/// (Bright).
const USUAL: [&str; 6] = [
    "/etc/slurm",
    "/etc/slurm-llnl",
    "/usr/local/etc",
    "/usr/local/etc/slurm",
    "/opt/slurm/etc",
    "/cm/shared/apps/slurm/var/etc/slurm",
];

/// The files named `slurm.conf` that Slurm may use. All its other files are beside the one
/// that it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlurmPlaces {
    /// One where it is known, or where one is there; else all that it may be.
    confs: Vec<PathBuf>,
    /// The `gres.conf` that the site names.
    gres_conf: Option<PathBuf>,
    /// Why it is not known which it is.
    unknown: Option<String>,
}

impl SlurmPlaces {
    /// The places below `root`. `site` is what the site names.
    pub(super) fn find(root: &Path, site: &SlurmFiles, daemons: &[Daemon]) -> Self {
        let gres_conf = site.gres_conf.clone();
        let found = match &site.directory {
            Some(directory) => Self::one(directory.join("slurm.conf")),
            None => Self::of_daemons(root, daemons),
        };
        Self { gres_conf, ..found }
    }

    fn one(conf: PathBuf) -> Self {
        Self { confs: vec![conf], ..Self::default() }
    }

    fn of_daemons(root: &Path, daemons: &[Daemon]) -> Self {
        let named: BTreeMap<&PathBuf, u32> =
            daemons.iter().filter_map(|one| Some((one.conf.as_ref()?, one.pid))).collect();
        match Vec::from_iter(&named).as_slice() {
            [] => Self::usual(root, daemons),
            [(conf, _)] if conf.is_absolute() => Self::one(conf.to_path_buf()),
            [(conf, pid), rest @ ..] => {
                let others = rest.iter().map(|(conf, pid)| format!(", slurmd {pid} with {}", conf.display()));
                let others = others.collect::<String>();
                let why = format!("slurmd {pid} was started with {}{others}", conf.display());
                Self { unknown: Some(why), ..Self::default() }
            }
        }
    }

    /// The first that is there, or all. One that cannot be looked at may be there: then it is
    /// not known which it is.
    fn usual(root: &Path, daemons: &[Daemon]) -> Self {
        let (is_configless, prefixes) = (
            daemons.iter().any(|one| one.is_configless),
            daemons.iter().filter_map(|one| one.file.as_deref()?.parent()?.parent()),
        );
        // `/usr/sbin/slurmd` has `/etc/slurm`.
        let prefixes =
            prefixes.filter(|prefix| *prefix != Path::new("/usr")).map(|prefix| prefix.join("etc"));
        let (link, caches) = CONFIGLESS.split_at(if is_configless { CONFIGLESS.len() } else { 1 });
        let fixed = |places: &'static [&'static str]| places.iter().map(PathBuf::from);
        let all = fixed(link).chain(prefixes).chain(fixed(&USUAL)).chain(fixed(caches));
        let mut confs: Vec<PathBuf> = Vec::new();
        for conf in all.map(|directory| directory.join("slurm.conf")) {
            if !confs.contains(&conf) {
                confs.push(conf);
            }
        }
        for conf in &confs {
            match is_there(&below(root, conf)) {
                Ok(false) => {}
                Ok(true) => return Self::one(conf.clone()),
                Err(errno) => {
                    let unknown = Some(format!("{}: {}", conf.display(), errno.desc()));
                    return Self { unknown, ..Self::one(conf.clone()) };
                }
            }
        }
        Self { confs, ..Self::default() }
    }

    /// The files named `slurm.conf`, in the order in which they are tried.
    pub(super) fn confs(&self) -> &[PathBuf] {
        &self.confs
    }

    /// The places of another of Slurm's files, in this order.
    pub(super) fn beside<'a>(&'a self, name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        self.confs.iter().map(move |conf| conf.with_file_name(name))
    }

    /// The `gres.conf` that the site names.
    pub(super) fn gres_conf(&self) -> Option<&Path> {
        self.gres_conf.as_deref()
    }

    /// Why it is not known where they are.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

fn is_there(path: &Path) -> Result<bool, Errno> {
    match again(|| path.symlink_metadata()).map_err(|error| errno_of(&error)) {
        Ok(_) => Ok(true),
        Err(errno) if is_none(errno) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether a call said that there is no such file. A path through something else than a
/// directory leads to none.
pub(super) fn is_none(errno: Errno) -> bool {
    errno == Errno::ENOTDIR || is_absence(errno)
}

/// Where an absolute path is below `root`; any other is the caller's own.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix("/").map_or_else(|_| path.to_owned(), |inside| root.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confs(root: &Path, directory: Option<&str>, daemons: &[Daemon]) -> Vec<String> {
        let site = SlurmFiles { directory: directory.map(Into::into), ..SlurmFiles::default() };
        let places = SlurmPlaces::find(root, &site, daemons);
        places.confs().iter().map(|path| path.display().to_string()).collect()
    }

    fn daemon(file: Option<&str>, conf: Option<&str>) -> Daemon {
        Daemon { pid: 7, file: file.map(Into::into), conf: conf.map(Into::into), is_configless: false }
    }

    /// Make sure that each usual place is found, that a slurmd says more than a place, and
    /// the site more than a slurmd.
    #[test]
    fn order() {
        let root = std::env::temp_dir().join(format!("gpumap-places-{}", std::process::id()));
        let nothing = confs(&root, None, &[]);
        assert!(nothing.len() == CONFIGLESS.len() + USUAL.len(), "{nothing:?}");
        for place in CONFIGLESS.iter().chain(&USUAL).chain(&["/site/24.05/etc"]) {
            let directory = below(&root, Path::new(place));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("slurm.conf"), "").unwrap();
            let slurmd = daemon(Some("/site/24.05/sbin/slurmd"), None);
            assert_eq!(confs(&root, None, &[slurmd]), [format!("{place}/slurm.conf")]);
            std::fs::remove_file(directory.join("slurm.conf")).unwrap();
        }
        std::fs::write(below(&root, Path::new("/etc/slurm/slurm.conf")), "").unwrap();
        let named = [daemon(Some("/usr/sbin/slurmd"), Some("/srv/a.conf"))];
        assert_eq!(confs(&root, None, &[daemon(Some("/usr/sbin/slurmd"), None)]), ["/etc/slurm/slurm.conf"]);
        assert_eq!(confs(&root, None, &named), ["/srv/a.conf"]);
        assert_eq!(confs(&root, Some("/opt/here"), &named), ["/opt/here/slurm.conf"]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// Make sure that two slurmd of different files, and one of a file that cannot be
    /// found, leave it unknown.
    #[test]
    fn unknown() {
        let of =
            |daemons: &[Daemon]| SlurmPlaces::find(Path::new("/nowhere"), &SlurmFiles::default(), daemons);
        let two = of(&[daemon(None, Some("/a/slurm.conf")), daemon(None, Some("/b/slurm.conf"))]);
        assert!(two.confs().is_empty() && two.unknown().unwrap().contains("/b/slurm.conf"));
        assert!(of(&[daemon(None, Some("slurm.conf"))]).unknown().is_some());
        let same = of(&[daemon(None, Some("/a/slurm.conf")), daemon(None, Some("/a/slurm.conf"))]);
        assert_eq!(same.unknown(), None);
        assert_eq!(Vec::from_iter(same.beside("gres.conf")), [PathBuf::from("/a/gres.conf")]);
    }
}
