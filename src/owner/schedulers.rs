//! Recognises jobs of schedulers other than Slurm.

use super::path_name::{Match, PathName, between, is_uuid, number, numbered, text, uid, unescape};
use super::slurm::numbered_job;
use crate::model::{Owner, OwnerKind, OwnerPart};

/// ParaStation: `slurm/user-NAME/job-N[/step-N]/tasks` (psmgmt,
/// plugins/jail).
pub(super) fn parastation(place: PathName<'_, '_>) -> Option<Match> {
    let user = place.ahead(1)?.strip_prefix(b"user-").filter(|_| place.name() == b"slurm")?;
    let user = Some(text(user)).filter(|user| !user.is_empty())?;
    let mut owner = Owner { user: Some(user), ..PathName::owner(OwnerKind::Parastation) };
    let Some(id) = place.ahead(2).and_then(|name| numbered(name, "job-")) else {
        return Match::plain(owner, 2);
    };
    numbered_job(&mut owner, id);
    let step = place.ahead(3).and_then(|name| numbered(name, "step-"));
    owner.step = step.map(|step| step.to_string());
    Match::plain(owner, 3 + usize::from(step.is_some()))
}

/// CraneSched: `crane/[overflow/]job_N/step_N/{system|user}/task_N`.
pub(super) fn crane(place: PathName<'_, '_>) -> Option<Match> {
    let above = 1 + usize::from(place.ahead(1) == Some(b"overflow"));
    let id = numbered(place.ahead(above).filter(|_| place.name() == b"crane")?, "job_")?;
    let mut owner = PathName::owner(OwnerKind::Crane);
    numbered_job(&mut owner, id);
    let Some(step) = place.ahead(above + 1).and_then(|name| numbered(name, "step_")) else {
        return Match::plain(owner, above + 1);
    };
    owner.step = Some(step.to_string());
    let part = place.ahead(above + 2).filter(|name| matches!(*name, b"system" | b"user"));
    owner.part = part.filter(|part| *part == b"system").map(|_| OwnerPart::System);
    let task = part.and(place.ahead(above + 3)).and_then(|name| numbered(name, "task_"));
    owner.task = task.map(|task| task.to_string());
    Match::plain(owner, above + 2 + usize::from(part.is_some()) + usize::from(task.is_some()))
}

/// OAR: `oar.slice/oar-uUID.slice/oar-uUID-jJOB.slice[/oar-uUID-jJOB-N.scope]`
/// (job_resource_manager_systemd.pl; the prefix is CPUSET_PATH, `oar` unless configured).
pub(super) fn oar(place: PathName<'_, '_>) -> Option<Match> {
    let user = uid(between(place.ahead(1)?, "oar-u", ".slice")?)?;
    let id = number(between(place.ahead(2)?, &format!("oar-u{user}-j"), ".slice")?)?;
    if !place.top || place.name() != b"oar.slice" {
        return None;
    }
    let mut owner = Owner { uid: Some(user), ..PathName::owner(OwnerKind::Oar) };
    numbered_job(&mut owner, id);
    let scope = format!("oar-u{user}-j{id}-");
    let has_scope = place.ahead(3).is_some_and(|name| between(name, &scope, ".scope").is_some());
    Match::plain(owner, 3 + usize::from(has_scope))
}

/// OAR without systemd: `oar/USER_JOB` (job_resource_manager_cgroups.pl).
pub(super) fn oar_v1(place: PathName<'_, '_>) -> Option<Match> {
    let job = place.ahead(1).filter(|_| place.at == 0 && place.name() == b"oar")?;
    let at = job.iter().rposition(|byte| *byte == b'_').filter(|at| *at > 0)?;
    let user = Some(text(job.get(..at)?));
    let mut owner = Owner { user, ..PathName::owner(OwnerKind::Oar) };
    numbered_job(&mut owner, number(job.get(at + 1..)?)?);
    Match::plain(owner, 2)
}

