//! The files of a process's root that say what HAMi-core and SoftMig do in it: the list of
//! libraries that the loader loads into every program, `/overrideEnv`, from which HAMi-core
//! sets variables, and the files in which SoftMig's prolog writes the limits of a job.
//!
//! `/overrideEnv` may hold any variables. Of these the limits alone are kept.

use std::ffi::CString;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;

use super::files::{facts, found, is_library, why};
use crate::model::LIMIT_VARIABLES;
use crate::observation::{Answer, Detail, JobFile, OverrideFile, Preload, Text, Variable};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::environment::at_exec::{variable, wanted};
use crate::owner;
use crate::sys::dir::{Dir, PathHandle};
use crate::sys::stat::FileKind;

/// Bytes that are read of a list of libraries, and of the file of a job.
const LIMIT: usize = 4096;

/// `/etc/ld.so.preload` of a process, if it names libvgpu.so or libsoftmig.so. A list
/// that names neither is not kept.
pub(super) fn preload(dir: &Dir) -> Answer<Option<Preload>> {
    let root = match dir.child(c"root/.") {
        Ok(root) => root,
        Err(errno) => return Answer::Missing(why(errno)),
    };
    let text = match root.find_inside(c"etc/ld.so.preload", true) {
        Ok((place, _)) => beginning_of(&place),
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Answer::Known(None),
        Err(errno) => Err(why(errno)),
    };
    match text {
        Ok(text) => Answer::Known(named(&root, &text)),
        Err(why) => Answer::Missing(why),
    }
}

/// The beginning of a file that was found.
fn beginning_of(place: &PathHandle) -> Result<Vec<u8>, String> {
    beginning(place, LIMIT)
}

/// At most `limit` bytes of a file that was found.
fn beginning(place: &PathHandle, limit: usize) -> Result<Vec<u8>, String> {
    let file = place.open_regular().map_err(why)?;
    let mut bytes = vec![0; limit];
    let count = file.read_at(&mut bytes, 0).map_err(|error| format!("it cannot be read: {error}"))?;
    bytes.truncate(count);
    Ok(bytes)
}

fn named(root: &Dir, text: &[u8]) -> Option<Preload> {
    // A comment reaches to the end of its line (`do_preload` in glibc's elf/rtld.c).
    let lines = text.split(|byte| *byte == b'\n');
    let plain = lines.filter_map(|line| line.split(|byte| *byte == b'#').next());
    let names = plain.flat_map(|line| line.split(|byte| b" \t:".contains(byte)));
    let ours: Vec<&[u8]> =
        names.filter(|name| is_library(name.rsplit(|byte| *byte == b'/').next().unwrap_or(name))).collect();
    if ours.is_empty() {
        return None;
    }
    let is_missing = |name: &&&[u8]| {
        // No file has a name with a zero byte; only what is said to be missing is.
        let path = CString::new(**name).ok().filter(|path| path.as_bytes().starts_with(b"/"));
        path.is_some_and(|path| matches!(root.find_inside(&path, true), Err(Errno::ENOENT | Errno::ENOTDIR)))
    };
    let missing = ours.iter().filter(is_missing).map(|name| Text::from(*name)).collect();
    Some(Preload { text: text.into(), missing })
}

/// Bytes of `/overrideEnv`.
const OVERRIDES: usize = 64 << 10;

/// `/overrideEnv`, if there is one; `unread` tells why that is not known.
pub(super) fn override_file(dir: &Dir, unread: &mut Option<String>) -> Result<Option<OverrideFile>, NotRead> {
    let Some(root) = found(dir.child(c"root/."), unread)? else { return Ok(None) };
    let Some((place, stat)) = found(root.find_inside(c"overrideEnv", true), unread)? else { return Ok(None) };
    let text = match stat.size {
        size if size > OVERRIDES as u64 => Err(format!("it is longer than {} KiB", OVERRIDES >> 10)),
        _ => beginning(&place, OVERRIDES),
    };
    let variables = text.map_or_else(Answer::Missing, |text| Answer::Known(limits(&text)));
    Ok(Some(OverrideFile { file: facts(&stat), variables }))
}

