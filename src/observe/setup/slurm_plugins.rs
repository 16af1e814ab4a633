//! Which version of Slurm a node has, as its plugins say it.
//!
//! Every plugin exports `plugin_version`, the number of the Slurm that it was made with
//! (`slurm/slurm.h`: year, month and patch in a byte each). Slurm's daemons refuse
//! plugins of another version, so it is theirs too. It is read from the file: no
//! program of Slurm is started, and no plugin is loaded.
//!
//! Nothing cheaper says it: gpumap starts no other program (`slurmd -V`), packages name the
//! version in files of their own each, and the number in the name of `libslurm.so.N` is
//! that of an interface. `doctor` tells it because what a node does hangs on it: from 26.05
//! on Slurm names cgroups by SLUID, and before 25.05 a job whose device program could not be
//! attached ran without one.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::elf::{ElfFile, SymbolKind};
use crate::observation::{Answer, SlurmPlugins};
use crate::observe::problems::errno_of;
use crate::observe::slurm_places::is_none;
use crate::sys::absence::{OrAbsent as _, is_absence};
use crate::sys::dir::open_readable;
use crate::sys::retry::again;

/// Where packages and `make install` put plugins, below `/usr`, `/usr/local` and
/// `/opt/slurm`.
const PREFIXES: [&str; 3] = ["/usr", "/usr/local", "/opt/slurm"];
/// Plugins that nodes have; the first is the one that constrains devices.
const NAMES: [&str; 4] = ["task_cgroup.so", "cgroup_v2.so", "auth_munge.so", "select_cons_tres.so"];
/// Plugins that AutoDetect of `gres.conf` needs, `gpu_` and its value.
const GPU_PLUGINS: [&str; 5] = ["gpu_nvml", "gpu_nvidia", "gpu_rsmi", "gpu_oneapi", "gpu_nrt"];
/// Directories of `PluginDir` that are looked at.
const DIRECTORIES: usize = 16;

/// The version in each directory with plugins: those that `slurm.conf` names, or else
/// those beside a slurmd that runs (`daemon` is its file) and the usual ones.
pub(super) fn collect(root: &Path, daemon: Option<&Path>, plugin_dir: Option<&str>) -> Vec<SlurmPlugins> {
    let directories = match plugin_dir {
        Some(named) => named.split(':').filter(|path| path.starts_with('/')).map(PathBuf::from).collect(),
        None => usual(daemon),
    };
    let mut seen = BTreeSet::new();
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let found = directories.into_iter().take(DIRECTORIES).filter_map(|directory| {
        let named = directory.to_string_lossy().into_owned();
        // On many nodes `/usr/lib64` is a link. One that leads out of the root leads to
        // another node's files.
        let real = real(root).and_then(|root| Ok((real(&below(&directory))?, root)));
        match real.map(|(real, root)| (real.starts_with(root), real)) {
            Ok((is_inside, real)) => {
                (is_inside && seen.insert(real.clone())).then_some(())?;
                version(&real).map(|version| SlurmPlugins { directory: named, version, gpu: gpu(&real) })
            }
            Err(errno) if is_none(errno) => None,
            Err(errno) => {
                let version = Answer::Missing(errno.desc().to_owned());
                Some(SlurmPlugins { directory: named, version, gpu: None })
            }
        }
    });
    found.collect()
}

fn real(path: &Path) -> Result<PathBuf, Errno> {
    again(|| path.canonicalize()).map_err(|error| errno_of(&error))
}

/// The directories below the prefix of a daemon and the usual prefixes.
fn usual(daemon: Option<&Path>) -> Vec<PathBuf> {
    let multiarch = format!("lib/{}-linux-gnu/slurm", std::env::consts::ARCH);
    let inside = ["lib64/slurm", "lib/slurm", &multiarch, &format!("{multiarch}-wlm")].map(str::to_owned);
    let own = daemon.and_then(|file| file.parent()?.parent());
    let prefixes = own.into_iter().chain(PREFIXES.iter().map(Path::new));
    prefixes.flat_map(|prefix| inside.iter().map(move |path| prefix.join(path))).collect()
}

/// The plugins that find GPUs, which packages split off or leave out; `None` where one
/// cannot be looked at.
fn gpu(directory: &Path) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for name in GPU_PLUGINS {
        // Why not is told of the plugins that every node has.
        let there = again(|| directory.join(format!("{name}.so")).metadata()).or_absent().ok()?;
        found.extend(there.map(|_| name.to_owned()));
    }
    Some(found)
}