/// What PBS puts before its cgroups: `cgroup_prefix` of its hook, `pbs_jobs` unless
/// configured, and `pbspro` and `pbs` formerly.
const PBS: [&str; 3] = ["pbs_jobs", "pbspro", "pbs"];

/// PBS: `PREFIX.service/jobid/ID`, with cgroup v2 `PREFIX.service/jobs/ID`, and formerly
/// `PREFIX.slice/PREFIX-ID.slice` (pbs_cgroups.PY of OpenPBS, the places that its tests
/// look at; for v2 the hook of PBS Professional, as pbs_exporter and Base Command
/// Manager document it).
pub(super) fn pbs(place: PathName<'_, '_>) -> Option<Match> {
    let (prefix, ending) =
        place.name().split_at_checked(place.name().iter().rposition(|byte| *byte == b'.')?)?;
    let prefix = std::str::from_utf8(prefix).ok().filter(|prefix| PBS.contains(prefix))?;
    let (id, taken) = match (ending, place.ahead(1)?) {
        (b".service", b"jobid" | b"jobs") => (place.ahead(2)?, 3),
        (b".slice", name) => (between(name, &format!("{prefix}-"), ".slice")?, 2),
        _ => return None,
    };
    let id = unescape(id);
    let good = id.first().is_some_and(u8::is_ascii_digit);
    good.then(|| Match::plain(Owner { job: Some(text(&id)), ..PathName::owner(OwnerKind::Pbs) }, taken))
        .flatten()
}

/// LSF: `lsf/CLUSTER/job.ID.PID.TIME`, for an element of an array `job.ID[INDEX].…` (IBM's
/// support page on memory in cgroups; CEEMS' collector for LSF reads the same in both
/// versions).
pub(super) fn lsf(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.ahead(2).filter(|_| place.top && place.name() == b"lsf")?.strip_prefix(b"job.")?;
    let id = name.split(|byte| *byte == b'.').next()?;
    let mut owner = PathName::owner(OwnerKind::Lsf);
    match (number(id), id.iter().position(|byte| *byte == b'[')) {
        (Some(id), _) => numbered_job(&mut owner, id),
        (None, Some(at)) => {
            number(id.get(..at)?)?;
            number(id.get(at + 1..)?.strip_suffix(b"]")?)?;
            owner.job = Some(text(id));
        }
        _ => return None,
    }
    Match::plain(owner, 3)
}

/// Grid Engine under systemd: `X.slice/X-jobs.slice/X.JOB[.TASK].scope`, and for parallel
/// jobs `X.slice/X-jobs.slice/X-jobs-JOB[.TASK].slice/X.JOB….scope`, X being the name of
/// the installation, such as `ocs8012` (`job_get_systemd_slice_and_scope` of the Cluster
/// Scheduler, source/libs/sgeobj/ocs_Job.cc).
pub(super) fn grid_engine(place: PathName<'_, '_>) -> Option<Match> {
    let top = place.name().strip_suffix(b".slice").filter(|top| place.top && !top.contains(&b'-'))?;
    let top = std::str::from_utf8(top).ok().filter(|top| !top.is_empty())?;
    let jobs = format!("{top}-jobs");
    place.ahead(1).filter(|name| name.strip_suffix(b".slice") == Some(jobs.as_bytes()))?;
    if let Some(id) = between(place.ahead(2)?, &format!("{jobs}-"), ".slice") {
        let (owner, rest) = element(id)?;
        let scope = place.ahead(3).and_then(|name| between(name, &format!("{top}."), ".scope"));
        let same = scope.and_then(element).is_some_and(|(other, _)| other == owner);
        return rest.is_empty().then(|| Match::plain(owner, 3 + usize::from(same))).flatten();
    }
    Match::plain(element(between(place.ahead(2)?, &format!("{top}."), ".scope")?)?.0, 3)
}

