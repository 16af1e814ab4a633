//! Prints a move to another cgroup: the owner it left, from where to where, and the
//! GPUs that it gained and lost.

use super::{gpu_names, names, owner, sanitize};
use crate::model::EventCause;
use crate::report::{Event, Gpu, MoveEvent};

/// The most characters of a path that are shown.
const PATH: usize = 160;

/// `left slurm job 7, step 0: moved from /a to /b, gained nvidia1`.
pub(super) fn what(event: &Event, moved: &MoveEvent, inventory: &[Gpu]) -> String {
    let left = moved.from_owner.as_ref().filter(|_| moved.left == Some(true));
    let left = left.map(|owner| format!("left {}: ", owner::full(owner))).unwrap_or_default();
    let thread = moved.thread.map(|thread| format!("its thread {thread} ")).unwrap_or_default();
    let verb =
        if event.how == Some(EventCause::Clone3) { "began outside its parent's cgroup," } else { "moved" };
    let path = |path: Option<&String>, hex: Option<&String>, gone: &str| match path {
        Some(path) => sanitize::short_with_hex(path, hex.map(String::as_str), PATH),
        None => gone.to_owned(),
    };
    let from = path(moved.from.as_ref(), moved.from_hex.as_ref(), "a cgroup that is not seen from here");
    let to =
        path(event.cgroup.as_ref(), event.cgroup_hex.as_ref(), "a cgroup that is gone or not seen from here");
    let again = if moved.again { " (not known before)" } else { "" };
    format!("{left}{thread}{verb} from {from} to {to}{}{again}", reach(moved, inventory))
}

/// `, gained nvidia1, lost nvidia0`.
fn reach(moved: &MoveEvent, inventory: &[Gpu]) -> String {
    if inventory.is_empty() {
        return String::new();
    }
    let (Some(gained), Some(lost)) = (&moved.gained, &moved.lost) else {
        return ", which GPUs it gained or lost is not known".to_owned();
    };
    let list = |word: &str, keys: &[String]| {
        let (instances, keys): (Vec<String>, Vec<String>) =
            keys.iter().cloned().partition(|key| key.contains('/'));
        let all = names::set(gpu_names::key_names(&keys, &instances, inventory));
        if keys.is_empty() && instances.is_empty() { String::new() } else { format!(", {word} {all}") }
    };
    let parts =
        [list("gained", gained), list("lost", lost), list("unknown on one side", &moved.unknown)].concat();
    if parts.is_empty() { ", its GPUs stay the same".to_owned() } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::of_path;
    use crate::report::GpuNode;

    const JOB: &str = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0";

    fn line(to: Option<&str>, moved: MoveEvent) -> String {
        let gpu = |minor: u32| Gpu {
            key: format!("GPU-{minor}"),
            minor: Some(minor),
            nodes: vec![GpuNode { path: format!("/dev/nvidia{minor}"), major: 195, minor, gate: true }],
            ..Gpu::default()
        };
        let event = Event { cgroup: to.map(str::to_owned), ..Event::default() };
        let from_owner = moved.from.as_deref().and_then(|from| of_path(from.as_bytes()));
        what(&event, &MoveEvent { from_owner, ..moved }, &[gpu(0), gpu(1)])
    }

    /// Make sure that a line names the owner that was left, both places, and the
    /// GPUs.
    #[test]
    fn lines() {
        let from = || MoveEvent { from: Some(JOB.to_owned()), left: Some(true), ..MoveEvent::default() };
        let both = MoveEvent {
            gained: Some(vec!["GPU-1".to_owned()]),
            lost: Some(vec!["GPU-0".to_owned()]),
            ..from()
        };
        let text = line(Some("/"), both);
        assert_eq!(
            text,
            format!("left slurm job 7, step 0, task 0: moved from {JOB} to /, gained nvidia1, lost nvidia0")
        );
        let lost = Some(vec!["GPU-0".to_owned()]);
        let again = MoveEvent { gained: Some(vec![]), lost, again: true, ..from() };
        assert!(line(Some("/"), again).ends_with(" to /, lost nvidia0 (not known before)"));
        assert!(line(None, from()).ends_with(
            " to a cgroup that is gone or not seen from here, which GPUs it gained or lost is not known"
        ));
        let thread =
            MoveEvent { thread: Some(9), gained: Some(vec![]), lost: Some(vec![]), ..MoveEvent::default() };
        let text = line(Some("/b\x1b\n"), thread);
        assert!(
            text.starts_with("its thread 9 moved from a cgroup that is not seen from here to /b"),
            "{text}"
        );
        assert!(
            text.ends_with("its GPUs stay the same") && !text.chars().any(sanitize::is_hostile),
            "{text}"
        );
    }
}
