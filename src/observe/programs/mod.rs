//! Device programs, their maps, and what the kernel calls their helpers.

pub(crate) mod kernel_types;
pub(super) mod library;
pub(super) mod maps;
pub(super) mod symbols;
