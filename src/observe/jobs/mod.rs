//! Jobs: their cgroups, the processes that name them, and what is left of them.

pub(super) mod claims;
pub(super) mod leftovers;
pub(super) mod search;
