//! What changes on a node while it happens, as [`crate::report::Event`]s.

pub mod policy;
mod policy_event;
