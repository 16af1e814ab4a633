//! Device nodes: from a path to numbers, and back for `check --self`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use walkdir::WalkDir;

use crate::observation::{NodeKind, Observation};
use crate::policy::device::{Device, DeviceType};

/// The device behind a path: as saved, or as it is now. The reason otherwise.
pub(super) fn device(path: &[u8], saved: Option<&Observation>) -> Result<Device, String> {
    match saved {
        Some(observation) => in_saved(path, observation),
        None => on_node(Path::new(OsStr::from_bytes(path))),
    }
}

fn in_saved(path: &[u8], observation: &Observation) -> Result<Device, String> {
    let node = observation.gpu_facts.nodes.iter().find(|node| node.path.as_bytes() == path);
    let node = node.ok_or("the saved observation holds no such GPU node; ask by number")?;
    let kind = match node.kind {
        NodeKind::Block => DeviceType::Block,
        NodeKind::Char => DeviceType::Char,
    };
    Ok(Device { kind, major: node.major, minor: node.minor })
}

fn on_node(path: &Path) -> Result<Device, String> {
    let metadata = path.metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such node".to_owned(),
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

/// A node under `/dev` for a device.
pub(super) fn path(device: Device) -> Option<PathBuf> {
    let entries = WalkDir::new("/dev").sort_by_file_name().into_iter().filter_map(Result::ok);
    let mut nodes = entries.filter(|entry| !entry.file_type().is_symlink() && !entry.file_type().is_dir());
    let is_it = |metadata: std::fs::Metadata| of_metadata(&metadata) == Some(device);
    nodes.find(|entry| entry.metadata().is_ok_and(is_it)).map(walkdir::DirEntry::into_path)
}
