//! The files in which SoftMig's prolog writes the limits of a job.

use std::ffi::CString;

use super::files::facts;
use super::preload;
use crate::observation::{Answer, Detail, JobFile};
use crate::observe::procfile::cgroup_line;
use crate::owner;
use crate::sys::dir::Dir;
use crate::sys::stat::FileKind;

/// Where they are.
const DIRECTORY: &str = "/var/run/softmig";
/// Bytes of `/proc/PID/cgroup`.
const CGROUP_LIMIT: usize = 256 << 10;

/// The files that exist for the job of a process: those that its own root shows,
/// and those of the node that it does not show.
pub(super) fn read(dir: &Dir, detail: &Detail) -> Vec<JobFile> {
    let Ok(root) = dir.child(c"root/.") else { return Vec::new() };
    let node = dir.child(c"../1/root/.").ok();
    let is_other = |node: &Dir| node.stat().ok() != root.stat().ok();
    let node = node.filter(is_other);
    let directory = CString::new(DIRECTORY).unwrap_or_default();
    let is_used = |root: &Dir| root.find_inside(&directory, true).is_ok();
    if !is_used(&root) && !node.as_ref().is_some_and(is_used) {
        return Vec::new();
    }
    names(dir, detail)
        .iter()
        .filter_map(|name| {
            let path = CString::new(format!("{DIRECTORY}/{name}.conf")).ok()?;
            of_root(&root, &path, false).or_else(|| of_root(node.as_ref()?, &path, true))
        })
        .collect()
}

/// The names that SoftMig tries, in its order: those of the job that the
/// environment names, then those of the job that the process is in.
fn names(dir: &Dir, detail: &Detail) -> Vec<String> {
    let environment = detail.at_exec.known();
    let number = |name: &str| {
        let value = environment?.get(name)?.value.as_bytes();
        str::from_utf8(value).ok()?.parse::<u64>().ok()
    };
    let mut text = Vec::new();
    let cgroup = dir.read_piece(c"cgroup", &mut text, CGROUP_LIMIT).ok();
    let own = cgroup.and_then(|()| owner::of_path(cgroup_line(&text, None)?)?.job_id);
    let task = number("SLURM_ARRAY_TASK_ID");
    let mut jobs: Vec<u64> = number("SLURM_JOB_ID").into_iter().chain(own).collect();
    jobs.dedup();
    jobs.iter()
        .flat_map(|job| task.map(|task| format!("{job}_{task}")).into_iter().chain([job.to_string()]))
        .collect()
}

fn of_root(root: &Dir, path: &CString, outside: bool) -> Option<JobFile> {
    let (place, stat) = root.find_inside(path, false).ok()?;
    let regular = stat.kind == FileKind::Regular;
    let text = match regular {
        true => preload::text(&place),
        // The library takes no other, but what it says was meant.
        false => root
            .find_inside(path, true)
            .map_err(super::files::why)
            .and_then(|(place, _)| preload::text(&place)),
    };
    let text = text.map_or_else(Answer::Missing, |text| Answer::Known(text.into()));
    Some(JobFile { path: path.as_bytes().into(), outside, regular, file: facts(&stat), text })
}
