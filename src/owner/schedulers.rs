//! Recognises jobs of schedulers other than Slurm.

use super::path_name::{Match, PathName, between, number, numbered, text, uid, unescape};
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

/// OpenPBS: `pbs_jobs.service/jobid/ID` (pbs_cgroups.PY).
pub(super) fn pbs(place: PathName<'_, '_>) -> Option<Match> {
    let inside = place.name() == b"pbs_jobs.service" && place.ahead(1)? == b"jobid";
    let id = unescape(place.ahead(2).filter(|_| inside)?);
    let good = id.first().is_some_and(u8::is_ascii_digit);
    good.then(|| Match::plain(Owner { job: Some(text(&id)), ..PathName::owner(OwnerKind::Pbs) }, 3)).flatten()
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
