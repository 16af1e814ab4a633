//! Device programs, their maps, and what the kernel calls their helpers.

pub(super) mod cache;
mod called;
pub(super) mod maps;
mod replaced;
pub(super) mod symbols;
