//! Cgroups: where they are mounted, what is in them, and which programs are
//! attached to them.

pub(super) mod devices_v1;
pub(super) mod hierarchy;
pub(super) mod lookup;
pub(super) mod mounts;
pub(super) mod query;
pub(super) mod recheck;
pub(super) mod thread_cgroups;
pub(super) mod walk;
