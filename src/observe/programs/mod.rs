//! Device programs, their maps, and what the kernel calls their helpers.

pub(super) mod cache;
mod replaced;
pub(super) mod symbols;
