//! Entry points of this room for the fuzz targets.

use std::fs::File;

use super::cgroups::mounts::Mounts;
use super::processes::environment::at_exec;
use super::processes::mapped_files::{self, Role};
use super::{procfile, scanner};
use crate::observation::Environment;

/// Reads a file as an executable and as a library.
pub fn elf(file: File) {
    for role in [Role::Program, Role::Library] {
        let _image = mapped_files::read(&file, role);
    }
}

/// Reads bytes as each text that the kernel writes about processes and mounts.
pub fn kernel_texts(bytes: &[u8]) {
    let mounts = Mounts::parse(bytes);
    let _mode = mounts.mode();
    for mapping in mapped_files::mappings(bytes) {
        let _name = (mapping.name(), mapping.file());
    }
    if let Some(stat) = procfile::parse_stat(bytes) {
        let _state = (stat.is_kernel_thread(), stat.is_ending(), stat.has_ended());
    }
    let lines = procfile::CgroupLines::new(bytes.to_vec());
    let _lines = (lines.unified(), lines.devices(), procfile::uids(bytes));
    scanner::fuzzing(bytes);
}

/// Reads bytes as an environment.
pub fn environment(bytes: &[u8]) -> Environment {
    at_exec::fuzzing(bytes)
}
