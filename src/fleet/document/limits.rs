//! Bounds of what a document may have of anything.

/// GPUs of a node.
pub(in crate::fleet) const GPUS: usize = 1024;
/// GPUs and instances of a set.
pub(in crate::fleet) const SET: usize = 16 * GPUS;
/// Cgroups, programs and problems of a node.
pub(in crate::fleet) const MANY: usize = 1 << 18;
/// Owners of a node.
pub(in crate::fleet) const OWNERS: usize = 1 << 16;
/// Devices in the sets of all owners of a node, each as often as it stands there: 10,000
/// owners with all of 16 GPUs of seven instances in each of four sets have five million.
pub(in crate::fleet) const CELLS: usize = 1 << 23;
/// Findings of a node: more than a node with a finding for each of 50 jobs and
/// 5000 cgroups.
pub(in crate::fleet) const FINDINGS: usize = 1 << 14;
/// Drivers, kinds of owners, shapes of programs and codes of problems of a node.
pub(in crate::fleet) const KINDS: usize = 256;
