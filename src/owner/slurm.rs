//! Slurm: the paths of its cgroups, SLUIDs, and what its daemon of a step says of a job.

use jiff::Timestamp;

use super::path_name::{Match, PathName, number, numbered, text, uid};
use crate::model::{JobIdSource, Owner, OwnerKind, OwnerPart, Time};

/// The scope that Slurm's cgroup/v2 plugin makes; `NODE_` comes before it in
/// builds with several slurmd on one host. Nothing else tells Slurm's `job_N`
/// from other schedulers' (src/plugins/cgroup/v2/cgroup_v2.c).
const SCOPE: &[u8] = b"slurmstepd.scope";
/// Steps without a number (`log_build_step_id_str` in src/common/log.c).
pub(super) const STEPS: [&str; 5] = ["batch", "extern", "interactive", "TBD", "TDB"];

/// `[NODE_]slurmstepd.scope/{job_N|SLUID}/step_S/{slurm|user/task_T}`, in
/// whatever slice.
pub(super) fn v2(place: PathName<'_, '_>) -> Option<Match> {
    let node = scope(place.name())?;
    let mut owner = Owner { node, ..PathName::owner(OwnerKind::Slurm) };
    let Some(name) = place.ahead(1) else { return Match::plain(owner, 1) };
    owner.part = match name {
        b"system" => Some(OwnerPart::System),
        b"slurmd" => Some(OwnerPart::Slurmd),
        _ => None,
    };
    if owner.part.is_some() {
        return Match::plain(owner, 2);
    }
    if !job(&mut owner, name) {
        return Match::plain(owner, 1);
    }
    let Some(()) = place.ahead(2).and_then(|name| step(&mut owner, name)) else {
        return Match::plain(owner, 2);
    };
    let deeper = match place.ahead(3) {
        Some(b"slurm") => {
            owner.part = Some(OwnerPart::Slurm);
            1
        }
        Some(b"user") => 1 + task(&mut owner, place.ahead(4)),
        _ => 0,
    };
    Match::plain(owner, 3 + deeper)
}

/// `slurm[_NODE]/uid_U/job_N/step_S/task_T`
/// (src/plugins/cgroup/v1/cgroup_v1.c).
pub(super) fn v1(place: PathName<'_, '_>) -> Option<Match> {
    let node = match place.name() {
        b"slurm" => None,
        name => Some(text(name.strip_prefix(b"slurm_")?)),
    };
    let uid = uid(place.ahead(1)?.strip_prefix(b"uid_")?)?;
    let mut owner = Owner { node, uid: Some(uid), ..PathName::owner(OwnerKind::Slurm) };
    let Some(id) = place.ahead(2).and_then(|name| numbered(name, "job_")) else {
        return Match::plain(owner, 2);
    };
    numbered_job(&mut owner, id);
    let Some(()) = place.ahead(3).and_then(|name| step(&mut owner, name)) else {
        return Match::plain(owner, 3);
    };
    let deeper = task(&mut owner, place.ahead(4));
    Match::plain(owner, 4 + deeper)
}

/// The number of a job that the path itself names.
pub(super) fn numbered_job(owner: &mut Owner, id: u64) {
    owner.job_id = Some(id);
    owner.job_id_source = Some(JobIdSource::Path);
}

/// The node of `[NODE_]slurmstepd.scope`; the outer `None` for another name.
fn scope(name: &[u8]) -> Option<Option<String>> {
    match name.strip_suffix(SCOPE)? {
        b"" => Some(None),
        node => node.strip_suffix(b"_").filter(|node| !node.is_empty()).map(|node| Some(text(node))),
    }
}

fn job(owner: &mut Owner, name: &[u8]) -> bool {
    if let Some(id) = numbered(name, "job_") {
        numbered_job(owner, id);
        return true;
    }
    let Some(submitted_at) = submitted_at(name) else { return false };
    owner.sluid = Some(text(name));
    owner.submitted_at = Some(submitted_at);
    true
}

fn step(owner: &mut Owner, name: &[u8]) -> Option<()> {
    let name = std::str::from_utf8(name.strip_prefix(b"step_")?).ok()?;
    let (step, component) = match name.split_once('+') {
        Some((step, component)) => (step, Some(u32::try_from(number(component.as_bytes())?).ok()?)),
        None => (name, None),
    };
    let known = STEPS.contains(&step) || number(step.as_bytes()).is_some();
    owner.step = Some(known.then(|| step.to_owned())?);
    owner.het_component = component;
    Some(())
}

/// Reads `task_N` or `task_special`: how many names were read.
fn task(owner: &mut Owner, name: Option<&[u8]>) -> usize {
    let task = name.and_then(|name| name.strip_prefix(b"task_"));
    owner.task = task.filter(|task| *task == b"special" || number(task).is_some()).map(text);
    usize::from(owner.task.is_some())
}

/// Crockford's digits: no I, L, O and U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits of a SLUID; the first holds 4 bits, so it is at most `F`.
const LENGTH: usize = 13;
const MILLISECOND_BITS: u32 = 42;
const COUNTER_BITS: u32 = 10;

