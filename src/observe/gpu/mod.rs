//! Collects what the system says about GPUs without opening one.
//!
//! Only text files of `/proc` and `/sys` are read, and device nodes are looked at
//! with `lstat`. A driver that does not exist is no error; a file that exists and
//! may not be read is a [`Problem`].

mod dev;
mod nvidia;
mod sysfs;
mod tree;

use std::path::Path;

use crate::observation::{GpuFacts, Problem};

use tree::Tree;

/// Collects the GPU facts below `gpu_root` (`/` on a live node).
///
/// Paths in the result are as on the node, without the prefix. What exists but
/// could not be read is appended to `errors`:
///
/// | code | meaning |
/// |---|---|
/// | `no-right` | the kernel refused to show a file or directory |
/// | `unreadable` | reading failed for another reason |
/// | `too-large` | a file was cut at its size limit |
/// | `too-many` | entries of a directory, nodes, or bytes were left out |
/// | `bad-node` | a stand-in for a device node does not parse |
///
/// Below any root but `/` a regular file stands for a device node if its text
/// is `TYPE MAJOR:MINOR [MODE [UID [GID]]]`, such as `c 195:0` or
/// `c 226:128 660 0 44`: type `c` or `b`, mode octal (default 666), owner and
/// group decimal (default 0). On a live node such a file is no device.
pub fn collect(gpu_root: &Path, errors: &mut Vec<Problem>) -> GpuFacts {
    let before = errors.len();
    let mut tree = Tree::new(gpu_root, errors);
    tree.file("/proc/devices");
    nvidia::collect(&mut tree);
    sysfs::collect(&mut tree);
    dev::collect(&mut tree);
    let facts = tree.facts;
    GpuFacts { unread: errors.len() > before, ..facts }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Make sure that a node without GPUs is told from one that cannot be read.
    #[test]
    fn unread() {
        let root = std::env::temp_dir().join(format!("gpumap-gpus-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let mut errors = Vec::new();
        assert!(!collect(&root, &mut errors).unread && errors.is_empty());
        symlink("dev", root.join("dev")).unwrap();
        assert!(collect(&root, &mut errors).unread && !errors.is_empty());
        fs::remove_dir_all(root).unwrap();
    }
}
