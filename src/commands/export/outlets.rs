//! Where metrics go: a file, a socket, and the job files of dcgm-exporter.
//!
//! dcgm-exporter reads every file whose name is a number at each scrape, takes each
//! line as a job, and lets nothing expire. So files are replaced as a whole, those of
//! GPUs without a job are removed, and files with other names are left alone.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::listen::Server;
use crate::cli::ExportArgs;
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::export::{self, Family, JobMapping};
use crate::model::ProblemCode;
use crate::observation::{OwnProcess, Problem};
use crate::observe;
use crate::render::{self, MetricsFormat};

/// The outlets that the caller named; standard output if there is none.
pub(super) struct Outlets<'a> {
    args: &'a ExportArgs,
    server: Option<Server>,
    /// When this gpumap began, in seconds since 1970.
    begun_at: f64,
}

impl<'a> Outlets<'a> {
    /// Refuses names of files that nobody would read, and an interval for nothing.
    pub(super) fn check(args: &ExportArgs) -> Result<(), Failure> {
        let has_outlet = args.listen.is_some() || args.textfile.is_some() || args.dcgm_job_mapping.is_some();
        if args.every.is_some() && !has_outlet {
            let why = "there is nothing to keep up to date";
            let needs = "add --textfile FILE, --listen PORT or --dcgm-job-mapping DIR";
            return Err(Failure::new(ProblemCode::Usage, "--every", why, needs));
        }
        args.textfile.as_deref().map_or(Ok(()), check_name)
    }

    pub(super) fn new(args: &'a ExportArgs, server: Option<Server>) -> Self {
        Self { args, server, begun_at: jiff::Timestamp::now().as_duration().as_secs_f64() }
    }

    /// Hands metrics to all of them. Those that work get them even if another fails.
    pub(super) fn metrics(
        &self,
        invocation: &mut Invocation<'_>,
        families: &[Family],
    ) -> Result<(), Failure> {
        if let Some(server) = &self.server {
            let own = OwnProcess { begun_at: Some(self.begun_at), ..observe::own_process() };
            let mut all = families.to_vec();
            all.extend(export::own_process(&own));
            server.publish(&all)?;
        }
        if let Some(path) = &self.args.textfile {
            return files::save_public(path, |out| render::metrics(out, MetricsFormat::Classic, families));
        }
        if self.server.is_none() && self.args.dcgm_job_mapping.is_none() {
            let format =
                if self.args.open_metrics { MetricsFormat::OpenMetrics } else { MetricsFormat::Classic };
            render::metrics(invocation.out, format, families)?;
            invocation.out.flush()?;
        }
        Ok(())
    }

    /// Makes sure that the server still answers.
    pub(super) fn served(&self) -> Result<(), Failure> {
        self.server.as_ref().map_or(Ok(()), Server::check)
    }

    /// Writes the job files. What is not known of jobs is a problem.
    pub(super) fn mapping(&self, mapping: &JobMapping) -> Result<Option<Problem>, Failure> {
        let Some(directory) = &self.args.dcgm_job_mapping else { return Ok(None) };
        write_job_files(directory, mapping)?;
        Ok(unknown(&mapping.unknown))
    }
}

fn unknown(jobs: &BTreeSet<String>) -> Option<Problem> {
    let shown: Vec<&str> = jobs.iter().take(5).map(String::as_str).collect();
    (!jobs.is_empty()).then(|| Problem {
        code: ProblemCode::Export,
        what: format!("--dcgm-job-mapping: {} of the jobs ({})", jobs.len(), shown.join(", ")),
        why: "it is not known which GPUs they have, or DCGM's numbers of these".to_owned(),
        needs: "gpumap job ID says what is missing".to_owned(),
    })
}

/// node_exporter reads files of this ending alone; another would be written and never
/// be read.
fn check_name(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending == "prom") {
        return Ok(());
    }
    let why = "node_exporter reads files alone whose names end in .prom";
    let needs = "write --textfile DIRECTORY/gpumap.prom";
    Err(Failure::new(ProblemCode::Usage, path.to_string_lossy(), why, needs))
}

/// Makes the directory say what the mapping says, as far as it can: the first file that
/// cannot be written or removed is the failure. All of it is done in the directory that
/// was judged, whatever has its name by then.
pub(super) fn write_job_files(path: &Path, mapping: &JobMapping) -> Result<(), Failure> {
    let failed = |errno: Errno| Failure::file(path, &errno.into());
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut directory = Dir::open(path, flags, Mode::empty()).map_err(failed)?;
    trust(path, &fstat(&directory).map_err(failed)?)?;
    let entries = directory.iter().map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let names = entries.collect::<Result<Vec<CString>, Errno>>().map_err(failed)?;
    let ended = names.iter().map(|name| remove(path, &directory, name, mapping));
    let ended = ended.fold(Ok(()), Result::and);
    let one = |(name, jobs): (&String, &BTreeSet<String>)| {
        let text: String = jobs.iter().flat_map(|job| [job, "\n"]).collect();
        let name = CString::new(name.as_str()).map_err(|_| failed(Errno::EINVAL))?;
        if has(&directory, &name, text.as_bytes()) {
            return Ok(());
        }
        files::save_public_in(path, &directory, &name, |out| out.write_all(text.as_bytes()))
    };
    mapping.files.iter().map(one).fold(ended, Result::and)
}

/// Removes the file of a GPU that has no job.
fn remove(path: &Path, directory: &Dir, name: &CStr, mapping: &JobMapping) -> Result<(), Failure> {
    let text = name.to_string_lossy();
    if !is_job_file(&text) || mapping.files.contains_key(&*text) {
        return Ok(());
    }
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Failure::file(&path.join(&*text), &errno.into())),
    }
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

/// Whether the file is a regular one and has this text already. A FIFO is not waited for.
fn has(directory: &Dir, name: &CStr, text: &[u8]) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let read = || -> io::Result<Option<Vec<u8>>> {
        let file = File::from(openat(directory, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != text.len() as u64 {
            return Ok(None);
        }
        let mut found = Vec::new();
        file.take(metadata.len()).read_to_end(&mut found)?;
        Ok(Some(found))
    };
    matches!(read(), Ok(Some(found)) if found == text)
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