/// The version that all plugins of a directory have; `None` where there are none.
fn version(directory: &Path) -> Option<Answer<String>> {
    let mut found = BTreeSet::new();
    for name in NAMES {
        match open_readable(&directory.join(name)) {
            Err(errno) if is_absence(errno) => {}
            Err(errno) => return Some(Answer::Missing(format!("{name}: {}", errno.desc()))),
            Ok(file) => match number(&file) {
                Ok(number) => drop(found.insert(number)),
                Err(why) => return Some(Answer::Missing(format!("{name}: {why}"))),
            },
        }
    }
    let texts: Vec<String> = found.into_iter().map(text).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(Answer::Known(one.clone())),
        several => Some(Answer::Missing(format!("its plugins are of {}", several.join(" and ")))),
    }
}

/// `plugin_version` of a plugin.
fn number(file: &File) -> Result<u32, String> {
    let mut elf = ElfFile::open(|buffer: &mut [u8], offset| file.read_exact_at(buffer, offset))
        .map_err(|error| error.to_string())?;
    let symbols =
        elf.exported(&["plugin_version"], SymbolKind::Variable).map_err(|error| error.to_string())?;
    let symbol = symbols.into_iter().flatten().next().ok_or("it has no plugin_version")?;
    elf.variable(&symbol).map(u32::from_ne_bytes).map_err(|error| error.to_string())
}

/// A version as Slurm prints it: `22.05.8`.
fn text(number: u32) -> String {
    let [rest, year, month, patch] = number.to_be_bytes();
    format!("{}.{month:02}.{patch}", u32::from(rest) << 8 | u32::from(year))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A root with plugins that gcc makes: name and number.
    fn root(name: &str, plugins: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("gpumap-plugins-{name}-{}", std::process::id()));
        for (path, code) in plugins {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let source = path.with_extension("c");
            std::fs::write(&source, code).unwrap();
            let made = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&source).status();
            assert!(made.unwrap().success());
        }
        root
    }

    fn found(root: &Path, daemon: Option<&str>, plugin_dir: Option<&str>) -> Vec<(String, String)> {
        let all = collect(root, daemon.map(Path::new), plugin_dir).into_iter();
        let said = |answer: Answer<String>| match answer {
            Answer::Known(version) => version,
            Answer::Missing(why) => format!("? {why}"),
        };
        all.map(|plugins| (plugins.directory, said(plugins.version))).collect()
    }

    /// Make sure that versions are read as Slurm prints them, from the directories that
    /// slurm.conf names and no others, and that what says nothing certain is unknown.
    #[test]
    fn versions() {
        let (old, new) =
            ("const unsigned plugin_version = 0x160508;", "unsigned int plugin_version = 0x190b00;");
        let root = root(
            "versions",
            &[
                ("usr/lib64/slurm/task_cgroup.so", old),
                ("usr/lib64/slurm/auth_munge.so", old),
                ("opt/slurm/lib/slurm/task_cgroup.so", new),
                ("site/slurm/lib/slurm/auth_munge.so", new),
                ("half/task_cgroup.so", old),
                ("half/cgroup_v2.so", new),
                ("none/task_cgroup.so", "int other = 1;"),
                ("zero/task_cgroup.so", "unsigned plugin_version;"),
                ("wide/task_cgroup.so", "unsigned long plugin_version = 0x160508;"),
            ],
        );
        let pair = |path: &str, said: &str| (path.to_owned(), said.to_owned());
        assert_eq!(
            found(&root, None, None),
            [pair("/usr/lib64/slurm", "22.05.8"), pair("/opt/slurm/lib/slurm", "25.11.0")]
        );
        assert_eq!(
            found(&root, None, Some("/opt/slurm/lib/slurm:/absent")),
            [pair("/opt/slurm/lib/slurm", "25.11.0")]
        );
        // A slurmd that runs elsewhere leads to its plugins.
        let by_daemon = found(&root, Some("/site/slurm/sbin/slurmd"), None);
        let said = found(&root, None, Some("/half:/none:/zero:/wide"));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(by_daemon[0], pair("/site/slurm/lib/slurm", "25.11.0"));
        assert_eq!(by_daemon.len(), 3);
        for ((_, said), expected) in said.iter().zip([
            "? its plugins are of 22.05.8 and 25.11.0",
            "? task_cgroup.so: it has no plugin_version",
            "? task_cgroup.so: a malformed ELF file (a variable)",
            "? task_cgroup.so: a malformed ELF file (a variable)",
        ]) {
            assert_eq!(said, expected);
        }
        assert_eq!(said.len(), 4);
    }
}
