//! Reads Slurm's `gres.conf`, the name of its cluster, and the environment of a hook.
//! [`super::slurm_places`] says where they are.
//!
//! Slurm itself is neither started nor asked: in a Prolog that would deadlock. The
//! environment, `SLURM_CONF` included, is trusted only where the caller says
//! that gpumap runs in a hook.

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::model::{HOOK_VARIABLES, ProblemCode};
use crate::observation::{ConfigFile, Environment, Process, Slurm, Text, Variable};
use crate::observe::clock::modified_at;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::site_config;
use crate::observe::slurm_daemon::{self, Daemon};
use crate::observe::slurm_places::{SlurmPlaces, below, is_none};
use crate::slurm_conf;
use crate::sys::dir::{Dir, read_all};
use crate::sys::regular_file::NotOpened;

/// Bytes of `gres.conf` that are read.
const FILE_LIMIT: usize = 1 << 20;
/// Bytes of a variable that are kept: what one argument may have.
const VALUE_LIMIT: usize = 128 << 10;
/// Files that one file may include, directly or by others.
pub(in crate::observe) const INCLUDED: usize = 64;
/// Characters of a cluster's name.
const CLUSTER: usize = 64;
/// Where Slurm's files are on this node. A slurmd may be among the `processes` that were
/// looked at, besides those that pid files and its unit name. Where none of these is one and
/// a Slurm is known to be here, all others are looked through for it (`is_here`): anybody can
/// give a process its name.
pub(in crate::observe) fn places(
    options: &Options,
    cgroups: Option<&Path>,
    processes: &[Process],
    is_here: bool,
    log: &mut Log,
) -> SlurmPlaces {
    let site = site_config::read(options, log).slurm;
    let mut pids: BTreeSet<u32> =
        processes.iter().filter(|one| slurm_daemon::is_called(one)).map(|one| one.pid).collect();
    if site.directory.is_none() {
        match slurm_daemon::hinted(cgroups) {
            Ok(hinted) => pids.extend(hinted),
            Err((path, errno)) => log.failed(path.to_string_lossy(), errno),
        }
    }
    let mut daemons = daemons(options, pids, log);
    if daemons.is_empty() && is_here && site.directory.is_none() {
        let looked_at = processes.iter().map(|process| process.pid).collect();
        match slurm_daemon::listed(&options.proc, &looked_at) {
            Ok(listed) => daemons = self::daemons(options, listed, log),
            Err(errno) => log.failed(options.proc.to_string_lossy(), errno),
        }
    }
    SlurmPlaces::find(Path::new("/"), &site, &daemons)
}

/// Those of these processes that are a slurmd of this node.
fn daemons(options: &Options, pids: impl IntoIterator<Item = u32>, log: &mut Log) -> Vec<Daemon> {
    let mut daemons = Vec::new();
    for pid in pids {
        match slurm_daemon::by_pid(&options.proc, pid) {
            Ok(found) => daemons.extend(found),
            Err(why) => {
                log.add(ProblemCode::Unreadable, format!("slurmd {pid}"), why.to_string(), NAMED);
            }
        }
    }
    daemons
}

/// What helps where it is not known which files Slurm uses.
const NAMED: &str = "--gres-conf FILE, or slurm.directory in /etc/gpumap.toml";

/// Collects both.
pub(in crate::observe) fn collect(options: &Options, places: &SlurmPlaces, log: &mut Log) -> Slurm {
    let (gres_conf, looked_in) = gres_conf(options, places, log);
    let modified = gres_conf.as_ref().map(|file| (modified_at(Path::new(&file.path)), &file.path));
    let gres_conf_modified_at = modified.and_then(|(time, path)| log.there(path, time));
    let hook = options.hook.then(|| hook(std::env::vars_os()));
    Slurm { gres_conf, looked_in, gres_conf_modified_at, hook }
}

/// The name of the cluster, from `slurm.conf`; `None` where no file can be read or the
/// file does not say it.
pub(in crate::observe) fn cluster(options: &Options, places: &SlurmPlaces, log: &mut Log) -> Option<String> {
    let named = hook_conf(options);
    let mut files = named.iter().chain(places.confs()).map(|path| (read(path), path));
    let (text, path) = files.find(|(text, _)| !text.as_ref().is_err_and(|errno| is_none(*errno)))?;
    log.there(path.to_string_lossy(), text).and_then(|text| cluster_name(&String::from_utf8_lossy(&text)))
}

/// The `slurm.conf` that Slurm names to a hook.
fn hook_conf(options: &Options) -> Option<PathBuf> {
    options.hook.then(|| std::env::var_os("SLURM_CONF")).flatten().map(PathBuf::from)
}

/// The last `ClusterName` of a `slurm.conf`, in lower case as Slurm takes it.
fn cluster_name(text: &str) -> Option<String> {
    let lines = slurm_conf::parse(text);
    let name = lines.iter().rev().find_map(|line| line.get("clustername"))?.to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    ((1..=CLUSTER).contains(&name.len()) && name.bytes().all(is_plain)).then_some(name)
}

