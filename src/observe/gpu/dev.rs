//! Lists the device nodes below `/dev` that belong to a GPU driver, by `lstat`
//! alone.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::model::{DeviceType, ProblemCode};
use crate::observation::DeviceNode;

use super::tree::Tree;
use crate::sys::retry::again;

/// Nodes kept in all.
const NODE_LIMIT: usize = 4096;
/// The most bytes of a stand-in that are read.
const STAND_IN_LIMIT: usize = 256;
/// Permission bits of a stand-in without any: those that the NVIDIA driver uses.
const STAND_IN_MODE: u32 = 0o666;
/// Name prefixes in `/dev` itself: NVIDIA, AMD compute, Gaudi (`hl0`,
/// `hl_controlD0`), AWS Neuron, GPUs in WSL.
const PREFIXES: [&str; 5] = ["nvidia", "kfd", "hl", "neuron", "dxg"];
/// Directories of `/dev` in which every device node counts.
const DIRS: [&str; 4] = ["nvidia-caps", "nvidia-caps-imex-channels", "dri", "accel"];

/// Collects the nodes, sorted by directory and name.
pub(super) fn collect(tree: &mut Tree<'_>) {
    let keep = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    for name in tree.names("/dev", NODE_LIMIT, keep) {
        node(tree, format!("/dev/{name}"));
    }
    for dir in DIRS {
        let dir = format!("/dev/{dir}");
        for name in tree.names(&dir, NODE_LIMIT, |_| true) {
            node(tree, format!("{dir}/{name}"));
        }
    }
    limit(tree);
}

/// Records one node; directories and links are left out.
fn node(tree: &mut Tree<'_>, path: String) {
    match again(|| fs::symlink_metadata(tree.real(&path))) {
        Ok(meta) if meta.file_type().is_file() && !tree.live => stand_in(tree, path),
        Ok(meta) => tree.facts.nodes.extend(from_metadata(path, &meta)),
        Err(error) => tree.failed(&path, &error),
    }
}

/// A device node, if that is what the metadata describes.
fn from_metadata(path: String, meta: &Metadata) -> Option<DeviceNode> {
    let kind = match meta.file_type() {
        kind if kind.is_char_device() => DeviceType::Char,
        kind if kind.is_block_device() => DeviceType::Block,
        _ => return None,
    };
    let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
    Some(DeviceNode {
        path,
        kind,
        major,
        minor,
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
    })
}

/// Reads a regular file in place of a device node.
fn stand_in(tree: &mut Tree<'_>, path: String) {
    let text: io::Result<String> = tree.text(&path, STAND_IN_LIMIT);
    match text.map(|text| parse(&path, &text)) {
        Ok(Some(node)) => tree.facts.nodes.push(node),
        Ok(None) => {
            let needs = "text such as `c 195:0` or `c 195:0 666 0 0`".to_owned();
            tree.problem(ProblemCode::BadNode, &path, "does not describe a device node".to_owned(), needs);
        }
        Err(error) => tree.failed(&path, &error),
    }
}

/// Parses `TYPE MAJOR:MINOR [MODE [UID [GID]]]`.
fn parse(path: &str, text: &str) -> Option<DeviceNode> {
    let mut words = text.split_ascii_whitespace();
    let kind = match words.next()? {
        "c" => DeviceType::Char,
        "b" => DeviceType::Block,
        _ => return None,
    };
    let (major, minor) = words.next()?.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let mode = words.next().map_or(Some(STAND_IN_MODE), |mode| u32::from_str_radix(mode, 8).ok())?;
    let uid = words.next().map_or(Some(0), |uid| uid.parse().ok())?;
    let gid = words.next().map_or(Some(0), |gid| gid.parse().ok())?;
    let node = DeviceNode { path: path.to_owned(), kind, major, minor, mode, uid, gid };
    words.next().is_none().then_some(node)
}

/// Drops nodes beyond the limit, and reports that.
fn limit(tree: &mut Tree<'_>) {
    if tree.facts.nodes.len() > NODE_LIMIT {
        tree.facts.nodes.truncate(NODE_LIMIT);
        tree.problem(
            ProblemCode::TooMany,
            "/dev",
            format!("only {NODE_LIMIT} GPU nodes are used"),
            String::new(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_have_defaults() {
        let node = parse("/dev/nvidia0", "c 195:0\n").unwrap();
        assert_eq!((node.kind, node.major, node.minor), (DeviceType::Char, 195, 0));
        assert_eq!((node.mode, node.uid, node.gid), (0o666, 0, 0));
        let node = parse("/dev/dri/renderD128", "c 226:128 660 0 44").unwrap();
        assert_eq!((node.mode, node.uid, node.gid), (0o660, 0, 44));
    }

    #[test]
    fn other_text_is_no_node() {
        for text in ["", "c", "x 1:2", "c 1", "c 1:", "c -1:2", "c 1:2 888", "c 1:2 666 0 0 0"] {
            assert_eq!(parse("/dev/nvidia0", text), None, "{text:?}");
        }
    }
}