/// The limits that the lines `NAME=VALUE` set, the last one first: it beats the others.
///
/// Builds before October 2026 stop at the first line without a sign, later ones pass
/// over it. What stands behind it was meant all the same.
fn limits(text: &[u8]) -> Vec<Variable> {
    let lines = text.rsplit(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let set = lines.filter_map(wanted).filter(|(name, _)| LIMIT_VARIABLES.binary_search(name).is_ok());
    let mut found: Vec<Variable> = Vec::new();
    for (name, value) in set {
        if !found.iter().any(|one| one.name == name) {
            found.push(variable(name, value));
        }
    }
    found
}

/// Where the files of jobs are.
const DIRECTORY: &str = "/var/run/softmig";

/// The files that exist for the job of a process: those that its own root shows,
/// and those of the node that it does not show. A user can give a process a view of
/// files of its own. `unread` tells why there may be more.
pub(super) fn job_files(
    process: &PinnedProcess,
    detail: &Detail,
    unread: &mut Option<String>,
) -> Result<Vec<JobFile>, NotRead> {
    let dir = process.dir();
    // Where another pid namespace or a security module hides process 1, gpumap's own root
    // is the node's.
    let node = dir.child(c"../1/root/.").or_else(|_| dir.child(c"../self/root/."));
    let roots = [dir.child(c"root/."), node];
    let directory = CString::new(DIRECTORY).unwrap_or_default();
    let [own, node] = roots.map(|root| found(root, unread));
    let roots = [own?, node?];
    let mut is_used = false;
    for root in roots.iter().flatten() {
        is_used |= found(root.find_inside(&directory, true), unread)?.is_some();
    }
    if !is_used {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for (name, foreign) in names(process, detail)? {
        // No file has a name with a zero byte.
        let Ok(path) = CString::new(format!("{DIRECTORY}/{name}.conf")) else { continue };
        let mut find = |root: &Option<Dir>| match root {
            Some(root) => found(root.find_inside(&path, false), unread),
            None => Ok(None),
        };
        let [own_root, node_root] = &roots;
        let (own, node) = (find(own_root)?, find(node_root)?);
        let is_same = own
            .as_ref()
            .zip(node.as_ref())
            .is_some_and(|((_, own), (_, node))| (own.dev, own.inode) == (node.dev, node.inode));
        let places = [(own_root, own, false), (node_root, node.filter(|_| !is_same), true)];
        for (root, place, outside) in places {
            let (Some(root), Some((place, stat))) = (root, place) else { continue };
            let text = text(root, &path, &place, stat.kind)
                .map_or_else(Answer::Missing, |text| Answer::Known(text.into()));
            let regular = stat.kind == FileKind::Regular;
            files.push(JobFile {
                path: path.as_bytes().into(),
                outside,
                foreign,
                regular,
                file: facts(&stat),
                text,
            });
        }
    }
    Ok(files)
}

/// What a file says. The library takes no symbolic link, but what the file behind it
/// says was meant.
fn text(root: &Dir, path: &CString, place: &PathHandle, kind: FileKind) -> Result<Vec<u8>, String> {
    if kind == FileKind::Regular {
        return beginning_of(place);
    }
    root.find_inside(path, true).map_err(why).and_then(|(place, _)| beginning_of(&place))
}

/// The names that SoftMig tries, in its order, and whether they are of a job that the
/// environment names while the process is in another: those of the environment's job
/// come first, then those of the job that the process is in.
fn names(process: &PinnedProcess, detail: &Detail) -> Result<Vec<(String, bool)>, NotRead> {
    let environment = detail.at_exec.known();
    let number = |name: &str| {
        let value = environment?.get(name)?.value.as_bytes();
        str::from_utf8(value).ok()?.parse::<u64>().ok()
    };
    let own = match process.cgroups() {
        Ok(lines) => lines.unified().and_then(|line| owner::of_path(line)?.job_id),
        // Too long for a job's cgroup.
        Err(NotRead::Failed(_, Errno::ENAMETOOLONG)) => None,
        Err(why) => return Err(why),
    };
    let task = number("SLURM_ARRAY_TASK_ID");
    let mut jobs: Vec<u64> = number("SLURM_JOB_ID").into_iter().chain(own).collect();
    jobs.dedup();
    let of_job = |job: &u64| {
        let foreign = own.is_some_and(|own| own != *job);
        let of_task = task.map(|task| format!("{job}_{task}"));
        of_task.into_iter().chain([job.to_string()]).map(move |name| (name, foreign)).collect::<Vec<_>>()
    };
    Ok(jobs.iter().flat_map(of_job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that limits alone are kept, of each the last one, whatever lines stand
    /// between them.
    #[test]
    fn lines() {
        let text = b"CUDA_DEVICE_SM_LIMIT=30\nSECRET=x\n# comment\n\nCUDA_DEVICE_MEMORY_LIMIT=2g\r\n\
            CUDA_DEVICE_MEMORY_LIMIT_=1\n CUDA_DEVICE_SM_LIMIT=9\nSLURM_JOB_ID=7\nCUDA_DEVICE_SM_LIMIT=40";
        let found = limits(text);
        let found: Vec<(&str, &[u8])> =
            found.iter().map(|one| (one.name.as_str(), one.value.as_bytes())).collect();
        assert_eq!(found, [("CUDA_DEVICE_SM_LIMIT", &b"40"[..]), ("CUDA_DEVICE_MEMORY_LIMIT", &b"2g"[..])]);
        assert!(limits(b"").is_empty() && limits(b"=\n=1\n").is_empty());
    }
}