/// When a job was submitted, as its SLUID says; `None` if the name is no
/// SLUID.
pub(super) fn submitted_at(name: &[u8]) -> Option<Time> {
    let value = value(name)?;
    let milliseconds = value >> COUNTER_BITS & ((1 << MILLISECOND_BITS) - 1);
    Some(Timestamp::from_millisecond(i64::try_from(milliseconds).ok()?).ok()?.into())
}

fn value(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(b"s").filter(|digits| digits.len() == LENGTH)?;
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = DIGITS.iter().position(|known| known == digit)?;
        value.checked_mul(32)?.checked_add(u64::try_from(digit).ok()?)
    })
}

/// The job of `slurmstepd: [JOB.STEP]`, which may say `stepmgr` too (set in
/// src/slurmd/slurmstepd/slurmstepd.c).
pub(crate) fn job_of_title(title: &[u8]) -> Option<u64> {
    let title = title.split(|byte| *byte == 0).next()?;
    let inside = title.strip_prefix(b"slurmstepd: [")?;
    let mut parts = inside.splitn(2, |byte| *byte == b']');
    let (inside, rest) = (parts.next()?, parts.next()?);
    let known = |rest: &[u8]| matches!(rest.trim_ascii(), b"" | b"stepmgr");
    let inside = inside.strip_suffix(b" stepmgr").unwrap_or(inside);
    let dot = inside.iter().position(|byte| *byte == b'.')?;
    let (job, step) = (inside.get(..dot)?, inside.get(dot + 1..)?);
    let step = !step.is_empty() && step.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'+');
    (step && known(rest)).then(|| number(job)).flatten()
}

/// The job of a socket's file name, `NODE_JOB.STEP[.HET]`
/// (src/common/stepd_api.c). A node name may hold `_` and dots.
pub(crate) fn job_of_socket(name: &[u8]) -> Option<u64> {
    let underscore = name.iter().rposition(|byte| *byte == b'_').filter(|at| *at > 0)?;
    let mut numbers = name.get(underscore + 1..)?.split(|byte| *byte == b'.').map(number);
    let (job, _step) = (numbers.next()??, numbers.next()??);
    match numbers.next() {
        Some(None) => None,
        Some(Some(_)) if numbers.next().is_some() => None,
        _ => Some(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the three parts are cut at the right bits.
    #[test]
    fn parts() {
        assert_eq!(submitted_at(b"sEKNKTV3WPV500"), Some("2026-06-11T10:33:20.485Z".into()));
        assert_eq!(value(b"sEKNKTV3WPV500").map(|value| (value >> 52, value & 1023)), Some((3741, 0)));
        assert_eq!(value(b"sFZZZZZZZZZZZZ"), Some(u64::MAX));
        assert_eq!(submitted_at(b"s0000000000000"), Some("1970-01-01T00:00:00Z".into()));
        assert_eq!(submitted_at(b"sFZZZZZZZZZZZZ"), Some("2109-05-15T07:35:11.103Z".into()));
    }

    /// Make sure that what does not fit 64 bits, or is written otherwise, is no
    /// SLUID.
    #[test]
    fn others() {
        for bad in [
            "sG000000000000",
            "sZZZZZZZZZZZZZ",
            "sEKNKTV3WPV50",
            "sEKNKTV3WPV5000",
            "SEKNKTV3WPV500",
            "seknktv3wpv500",
            "sEKNKTV3WPV50I",
            "sEKNKTV3WPV50U",
            "",
            "s",
        ] {
            assert_eq!(value(bad.as_bytes()), None, "{bad}");
        }
    }

    /// Make sure that every form of the title is read, and no other text.
    #[test]
    fn titles() {
        for good in [
            "slurmstepd: [3385.0]",
            "slurmstepd: [3385.extern]",
            "slurmstepd: [3385.batch] stepmgr",
            "slurmstepd: [3385.extern stepmgr]",
            "slurmstepd: [3385.0+1]  ",
            "slurmstepd: [3385.0]\0\0",
        ] {
            assert_eq!(job_of_title(good.as_bytes()), Some(3385), "{good}");
        }
        for bad in [
            "slurmstepd: [3385]",
            "slurmstepd: [.0]",
            "slurmstepd: [3385.]",
            "slurmstepd: [3385.0",
            "slurmstepd: [3385.0] more",
            "slurmstepd: [99999999999999999999.0]",
            "/usr/sbin/slurmstepd infinity",
            "x slurmstepd: [3385.0]",
            "slurmstepd: [1_2.0]",
            "",
        ] {
            assert_eq!(job_of_title(bad.as_bytes()), None, "{bad}");
        }
    }

    /// Make sure that node names with underscores and dots do not mislead.
    #[test]
    fn sockets() {
        for (name, job) in [
            ("n1_3385.0", Some(3385)),
            ("gpu_node_7_3385.4294967292", Some(3385)),
            ("n1.site_3385.0.1", Some(3385)),
            ("n1_3385", None),
            ("n1_3385.x", None),
            ("n1_3385.0.x", None),
            ("n1_3385.0.1.2", None),
            ("_3385.0", None),
            ("3385.0", None),
            ("", None),
        ] {
            assert_eq!(job_of_socket(name.as_bytes()), job, "{name}");
        }
    }
}