/// The file that was named, else the first that exists; or where it was looked for. One
/// that exists and cannot be read is a problem, and no other is taken in its place.
fn gres_conf(options: &Options, places: &SlurmPlaces, log: &mut Log) -> (Option<ConfigFile>, Vec<String>) {
    if let Some(path) = options.gres_conf.as_deref().or(places.gres_conf()) {
        return (found(path, read(path), true, log).flatten(), Vec::new());
    }
    let beside = hook_conf(options).map(|path| path.with_file_name("gres.conf"));
    let candidates: Vec<PathBuf> = beside.into_iter().chain(places.beside("gres.conf")).collect();
    if let Some(file) = candidates.iter().find_map(|path| found(path, read(path), false, log)) {
        return (file, Vec::new());
    }
    if let Some(why) = places.unknown() {
        log.add(ProblemCode::Unreadable, "gres.conf", why, NAMED);
    }
    let directories = candidates.iter().filter_map(|path| path.parent());
    (None, directories.map(|path| path.to_string_lossy().into_owned()).collect())
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
        Ok(text) => {
            let (text, included) = with_included(Path::new("/"), path, text);
            return Some(Some(ConfigFile { path: name.into_owned(), text, included }));
        }
        Err(errno) if is_none(errno) && !named => return None,
        Err(Errno::EACCES) => {
            log.add(ProblemCode::NoRight, name, "it may not be read", "root, or --gres-conf FILE")
        }
        Err(Errno::EFBIG) => {
            log.add(
                ProblemCode::TooLarge,
                name,
                format!("it has more than {FILE_LIMIT} bytes"),
                "name it with --gres-conf FILE",
            );
        }
        Err(error) => {
            log.add(ProblemCode::Unreadable, name, error.to_string(), "name it with --gres-conf FILE")
        }
    }
    Some(None)
}

/// The text of a file of Slurm below `root`, with the files that it includes in the place
/// of their lines, and the names of these. A line whose file cannot be read stays, as do
/// those behind the last that may be included.
pub(in crate::observe) fn with_included(root: &Path, path: &Path, bytes: Vec<u8>) -> (Text, Vec<String>) {
    let mut included = Vec::new();
    let text = expanded(root, path, bytes, &mut included);
    (Text::from(text), included.iter().map(|path| path.to_string_lossy().into_owned()).collect())
}

fn expanded(root: &Path, path: &Path, bytes: Vec<u8>, included: &mut Vec<PathBuf>) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    // Numbers of lines begin at 1; the last is not in it.
    let part = |first: usize, end: usize| lines.get(first - 1..end - 1).unwrap_or_default().concat();
    let (mut text, mut next) = (Vec::new(), 1);
    for line in slurm_conf::parse(&String::from_utf8_lossy(&bytes)) {
        let Some(name) = &line.include else { continue };
        text.extend(part(next, line.first));
        next = line.last + 1;
        let place = path.with_file_name(name);
        let is_left = included.len() < INCLUDED;
        match is_left.then(|| read(&below(root, &place))) {
            Some(Ok(bytes)) => {
                included.push(place.clone());
                text.extend(expanded(root, &place, bytes, included));
                text.push(b'\n');
            }
            // Whoever reads the text finds the line, and says so.
            _ => text.extend(part(line.first, next)),
        }
    }
    text.extend(part(next, lines.len() + 1));
    text
}

/// The bytes of a regular file. The path may contain links (`/etc/slurm` often is
/// one).
pub(in crate::observe) fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = Dir::open(directory.unwrap_or(Path::new(".")))?;
    let name = path.file_name().ok_or(Errno::EISDIR)?;
    // No name in a file system has a NUL byte.
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let (file, _) = directory.open_regular(&name).map_err(NotOpened::errno)?;
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
            assert_eq!(gres_conf(&named(path), &SlurmPlaces::default(), &mut log), (None, Vec::new()));
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

    /// Make sure that included files stand in the place of their lines, that what cannot be
    /// read stays a line, and that a circle ends.
    #[test]
    fn included_files() {
        let root = std::env::temp_dir().join(format!("gpumap-include-{}", std::process::id()));
        std::fs::create_dir_all(root.join("opt/etc/more")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join("opt/etc").join(name), text).unwrap();
        write("more/gpus.conf", "Name=gpu\\\n File=/dev/nvidia0");
        write("circle.conf", "include circle.conf\n");
        let of = |text: &str| {
            let (text, included) = with_included(&root, Path::new("/opt/etc/gres.conf"), text.into());
            (text.lossy().into_owned(), included.len())
        };
        let whole = of("A=1\nInclude more/gpus.conf\nB=2");
        assert_eq!(whole, ("A=1\nName=gpu\\\n File=/dev/nvidia0\nB=2".to_owned(), 1));
        assert_eq!(of("include \\\n/gone\nB=2\n"), ("include \\\n/gone\nB=2\n".to_owned(), 0));
        assert_eq!(of("A=1\n"), ("A=1\n".to_owned(), 0));
        let (circle, count) = of("include circle.conf\n");
        assert_eq!((circle.trim(), count), ("include circle.conf", INCLUDED));
        std::fs::remove_dir_all(&root).unwrap();
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
