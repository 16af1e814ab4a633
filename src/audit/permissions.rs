//! Checks the file permissions of device nodes, the second gate after device
//! programs.

use super::facts::Facts;
use crate::model::DeviceType;
use crate::observation::DeviceNode;
use crate::report::Cgroup;

/// Permission bits of everybody: read and write.
const OTHERS: u32 = 0o006;

/// Whether anybody in a cgroup passes the permissions of a node. Access is a sum of
/// bits: read 4, write 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dac {
    /// Everybody does.
    Everybody,
    /// The node's owner is in the cgroup, or root, whose rights override
    /// permissions.
    Someone,
    /// Certainly nobody, except perhaps members of a group, who are not known.
    Nobody,
}

/// The node with this number.
pub(super) fn node<'a>(facts: &Facts<'a>, number: (u32, u32)) -> Option<&'a DeviceNode> {
    let mut nodes = facts.inspection.observation().gpu_facts.nodes.iter();
    nodes.find(|node| node.kind == DeviceType::Char && (node.major, node.minor) == number)
}

/// Whether anybody in a cgroup passes the permissions of a node for this access.
pub(super) fn dac(node: &DeviceNode, cgroup: &Cgroup, bits: u32) -> Dac {
    let passes = |mode: u32| mode & bits == bits;
    if passes(node.mode & OTHERS) {
        return Dac::Everybody;
    }
    let someone = |uid: u32| uid == 0 || (uid == node.uid && passes(node.mode >> 6));
    match cgroup.processes.iter().any(|process| someone(process.uid)) {
        true => Dac::Someone,
        false => Dac::Nobody,
    }
}
