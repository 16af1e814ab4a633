//! STUB of the branch h-cli, replaced whole by the observe branch; `access.rs`
//! beside it is that branch's own.

#![allow(unsafe_code)]

pub mod access;
