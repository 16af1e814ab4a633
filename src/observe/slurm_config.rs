//! Reads Slurm's `gres.conf`, the name of its cluster, and the environment of a hook.
//!
//! Slurm itself is neither started nor asked: in a Prolog that would deadlock. The
//! environment, `SLURM_CONF` included, is trusted only where the caller says
//! that gpumap runs in a hook.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::model::{HOOK_VARIABLES, ProblemCode};
use crate::observation::{ConfigFile, Environment, Slurm, Text, Variable};
use crate::observe::clock::modified_at;
use crate::observe::options::Options;
use crate::observe::problems::{Log, errno_of};
use crate::observe::processes::slurmd;
use crate::slurm_conf;
use crate::sys::absence::is_absence;
use crate::sys::dir::{Dir, read_all};
use crate::sys::retry::again;

/// Bytes of `gres.conf` that are read.
const FILE_LIMIT: usize = 1 << 20;
/// Bytes of a variable that are kept: what one argument may have.
const VALUE_LIMIT: usize = 128 << 10;
/// Characters of a cluster's name.
const CLUSTER: usize = 64;
/// The usual directories of Slurm's files: where the link of a configless slurmd leads,
/// those of packages, of slurm-gcp, of `make install`, of AWS ParallelCluster and of Bright,
/// and the caches of a configless slurmd that made no link.
const PLACES: [&str; 12] = [
    "/run/slurm/conf",
    "/etc/slurm",
    "/etc/slurm-llnl",
    "/usr/local/etc/slurm",
    "/usr/local/etc",
    "/opt/slurm/etc",
    "/cm/shared/apps/slurm/var/etc/slurm",
    "/cm/shared/apps/slurm/var/etc",
    "/var/spool/slurmd/conf-cache",
    "/var/spool/slurm/d/conf-cache",
    "/var/spool/slurm/slurmd/conf-cache",
    "/var/lib/slurm/slurmd/conf-cache",
];

/// The directories where `gres.conf` may be: that of the first `slurm.conf` alone, since
/// Slurm takes its other files from there; all usual ones where there is none. `root` is
/// put before each to look into it.
pub(in crate::observe) fn directories(root: &Path) -> Vec<PathBuf> {
    let usual: Vec<PathBuf> = PLACES.iter().map(PathBuf::from).collect();
    // One that cannot be looked at may have it: what is in it is told by whoever reads it.
    let may_have_it = |directory: &&PathBuf| {
        let file = below(root, directory).join("slurm.conf");
        again(|| file.symlink_metadata())
            .map_err(|error| errno_of(&error))
            .err()
            .is_none_or(|errno| !is_none(errno))
    };
    usual.iter().find(may_have_it).cloned().map_or(usual.clone(), |found| vec![found])
}

/// Whether a call said that there is no such file. A path through something else than a
/// directory leads to none.
pub(in crate::observe) fn is_none(errno: Errno) -> bool {
    errno == Errno::ENOTDIR || is_absence(errno)
}

/// Where an absolute path is below `root`.
pub(in crate::observe) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Collects both.
pub(in crate::observe) fn collect(options: &Options, log: &mut Log) -> Slurm {
    let (gres_conf, looked_in) = gres_conf(options, log);
    let modified = gres_conf.as_ref().map(|file| (modified_at(Path::new(&file.path)), &file.path));
    let gres_conf_modified_at = modified.and_then(|(time, path)| log.there(path, time));
    let looked_in = looked_in.into_iter().filter(|_| gres_conf.is_none());
    Slurm {
        looked_in: looked_in.map(|directory| directory.to_string_lossy().into_owned()).collect(),
        gres_conf,
        gres_conf_modified_at,
        hook: options.hook.then(|| hook(std::env::vars_os())),
    }
}

/// The name of the cluster, from `slurm.conf` beside the places of `gres.conf`; `None`
/// where no file can be read or the file does not say it.
pub(in crate::observe) fn cluster(options: &Options, log: &mut Log) -> Option<String> {
    let named = options.hook.then(|| std::env::var_os("SLURM_CONF")).flatten().map(PathBuf::from);
    let places = PLACES.iter().map(|place| Path::new(place).join("slurm.conf"));
    let mut files = named.into_iter().chain(places).map(|path| (read(&path), path));
    let (text, path) = files.find(|(text, _)| !text.as_ref().is_err_and(|errno| is_none(*errno)))?;
    log.there(path.to_string_lossy(), text).and_then(|text| cluster_name(&String::from_utf8_lossy(&text)))
}

/// The last `ClusterName` of a `slurm.conf`, in lower case as Slurm takes it.
fn cluster_name(text: &str) -> Option<String> {
    let lines = slurm_conf::parse(text);
    let name = lines.iter().rev().find_map(|line| line.get("clustername"))?.to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    ((1..=CLUSTER).contains(&name.len()) && name.bytes().all(is_plain)).then_some(name)
}

/// The file that was named, else the first that exists, and the directories that were
/// looked in. One that exists and cannot be read is a problem, and no other is taken in its
/// place.
fn gres_conf(options: &Options, log: &mut Log) -> (Option<ConfigFile>, Vec<PathBuf>) {
    if let Some(path) = &options.gres_conf {
        return (found(path, read(path), true, log).flatten(), Vec::new());
    }
    let named = options.hook.then(|| std::env::var_os("SLURM_CONF")).flatten().map(PathBuf::from);
    let directories = own_directories(options, named);
    let file = directories.iter().map(|directory| directory.join("gres.conf"));
    let file = file.map(|path| found(&path, read(&path), false, log)).find_map(|found| found);
    (file.flatten(), directories)
}