/// The job of `JOB[.TASK]`, and what follows.
fn element(text: &[u8]) -> Option<(Owner, &[u8])> {
    let digits = |text: &[u8]| text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (job, rest) = text.split_at_checked(digits(text))?;
    let job = number(job)?;
    let mut owner = PathName::owner(OwnerKind::GridEngine);
    let task = rest.strip_prefix(b".").and_then(|rest| rest.split_at_checked(digits(rest)));
    let (task, rest) = task.map_or((None, rest), |(task, after)| match number(task) {
        Some(task) => (Some(task), after),
        None => (None, rest),
    });
    match task {
        Some(task) => owner.job = Some(format!("{job}.{task}")),
        None => numbered_job(&mut owner, job),
    }
    Some((owner, rest))
}

/// Nomad: `nomad.slice/{share|reserve}.slice/ALLOCATION.TASK.scope`, without the partition
/// before Nomad 1.7, and `nomad/…/ALLOCATION.TASK` with cgroup v1 (client/lib/cgroupslib).
pub(super) fn nomad(place: PathName<'_, '_>) -> Option<Match> {
    let (partitions, ending): ([&[u8]; 2], &[u8]) = match place.name() {
        b"nomad.slice" if place.top => ([b"share.slice", b"reserve.slice"], b".scope"),
        b"nomad" if place.at == 0 => ([b"share", b"reserve"], b""),
        _ => return None,
    };
    let depth = 1 + usize::from(place.ahead(1).is_some_and(|name| partitions.contains(&name)));
    let name = place.ahead(depth)?.strip_suffix(ending)?;
    let (allocation, task) = name.split_at_checked(36).filter(|(id, _)| is_uuid(id))?;
    let task = task.strip_prefix(b".").filter(|task| !task.is_empty())?;
    let owner = PathName::owner(OwnerKind::Nomad);
    let (job, task) = (Some(text(allocation)), Some(text(task)));
    Match::plain(Owner { job, task, ..owner }, depth + 1)
}

/// HTCondor: `htcondor/condor_EXECUTE_SLOT.slice/SAME.scope`, EXECUTE being the
/// execute directory with `_` for `/`; without suffixes where it is no slice
/// (proc_family_direct_cgroup_v2.cpp). The slot is what follows the last
/// `_slot`, as slots are called unless the configuration says otherwise.
pub(super) fn htcondor(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.ahead(1).filter(|_| place.name() == b"htcondor")?;
    let job = name.strip_suffix(b".slice").unwrap_or(name);
    let at = job.windows(6).rposition(|part| matches!(part, [b'_', b's', b'l', b'o', b't', b'0'..=b'9']))?;
    let owner = Owner { name: Some(text(job.get(at + 1..)?)), ..PathName::owner(OwnerKind::Htcondor) };
    let same = place.ahead(2).and_then(|below| below.strip_suffix(b".scope")) == Some(job);
    Match::plain(owner, 2 + usize::from(same))
}

/// Flux: `[imp-]shell-RANK-ID.service` with a job id in F58
/// (bulk-exec.c of flux-core; the id's alphabet is RFC 19's). Flux starts its
/// jobs in the systemd of the user it runs as, so this one is recognised there.
pub(super) fn flux(place: PathName<'_, '_>) -> Option<Match> {
    let name = place.name().strip_prefix(b"imp-").unwrap_or(place.name());
    let name = name.strip_prefix(b"shell-")?.strip_suffix(b".service").filter(|_| place.top)?;
    let dash = name.iter().position(|byte| *byte == b'-')?;
    number(name.get(..dash)?)?;
    let id = unescape(name.get(dash + 1..)?);
    let digits = id.strip_prefix("ƒ".as_bytes()).or_else(|| id.strip_prefix(b"f"))?;
    let good = (1..=11).contains(&digits.len()) && digits.iter().all(|digit| is_base58(*digit));
    good.then(|| Match::plain(Owner { job: Some(text(&id)), ..PathName::owner(OwnerKind::Flux) }, 1))
        .flatten()
}

fn is_base58(digit: u8) -> bool {
    digit.is_ascii_alphanumeric() && !matches!(digit, b'0' | b'O' | b'I' | b'l')
}
