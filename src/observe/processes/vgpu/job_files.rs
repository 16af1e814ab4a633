//! The files in which SoftMig's prolog writes the limits of a job.

use std::ffi::CString;

use nix::errno::Errno;

use super::files::{facts, found};
use super::preload;
use crate::observation::{Answer, Detail, JobFile};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::owner;
use crate::sys::dir::{Dir, PathHandle};
use crate::sys::stat::FileKind;

/// Where they are.
const DIRECTORY: &str = "/var/run/softmig";

/// The files that exist for the job of a process: those that its own root shows,
/// and those of the node that it does not show. A user can give a process a view of
/// files of its own.
pub(super) fn read(process: &PinnedProcess, detail: &Detail) -> Result<Vec<JobFile>, NotRead> {
    let dir = process.dir();
    // Where another pid namespace or a security module hides process 1, gpumap's own root
    // is the node's.
    let node = dir.child(c"../1/root/.").or_else(|_| dir.child(c"../self/root/."));
    let roots = [dir.child(c"root/."), node];
    let directory = CString::new(DIRECTORY).unwrap_or_default();
    let [own, node] = roots.map(found);
    let roots = [own?, node?];
    let mut is_used = false;
    for root in roots.iter().flatten() {
        is_used |= found(root.find_inside(&directory, true))?.is_some();
    }
    if !is_used {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for (name, foreign) in names(process, detail)? {
        let Ok(path) = CString::new(format!("{DIRECTORY}/{name}.conf")) else { continue };
        let find = |root: &Option<Dir>| match root {
            Some(root) => found(root.find_inside(&path, false)),
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
        return preload::text(place);
    }
    root.find_inside(path, true).map_err(super::files::why).and_then(|(place, _)| preload::text(&place))
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
