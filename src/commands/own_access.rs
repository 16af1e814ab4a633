//! What the kernel lets gpumap itself open, for answers about its own cgroup where it may not
//! read the programs in force: a user in a job, or in a container.

use std::path::Path;

use super::check;
use super::invocation::Invocation;
use crate::model::{CgroupPath, Request};
use crate::observe;
use crate::report::{Check, GpuNode, NodeAnswer};

/// Asks the kernel if the programs of a cgroup are unread that `is_own` takes for gpumap's own:
/// it gets that cgroup and the one that gpumap is in.
pub(super) fn add(
    invocation: &Invocation<'_>,
    payload: &mut NodeAnswer,
    is_own: impl Fn(CgroupPath<'_>, CgroupPath<'_>) -> bool,
) {
    if invocation.global.from.is_some() {
        return;
    }
    let mut unread = payload.cgroups.iter().filter(|cgroup| cgroup.programs_unknown.is_some()).peekable();
    if unread.peek().is_none() {
        return;
    }
    // Without its own cgroup there is nothing to ask about, and the answer stands without it.
    let Ok(own) = observe::pid_cgroup(&invocation.options(), std::process::id()) else { return };
    if unread.any(|cgroup| is_own(CgroupPath::new(&cgroup.path), CgroupPath::new(&own))) {
        let gates = payload.gpus.iter().flat_map(|gpu| gpu.nodes.iter().filter(|node| node.gate));
        payload.own_access = Some(gates.map(ask).collect());
    }
}

fn ask(node: &GpuNode) -> Check {
    let (verdict, why) = check::own_access(Path::new(&node.path), Request::ReadWrite.into());
    Check { device: node.path.clone(), verdict, why }
}
