//! Files that a command reads and writes: bounded reading, saved observations,
//! and files that are written whole or not at all.

pub(crate) mod activity_state;
mod config;
mod packed;
mod read;
pub(crate) mod saved;
mod write;

pub(crate) use config::{config, take_gres_conf};
pub(crate) use packed::read_unpacked;
pub(crate) use read::{name, read, read_from};
pub(crate) use write::{failure, save, save_bytes, save_public, save_public_in};