/// The directories of Slurm's files on this node: that of the `slurm.conf` that the hook
/// names, else of the one that the slurmd which runs was started with, else the usual ones.
pub(in crate::observe) fn own_directories(options: &Options, named: Option<PathBuf>) -> Vec<PathBuf> {
    let usual = directories(Path::new("/"));
    // One alone has a slurm.conf.
    let is_found = usual.len() == 1;
    let running = || slurmd::slurm_conf(options, !is_found);
    let own = named.or_else(running).and_then(|file| Some(file.parent()?.to_owned()));
    own.map_or(usual, |directory| vec![directory])
}

/// `None` where there is no such file, and that is no problem.
fn found(
    path: &Path,
    file: Result<Vec<u8>, Errno>,
    named: bool,
    log: &mut Log,
) -> Option<Option<ConfigFile>> {
    let name = path.to_string_lossy();
    match file {
        Ok(text) => return Some(Some(ConfigFile { path: name.into_owned(), text: text.into() })),
        Err(errno) if is_none(errno) && !named => return None,
        Err(Errno::EACCES) => {
            log.add(ProblemCode::NoRight, name, "it may not be read", "root, or --gres-conf FILE")
        }
        Err(Errno::EFBIG) => {
            log.add(
                ProblemCode::TooLarge,
                name,
                format!("it has more than {FILE_LIMIT} bytes"),
                "--gres-conf FILE",
            );
        }
        Err(error) => log.add(ProblemCode::Unreadable, name, error.to_string(), "--gres-conf FILE"),
    }
    Some(None)
}

/// The bytes of a regular file. The path may contain links (`/etc/slurm` often is
/// one).
pub(in crate::observe) fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = Dir::open(directory.unwrap_or(Path::new(".")))?;
    let name = path.file_name().ok_or(Errno::EISDIR)?;
    // No name in a file system has a NUL byte.
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let (file, _) = directory.open_regular(&name)?;
    let mut bytes = Vec::new();
    read_all(&file, &mut bytes, FILE_LIMIT)?;
    Ok(bytes)
}

/// The variables of a hook that gpumap uses.
fn hook(variables: impl Iterator<Item = (OsString, OsString)>) -> Environment {
    let known = |(name, value): (OsString, OsString)| {
        let name = HOOK_VARIABLES.iter().find(|known| name == **known)?;
        let mut value = value.into_vec();
        let cut = value.len() > VALUE_LIMIT;
        value.truncate(VALUE_LIMIT);
        Some(Variable { name: (*name).to_owned(), value: Text::from(value), cut })
    };
    Environment { variables: variables.filter_map(known).collect(), cut: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that secrets are not kept.
    #[test]
    fn hooks_keep_known_variables() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let pairs = [pair("API_KEY", "x"), pair("SLURM_JOB_GPUS", "0,1"), pair("SLURM_CONF", "/x")];
        let kept = hook(pairs.into_iter());
        assert_eq!(kept.variables.len(), 1);
        assert_eq!(kept.get("SLURM_JOB_GPUS").unwrap().value, Text::from("0,1"));
    }

    /// Make sure that a file that the caller names and that cannot be read is
    /// reported, and that a missing one in a usual place is not.
    #[test]
    fn named_files_are_missed() {
        let mut log = Log::new(None);
        let named = |path: &str| Options { gres_conf: Some(path.into()), ..Options::default() };
        for (path, code) in [("/nonexistent/gres.conf", "unreadable"), ("/dev/null", "unreadable")] {
            assert_eq!(gres_conf(&named(path), &mut log).0, None);
            let problem = log.problems.pop().unwrap();
            assert_eq!((problem.code.as_str(), problem.what.as_str()), (code, path));
        }
        let path = Path::new("/nonexistent/gres.conf");
        assert_eq!(found(path, read(path), false, &mut log), None);
        assert!(log.problems.is_empty());
    }

    /// Make sure that the name of the cluster is read as Slurm reads it, and nothing
    /// that is no name.
    #[test]
    fn names_of_clusters() {
        for (text, expected) in [
            ("ClusterName=Alpha\nNodeName=n1\n", Some("alpha")),
            ("#ClusterName=x\n clustername = \"b-1\" # y\n", Some("b-1")),
            ("ClusterName=a\nClusterName=b\n", Some("b")),
            ("ClusterName=\n", None),
            ("ClusterName=a\u{1b}[2J\n", None),
            ("MyClusterName=a\n", None),
            ("", None),
        ] {
            assert_eq!(cluster_name(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn large_files_are_refused() {
        let path = std::env::temp_dir().join(format!("gpumap-gres-{}", std::process::id()));
        std::fs::write(&path, vec![b'#'; FILE_LIMIT + 1]).unwrap();
        let large = read(&path);
        std::fs::write(&path, "AutoDetect=nvml\n").unwrap();
        let small = read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(large, Err(Errno::EFBIG));
        assert_eq!(small.unwrap(), b"AutoDetect=nvml\n");
    }
}
