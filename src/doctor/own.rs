//! gpumap's own version and file.

use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok, unknown};

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "gpumap.file",
        page: "What root executes nobody else should be able to change: neither the file of gpumap nor a \
               directory above it. After an upgrade a gpumap that still runs is the old one.",
        look: file,
    },
    CheckKind {
        id: "gpumap.path",
        page: "Scripts and units may run another gpumap than the one that answers here: the name alone stands for \
               the first file that PATH finds, and sudo has a PATH of its own.",
        look: path,
    },
];

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
            "install gpumap as root with mode 755, such as by: install -o root -g root -m 755 FILE /usr/local/bin/gpumap",
        )
    } else if let Some(directory) = file.open_directory.as_deref().filter(|_| is_root) {
        missing(
            format!("{text}: root executes it, and others may replace it in {directory}."),
            "install gpumap where only root may write, such as /usr/local/bin of root's with mode 755",
        )
    } else {
        ok(format!("{text}."))
    })
}

fn path(node: &NodeFacts<'_>) -> Option<CheckResult> {
    let file = node.setup.own_file.known()?;
    let other = file.path_finds.as_deref()?;
    Some(
        note(format!(
            "The name gpumap stands for another file, {other}: PATH finds it, and this one is {}.",
            file.path
        ))
        .with_fix("remove the one that is not meant, or name the file by its path"),
    )
}
