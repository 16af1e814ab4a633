//! Checks that the iterator agrees with the queries. Kernels change the layout of
//! their lists from time to time, and a wrong answer is worse than a slow one.

use std::os::fd::AsFd as _;

use super::{Listed, Walked};
use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::monitor::cgroups::nodes::{CgroupNode, Nodes};
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;

/// Whether a walk says what the queries had said before it, of one cgroup at
/// least, and of every one of which they say the same after it. Only those are
/// queried again about which the walk says something else.
pub(super) fn passes(hierarchy: &Hierarchy, nodes: &Nodes, walked: &Walked) -> bool {
    let mut agreed = 0;
    nodes.iter().all(|(path, node)| {
        let agrees = walked.get(node.cgroup.id).is_some_and(|listed| agrees(&listed, node));
        agreed += usize::from(agrees);
        agrees || !is_unchanged(hierarchy, nodes, path, node)
    }) && agreed > 0
}

/// Whether the queries say, after the walk, what they had said before it.
fn is_unchanged(hierarchy: &Hierarchy, nodes: &Nodes, path: &Text, node: &CgroupNode) -> bool {
    let ask = |dir: &Dir| {
        // What cannot be asked fails the test, and the queries are used.
        let [own, effective] = [ListKind::Own, ListKind::Effective].map(|kind| query(dir.as_fd(), kind).ok());
        // The same.
        Some((own?, effective?, dir.stat().ok()?))
    };
    // The same.
    let Ok(Some((own, effective, stat))) = nodes.with_dir(hierarchy, path, ask) else { return false };
    let (was_own, was_effective) = (node.cgroup.own.known(), node.cgroup.effective.known());
    own.revision == node.revision
        && was_own.is_some_and(|was| was.programs == own.ids)
        && was_effective == Some(&effective.ids)
        && stat.links == node.links
}

/// Flags are compared where there are programs: they outlive them.
fn agrees(listed: &Listed<'_>, node: &CgroupNode) -> bool {
    let Some((own, effective)) = node.cgroup.own.known().zip(node.cgroup.effective.known()) else {
        return false;
    };
    listed.revision == node.revision
        && listed.links == node.links
        && listed.own.is_none_or(|ids| *ids == own.programs)
        && listed.effective.is_none_or(|ids| ids == effective)
        && (own.programs.is_empty() || listed.attach_flags == own.flags)
}
