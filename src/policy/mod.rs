//! From instructions to an exact policy.
pub mod device;
