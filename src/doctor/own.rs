//! gpumap's own version and file.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, ok, unknown};

pub(super) const KINDS: &[CheckKind] = &[CheckKind {
    id: "gpumap.file",
    page: "What root executes nobody else should be able to change: not the file of gpumap. After an upgrade a \
           gpumap that still runs is the old one.",
    look: file,
}];

/// Permission to write for the group or for others.
const OTHERS_WRITE: u32 = 0o022;

fn file(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let version = &node.observation.version;
    let file = match (node.setup.own_file.known(), node.setup.own_file.missing()) {
        (Some(file), _) => file,
        (None, why) => {
            let text = format!("gpumap {version}; its file is not known: {}.", why.unwrap_or_default());
            return Some(unknown(text, "mount /proc"));
        }
    };
    let text = format!("gpumap {version}, {}", file.path);
    let is_root = node.setup.rights.uid == 0;
    Some(if file.replaced {
        missing(format!("{text}: the file was removed or replaced since it started."), "start gpumap again")
    } else if is_root && (file.uid != 0 || file.mode & OTHERS_WRITE != 0) {
        missing(
            format!(
                "{text}: root executes it, and others may change it (owner {}, mode {:o}).",
                file.uid, file.mode
            ),
            "chown root:root and chmod 755 the file",
        )
    } else {
        ok(format!("{text}."))
    })
}
