//! Finds the number of a device that was named by a path or a GPU's name, and the
//! node of a number for `check --self`.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use walkdir::WalkDir;

use crate::commands::invocation::Invocation;
use crate::gpu::{self, NameError};
use crate::model::{Device, DeviceType};
use crate::observation::{GpuFacts, Observation};
use crate::observe;
use crate::report::Gpu;
use crate::sys::retry::again;

/// Names of one range.
const MOST_NAMES: u32 = 256;

/// Looks up devices that are named by a path or a name.
pub(crate) struct Devices {
    facts: OnceCell<GpuFacts>,
    gpus: OnceCell<Vec<Gpu>>,
    options: observe::Options,
    is_saved: bool,
}

impl Devices {
    /// The devices of an observation, saved or live.
    pub(crate) fn of(invocation: &Invocation<'_>, observation: &Observation) -> Self {
        let is_saved = invocation.global.from.is_some();
        // Programs from files come without a node: this one is looked at when
        // the first name is asked for.
        let is_known = is_saved || observation.gpu_facts != GpuFacts::default();
        let facts = if is_known { OnceCell::from(observation.gpu_facts.clone()) } else { OnceCell::new() };
        Self { facts, gpus: OnceCell::new(), options: invocation.options(), is_saved }
    }

    fn facts(&self) -> &GpuFacts {
        self.facts.get_or_init(|| observe::gpus(&self.options).gpu_facts)
    }

    /// The device behind a path: as saved, or as it is now; else the reason why
    /// there is none.
    pub(crate) fn node(&self, path: &[u8]) -> Result<Device, String> {
        let known = self.facts().nodes.iter().find(|node| node.path.as_bytes() == path);
        match known {
            Some(node) => Ok(Device { kind: node.kind, major: node.major, minor: node.minor }),
            None if self.is_saved => {
                Err("the saved observation holds no such GPU node; ask by number".to_owned())
            }
            None => on_node(&self.options.gpu_root, Path::new(OsStr::from_bytes(path))),
        }
    }

    /// The path of a node as gpumap itself opens it: below `--gpu-root`.
    pub(crate) fn local_path(&self, path: &[u8]) -> PathBuf {
        below(&self.options.gpu_root, Path::new(OsStr::from_bytes(path)))
    }

    /// A node for a device: below the `dev` of `--gpu-root`, else below `/dev`. The
    /// kernel decides about the number, whatever node has it.
    pub(crate) fn node_for(&self, device: Device) -> Option<PathBuf> {
        node_below(&self.dev(), device).or_else(|| node_below(Path::new("/dev"), device))
    }

    /// The directory whose `dev` is searched, for messages.
    pub(crate) fn dev(&self) -> PathBuf {
        self.options.gpu_root.join("dev")
    }

    /// The devices of this name: one, or those of a range such as `nvidia1-3`, as tables
    /// write GPUs.
    pub(crate) fn all_named(&self, name: &str) -> Result<Vec<Device>, NameError> {
        match (self.named(name), range(name)) {
            (Ok(device), _) => Ok(vec![device]),
            (Err(_), Some(names)) => names.map(|one| self.named(&one)).collect(),
            (Err(why), None) => Err(why),
        }
    }

    /// The device of this name.
    pub(crate) fn named(&self, name: &str) -> Result<Device, NameError> {
        let gpus = self.gpus.get_or_init(|| gpu::inventory(self.facts()));
        gpu::named(self.facts(), gpus, name).map(|(kind, major, minor)| Device { kind, major, minor })
    }
}

/// The names of a range: `nvidia1-3` is `nvidia1`, `nvidia2` and `nvidia3`.
fn range(name: &str) -> Option<impl Iterator<Item = String>> {
    let (first, last) = name.rsplit_once('-')?;
    let word = first.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let (first, last): (u32, u32) = (first.get(word.len()..)?.parse().ok()?, last.parse().ok()?);
    let is_range = !word.is_empty() && first <= last && last - first < MOST_NAMES;
    is_range.then(|| (first..=last).map(move |number| format!("{word}{number}")))
}

/// A node for a device in a directory or below it.
fn node_below(dev: &Path, device: Device) -> Option<PathBuf> {
    let entries = WalkDir::new(dev).sort_by_file_name().into_iter().filter_map(Result::ok);
    let mut nodes = entries.filter(|entry| !entry.file_type().is_symlink() && !entry.file_type().is_dir());
    let is_it = |metadata: std::fs::Metadata| of_metadata(&metadata) == Some(device);
    nodes.find(|entry| entry.metadata().is_ok_and(is_it)).map(walkdir::DirEntry::into_path)
}

/// An absolute path below a root; a relative one as it is.
fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix("/").map_or_else(|_| path.to_owned(), |rest| root.join(rest))
}

fn on_node(root: &Path, path: &Path) -> Result<Device, String> {
    let metadata = again(|| below(root, path).metadata()).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if root == Path::new("/") => "there is no such node".to_owned(),
        std::io::ErrorKind::NotFound => format!("there is no such node under {}", root.display()),
        _ => format!("the node cannot be looked at: {error}"),
    })?;
    of_metadata(&metadata).ok_or_else(|| "it is not a device node".to_owned())
}

fn of_metadata(metadata: &std::fs::Metadata) -> Option<Device> {
    let kind = match metadata.file_type() {
        kind if kind.is_char_device() => DeviceType::Char,
        kind if kind.is_block_device() => DeviceType::Block,
        _ => return None,
    };
    let number = metadata.rdev();
    let (major, minor) = (u32::try_from(major(number)).ok()?, u32::try_from(minor(number)).ok()?);
    Some(Device { kind, major, minor })
}
