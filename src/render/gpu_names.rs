//! Short names of GPUs and MIG instances: `nvidia0`, `nvidia0/1/0`.

use crate::model::InstanceKey;
use std::io::{self, Write};

use super::{names, sanitize};
use crate::report::{Gpu, GpuNode, MigInstance};

/// The short name of a GPU: that of the node which gives access to it.
pub(super) fn name(key: &str, gpus: &[Gpu]) -> String {
    let gate = find(key, gpus).and_then(gate);
    sanitize::text(gate.map_or(key, |node| node.path.rsplit('/').next().unwrap_or(key))).into_owned()
}

/// Names of GPUs by key; one of which only instances are meant is named by
/// those.
pub(super) fn key_names(keys: &[String], instances: &[String], gpus: &[Gpu]) -> Vec<String> {
    let is_split = |key: &String| instances.iter().any(|instance| InstanceKey::is_on(instance, key));
    let whole = keys.iter().filter(|key| !is_split(key)).map(|key| name(key, gpus));
    whole.chain(instances.iter().map(|instance| instance_name(instance, gpus))).collect()
}

/// The set that an owner or process holds; what is denied now is marked: `nvidia1!`.
pub(super) fn held_names(keys: &[String], instances: &[String], denied: &[String], gpus: &[Gpu]) -> String {
    let part = |is_denied: bool| {
        let of =
            |all: &[String]| all.iter().filter(|key| denied.contains(key) == is_denied).cloned().collect();
        let (keys, instances): (Vec<_>, Vec<_>) = (of(keys), of(instances));
        names::set(key_names(&keys, &instances, gpus))
    };
    let marked: Vec<String> = part(true).split_whitespace().map(|name| format!("{name}!")).collect();
    let parts = [part(false), marked.join(" ")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Says what the mark of [`held_names`] means, if it is there.
pub(super) fn denied_legend(out: &mut dyn Write, is_there: bool) -> io::Result<()> {
    if is_there { writeln!(out, "  ! held although its rules deny it now") } else { Ok(()) }
}

/// The short name of a MIG instance, `nvidia0/1/0` for `KEY/1/0`, or of a GPU.
pub(super) fn instance_name(key: &str, gpus: &[Gpu]) -> String {
    let gpu = gpus.iter().find(|gpu| InstanceKey::is_on(key, &gpu.key));
    match gpu.and_then(|gpu| key.strip_prefix(gpu.key.as_str()).zip(Some(gpu))) {
        Some((rest, gpu)) => name(&gpu.key, gpus) + &sanitize::text(rest),
        None => name(key, gpus),
    }
}

/// The capability nodes that give access to an instance: `235:12,13`.
pub(super) fn capability(mig: &MigInstance) -> String {
    let minors: Vec<_> =
        [mig.gi_minor, mig.ci_minor].into_iter().flatten().map(|minor| minor.to_string()).collect();
    match (mig.major, minors.is_empty()) {
        (Some(major), false) => format!("{major}:{}", minors.join(",")),
        _ => "-".to_owned(),
    }
}

/// The GPU with this key.
pub(super) fn find<'a>(key: &str, gpus: &'a [Gpu]) -> Option<&'a Gpu> {
    gpus.iter().find(|gpu| gpu.key == key)
}

/// The node that gives access to a GPU.
pub(super) fn gate(gpu: &Gpu) -> Option<&GpuNode> {
    gpu.nodes.iter().find(|node| node.gate)
}
