//! Reports processes: what each asks for, the GPUs that result, what it holds, which
//! limits of HAMi-core and SoftMig it has, and whether the job that its environment names
//! is that of its cgroup.
//!
//! A user can write any environment. So the job in it is a hint and never a proof: a
//! difference is reported and decides nothing.

use std::rc::Rc;

use jiff::Timestamp;

use super::gpu_verdicts::GpuVerdicts;
use super::joined_node::JoinedNode;
use super::levels;
use crate::model::{
    COMPONENT_VARIABLES, DeviceType, GpuKey, JobIdSource, Owner, ProcessState, Time, Verdict,
    choosing_variables,
};
use crate::observation::{self, Answer, Detail, Environment, Host, Process};
use crate::owner::inner_job;
use crate::report::{self, Asked, Claim, Vgpu, Visible};
use crate::vgpu::{ProcessContext, memory_of};
use crate::visible::asked;

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
        answer.claim = job_claim(process, join.owners.of(&process.cgroup));
        answer.vgpu = limits_of(process, &answer, view.as_deref(), join).map(Box::new);
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

/// The claim of a process in the cgroup of `owner`; `None` if it makes none.
pub(super) fn job_claim(process: &Process, owner: Option<&Owner>) -> Option<Claim> {
    let environment = process.detail.as_ref()?.at_exec.known()?;
    let job_id = job_id(environment);
    let sluid = text(environment, "SLURM_JOB_SLUID");
    if job_id.is_none() && sluid.is_none() {
        return None;
    }
    let step = text(environment, "SLURM_STEP_ID");
    let claim = Claim { job_id, step, sluid, ..Claim::default() };
    Some(match (owner.and_then(job), owner.and_then(inner_job)) {
        (Some(job), _) => compare(claim, job, environment),
        (None, Some(inner)) => Claim { inner: true, ..compare(claim, inner, environment) },
        (None, None) => Claim { outside: true, ..claim },
    })
}

/// The job number that an environment claims.
pub(super) fn job_id(environment: &Environment) -> Option<u64> {
    text(environment, "SLURM_JOB_ID")?.parse().ok()
}

/// The array task that a job is, if its processes agree on it. Those of other jobs are
/// left out.
pub(super) fn array_task(owner: &Owner, processes: &[&Process]) -> Option<String> {
    if !levels::is_job(owner) {
        return None;
    }
    let environments = processes.iter().filter_map(|process| process.detail.as_ref()?.at_exec.known());
    let own =
        environments.filter(|environment| owner.job_id.is_some() && job_id(environment) == owner.job_id);
    let mut named = own.map(|environment| {
        let number = |name| text(environment, name)?.parse::<u64>().ok();
        Some(format!("{}_{}", number("SLURM_ARRAY_JOB_ID")?, number("SLURM_ARRAY_TASK_ID")?))
    });
    let first = named.next()??;
    named.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The component of a heterogeneous job that a job is, if the processes that say so agree.
pub(super) fn component(owner: &Owner, processes: &[&Process]) -> Option<String> {
    let own = owner.job_id.filter(|_| levels::is_job(owner))?;
    let environments = processes.iter().filter_map(|process| process.detail.as_ref()?.at_exec.known());
    let mut named = environments.filter_map(|environment| {
        let has_own = |name: &&&str| text(environment, name).and_then(|id| id.parse().ok()) == Some(own);
        let place = COMPONENT_VARIABLES.iter().find(has_own)?.rsplit('_').next()?;
        Some(format!("{}+{place}", job_id(environment)?))
    });
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

/// The innermost Slurm job among an owner and those around it.
pub(super) fn job(owner: &Owner) -> Option<&Owner> {
    let is_slurm = owner.kind.is_slurm();
    if is_slurm && (owner.job_id.is_some() || owner.sluid.is_some()) {
        Some(owner)
    } else {
        owner.outer.as_deref().and_then(job)
    }
}

fn compare(claim: Claim, job: &Owner, environment: &Environment) -> Claim {
    let same_number = claim.job_id.zip(job.job_id).map(|(claimed, own)| claimed == own);
    let same_sluid = claim.sluid.as_ref().zip(job.sluid.as_ref()).map(|(claimed, own)| claimed == own);
    // A number that was read off the same environment proves nothing.
    let circular = job.job_id_source == Some(JobIdSource::Environment);
    let agrees = same_sluid.or(if circular { None } else { same_number });
    let is_heterogeneous = text(environment, "SLURM_HET_SIZE").is_some();
    match agrees {
        Some(false) if is_heterogeneous => {
            let why = "a component of a heterogeneous job: its environment names the leader";
            Claim { agrees: None, why: Some(why.to_owned()), ..claim }
        }
        Some(false) => {
            let why = "its environment names another job than its cgroup";
            Claim { agrees, why: Some(why.to_owned()), ..claim }
        }
        _ => Claim { agrees, ..claim },
    }
}

fn text(environment: &Environment, name: &str) -> Option<String> {
    let variable = environment.get(name).filter(|variable| !variable.cut && !variable.value.is_empty())?;
    Some(variable.value.lossy().into_owned())
}

/// Major number of NVIDIA's devices.
const NVIDIA: u32 = 195;

/// What the libraries do for a process, of which `answer` says what it holds and `view`
/// which GPUs it may open, where that is known. The process itself can write UUIDs into
/// its region: one of a GPU that it may not open is taken for no GPU of the node.
pub(super) fn limits_of(
    process: &observation::Process,
    answer: &report::Process,
    view: Option<&GpuVerdicts>,
    join: &JoinedNode<'_>,
) -> Option<Vgpu> {
    let owner = join.owners.of(&process.cgroup);
    let mut around = std::iter::successors(owner, |owner: &&Owner| owner.outer.as_deref());
    let gpu_of = |uuid: &str| {
        let gpu = join.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some(uuid))?;
        if view.is_some_and(|view| is_denied(&gpu.key, view)) && !holds(answer, &gpu.key) {
            return None;
        }
        Some((gpu.key.clone(), gpu.model.as_deref().and_then(memory_of)))
    };
    let place = ProcessContext {
        in_slurm_job: around.clone().any(|owner| owner.kind.is_slurm()),
        in_container: around.any(|owner| owner.kind.is_container()),
        uses_gpu: uses_gpu(process, answer),
        gpu_of: &gpu_of,
    };
    join.survey.of(process, place)
}

/// Whether neither a GPU nor any instance of it may be opened.
fn is_denied(gpu: &str, view: &GpuVerdicts) -> bool {
    let mut verdicts = view.verdicts.iter().filter(|verdict| *verdict.gpu == *gpu);
    verdicts.any(|verdict| {
        let instances = verdict.instances.iter().map(|instance| instance.verdict);
        instances.chain([verdict.verdict]).all(|verdict| verdict == Verdict::Deny)
    })
}

/// Whether it has a GPU or an instance of it open.
fn holds(process: &report::Process, gpu: &str) -> bool {
    process.held.iter().flatten().chain(&process.held_instances).any(|held| held.is_of(gpu))
}

/// Whether it has a GPU open, one that the inventory lacks too.
fn uses_gpu(process: &observation::Process, answer: &report::Process) -> Option<bool> {
    let devices = process.detail.as_ref()?.devices.known();
    let is_gpu = |device: &observation::HeldDevice| device.kind == DeviceType::Char && device.major == NVIDIA;
    if answer.held.as_ref().is_some_and(|held| !held.is_empty()) || devices?.iter().any(is_gpu) {
        return Some(true);
    }
    answer.held_unknown.is_none().then_some(false)
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
