//! Writes the job files of dcgm-exporter.
//!
//! dcgm-exporter reads every file whose name is a number at each scrape, takes each
//! line as a job, and lets nothing expire. So files are replaced as a whole, those of
//! GPUs without a job are removed, and files with other names are left alone.

use std::fs;
use std::io;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::commands::files;
use crate::commands::invocation::Failure;
use crate::export::JobMapping;
use crate::model::ProblemCode;

/// Makes the directory say what the mapping says.
pub(super) fn write(directory: &Path, mapping: &JobMapping) -> Result<(), Failure> {
    let failed = |errno: Errno| Failure::file(directory, &errno.into());
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut open = Dir::open(directory, flags, Mode::empty()).map_err(failed)?;
    trust(directory, &fstat(&open).map_err(failed)?)?;
    let mut names = Vec::new();
    for entry in open.iter() {
        let entry = entry.map_err(failed)?;
        names.push(entry.file_name().to_owned());
    }
    for name in names {
        let text = name.to_string_lossy();
        if is_job_file(&text) && !mapping.files.contains_key(&*text) {
            match unlinkat(&open, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
    for (name, jobs) in &mapping.files {
        let text: String = jobs.iter().flat_map(|job| [job, "\n"]).collect();
        let path = directory.join(name);
        if !has(&path, text.as_bytes()) {
            files::save_public(&path, |out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(())
}

/// Whoever may write here decides which jobs GPUs are accounted to, and could make
/// gpumap remove what is theirs to remove anyway.
fn trust(directory: &Path, stat: &FileStat) -> Result<(), Failure> {
    let is_ours = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
    if is_ours && stat.st_mode & Mode::S_IWOTH.bits() == 0 {
        return Ok(());
    }
    let why = "others may write to this directory";
    let needs = "a directory of root's that only root and dcgm-exporter may write to";
    Err(Failure::new(ProblemCode::Output, directory.to_string_lossy(), why, needs))
}

/// What dcgm-exporter takes for a job file: `^\d+(\.\d+)?$`.
fn is_job_file(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    match name.split_once('.') {
        Some((gpu, instance)) => is_number(gpu) && is_number(instance),
        None => is_number(name),
    }
}

/// Whether the file has this text already.
fn has(path: &Path, text: &[u8]) -> bool {
    let is_so_long = |metadata: fs::Metadata| metadata.is_file() && metadata.len() == text.len() as u64;
    let is_it =
        || -> io::Result<bool> { Ok(is_so_long(path.symlink_metadata()?) && fs::read(path)? == text) };
    is_it().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no other file of the directory is touched.
    #[test]
    fn names() {
        for name in ["0", "12", "0.3", "7.10"] {
            assert!(is_job_file(name), "{name}");
        }
        for name in ["", ".", "..", ".0", "0.", "a", "0a", "0.1.2", ".tmp0", "gpu0", " 1"] {
            assert!(!is_job_file(name), "{name}");
        }
    }
}
