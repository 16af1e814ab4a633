//! Reports processes: what each asks for, the GPUs that result, what it holds.

use std::rc::Rc;

use jiff::Timestamp;

use crate::model::{GpuKey, ProcessState, Time, Verdict, choosing_variables};
use crate::observation::{Answer, Detail, Environment, Host, Process};
use crate::report::{self, Asked, Visible};
use crate::visible::asked;

use super::gpu_verdicts::GpuVerdicts;
use super::joined_node::JoinedNode;
use super::{job_claim, process_limits};

/// Reports processes, and remembers the last answer: processes that follow one
/// another in a cgroup mostly ask for the same.
#[derive(Debug, Default)]
pub(super) struct Processes {
    last: Option<(Rc<GpuVerdicts>, Answer<Environment>, Asked)>,
}

impl Processes {
    /// One process for an answer; without details where none were observed.
    pub(super) fn report(&mut self, process: &Process, join: &mut JoinedNode<'_>) -> report::Process {
        let mut answer = holding(process, join);
        let at = started_at(process, &join.observation.host);
        answer.started_at = at.map(Time::from);
        answer.age_seconds = at.and_then(|at| age(at, &join.observation.taken_at));
        if let Some(name) = join.user(process.uid) {
            answer.user = Some(name.lossy().into_owned());
            answer.user_hex = name.hex();
        }
        let Some(detail) = &process.detail else { return answer };
        let view = join.view_of_process(process);
        answer.visible = view.as_ref().map(|view| self.visible(detail, view, join));
        answer.held_denied = view.as_ref().map(|view| denied(&answer, view)).unwrap_or_default();
        answer.claim = job_claim::of(process, join.owners.of(&process.cgroup));
        answer.vgpu = process_limits::of(process, &answer, view.as_deref(), join).map(Box::new);
        answer
    }

    fn visible(&mut self, detail: &Detail, view: &Rc<GpuVerdicts>, join: &JoinedNode<'_>) -> Visible {
        let at_exec = self.asked(&detail.at_exec, view, join);
        let live = self.asked(&detail.live, view, join);
        let changed = detail.at_exec.known().zip(detail.live.known());
        let changed = changed.and_then(|(before, now)| differ(before, now));
        Visible { at_exec, live, last_set: None, last_set_at: None, changed }
    }

    fn asked(
        &mut self,
        environment: &Answer<Environment>,
        view: &Rc<GpuVerdicts>,
        join: &JoinedNode<'_>,
    ) -> Asked {
        if let Some((last_view, last, answer)) = &self.last
            && Rc::ptr_eq(last_view, view)
            && last == environment
        {
            return answer.clone();
        }
        let answer = asked(environment, &join.gpus, &view.reach);
        self.last = Some((view.clone(), environment.clone(), answer.clone()));
        answer
    }
}

/// A process with what it has open, which no policy decides.
pub(super) fn holding(process: &Process, join: &JoinedNode<'_>) -> report::Process {
    let mut answer = bare(process);
    let Some(detail) = &process.detail else {
        answer.held = process.kernel_thread.then(Vec::new);
        return answer;
    };
    match (detail.devices.known(), detail.devices.missing()) {
        (Some(devices), _) => {
            let held = join.numbers.held(devices, &join.gpus);
            answer.held = Some(held.gpus);
            answer.held_instances = held.instances;
            answer.held_shared = held.shared;
            answer.held_unknown.clone_from(&detail.devices_cut);
        }
        (None, why) => answer.held_unknown = Some(why.unwrap_or_default().to_owned()),
    }
    answer
}

/// What a process has open although its rules deny it now.
fn denied(process: &report::Process, view: &GpuVerdicts) -> Vec<GpuKey> {
    let gpus = view.verdicts.iter().map(|gpu| (&gpu.gpu, gpu.verdict));
    let parts = view.verdicts.iter().flat_map(|gpu| &gpu.instances);
    let all = gpus.chain(parts.map(|part| (&part.instance, part.verdict)));
    let denied = all.filter(|(_, verdict)| *verdict == Verdict::Deny).map(|(name, _)| name);
    let held =
        |name: &&GpuKey| process.held.iter().flatten().chain(&process.held_instances).any(|it| it == *name);
    denied.filter(held).cloned().collect()
}

/// When a process was started, to the second.
fn started_at(process: &Process, host: &Host) -> Option<Timestamp> {
    let boot = host.boot_time.as_ref()?.timestamp()?;
    let seconds = process.start_time.checked_div(host.ticks_per_second?)?;
    let at = boot.as_second().checked_add(i64::try_from(seconds).ok()?)?;
    Timestamp::from_second(at).ok()
}

/// How many seconds before the observation something was; 0 for a process that
/// started after the observation began.
fn age(at: Timestamp, taken_at: &Time) -> Option<u64> {
    Some(u64::try_from(taken_at.timestamp()?.as_second().checked_sub(at.as_second())?).unwrap_or(0))
}

/// A process without its details.
pub(super) fn bare(process: &Process) -> report::Process {
    report::Process {
        pid: process.pid,
        start_time: process.start_time,
        uid: process.uid,
        state: process.state.map(|letter| ProcessState::of_letter(letter, process.threads)),
        kernel_thread: process.kernel_thread,
        comm: process.comm.lossy().into_owned(),
        comm_hex: process.comm.hex(),
        cgroup: process.cgroup.lossy().into_owned(),
        ..report::Process::default()
    }
}

/// Whether a variable that chooses devices is another now; `None` where one of
/// the environments was not read far enough to say.
fn differ(before: &Environment, now: &Environment) -> Option<bool> {
    let mut certain = true;
    for name in choosing_variables() {
        match (before.get(name), now.get(name)) {
            (Some(before), Some(now)) if before.value != now.value => return Some(true),
            (Some(before), Some(now)) => certain &= !before.cut && !now.cut,
            (Some(_), None) if now.cut.is_none() => return Some(true),
            (None, Some(_)) if before.cut.is_none() => return Some(true),
            (None, None) if before.cut.is_none() && now.cut.is_none() => {}
            _ => certain = false,
        }
    }
    certain.then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Variable;

    /// Make sure that every variable that decides devices or their order counts,
    /// and that those of container runtimes do not.
    #[test]
    fn changes() {
        let with = |name: &str, value: &str| {
            let value = value.into();
            Environment { variables: vec![Variable { name: name.to_owned(), value, cut: false }], cut: None }
        };
        for name in choosing_variables() {
            let (none, one, two) = (Environment::default(), with(name, "1"), with(name, "2"));
            for (before, now) in [(&none, &one), (&one, &two), (&two, &none)] {
                assert_eq!(differ(before, now), Some(true), "{name}");
            }
            assert_eq!(differ(&one, &one), Some(false), "{name}");
        }
        let container = with("NVIDIA_VISIBLE_DEVICES", "all");
        assert_eq!(differ(&Environment::default(), &container), Some(false));
    }
}
