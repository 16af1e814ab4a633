//! Decides which findings count: those that concern the part of the node that is asked
//! about, that the configuration does not accept, and that a baseline does not have; and
//! whether one is severe enough to fail the audit.
//!
//! The whole node is audited in any case: only that shows that another job was granted the
//! same GPU.

use std::collections::BTreeSet;

use super::config::{Config, Ignore, day};
use crate::model::{CgroupPath, FailOn, Owner, Severity, Time};
use crate::observation::Text;
use crate::owner::JobName;
use crate::report::{self, AuditAnswer, Counts, Finding, FixedFinding, NodeAnswer, OwnerSets};
use jiff::civil::Date;
use serde::Deserialize;

/// The part of the node that an audit is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditScope {
    /// These cgroups and all below them; empty means all.
    pub paths: Vec<Text>,
    /// This job.
    pub job: Option<JobName>,
}

impl AuditScope {
    /// Whether a finding is about this part.
    pub(super) fn contains(&self, finding: &Finding, payload: &NodeAnswer) -> bool {
        self.is_in_place(finding, payload) && self.is_of_job(finding, payload)
    }

    fn is_in_place(&self, finding: &Finding, payload: &NodeAnswer) -> bool {
        let others = finding.others.iter().flat_map(|other| rows(other, payload)).map(|row| &row.cgroup);
        let mut places = finding.cgroup.iter().chain(others).chain(process_places(finding, payload));
        self.paths.is_empty() || places.any(|place| self.paths.iter().any(|top| is_within(place, top)))
    }

    fn is_of_job(&self, finding: &Finding, payload: &NodeAnswer) -> bool {
        let Some(job) = &self.job else { return true };
        let is_its = |owner: &Owner| job.is(owner);
        let tops = || payload.owners.iter().flatten().filter(|row| job.is(&row.owner));
        let below = |place: &String| tops().any(|top| is_within(place, &Text::from(top.cgroup.as_str())));
        finding.owner.iter().chain(&finding.others).any(is_its)
            || finding.cgroup.iter().any(below)
            || process_places(finding, payload).any(below)
    }

    /// Whether the job has a cgroup on the node.
    pub(super) fn is_here(&self, payload: &NodeAnswer) -> bool {
        let mut owners = payload.owners.iter().flatten();
        self.job.as_ref().is_none_or(|job| owners.any(|row| job.is(&row.owner)))
    }
}

fn rows<'a>(owner: &'a Owner, payload: &'a NodeAnswer) -> impl Iterator<Item = &'a OwnerSets> {
    payload.owners.iter().flatten().filter(move |row| row.owner == *owner)
}

/// The cgroups of a finding's processes.
fn process_places<'a>(finding: &'a Finding, payload: &'a NodeAnswer) -> impl Iterator<Item = &'a String> {
    let is_its = |pid: u32, start: u64| {
        finding.processes.iter().any(|process| (process.pid, process.start_time) == (pid, start))
    };
    let cgroups = payload.cgroups.iter();
    let inside =
        cgroups.filter(move |cgroup| cgroup.processes.iter().any(|it| is_its(it.pid, it.start_time)));
    inside.map(|cgroup| &cgroup.path)
}

fn is_within(place: &str, top: &Text) -> bool {
    CgroupPath::new(place).is_at_or_below(CgroupPath::new(top.lossy().as_ref()))
}

/// What a former audit found: of its document the parts that a comparison needs.
#[derive(Debug, Default, Deserialize)]
pub struct Baseline {
    schema: String,
    findings: Option<Vec<FormerFinding>>,
    #[serde(default)]
    audit: FormerAudit,
}

#[derive(Debug, Deserialize)]
struct FormerFinding {
    id: String,
    fingerprint: String,
    #[serde(default)]
    device_fingerprints: Vec<String>,
    summary: String,
    #[serde(default)]
    ignored: Option<String>,
}

impl FormerFinding {
    fn parts(&self) -> &[String] {
        parts(&self.fingerprint, &self.device_fingerprints)
    }
}

/// The fingerprints of what a finding says, one for each device that it joins.
fn parts<'a>(whole: &'a String, devices: &'a [String]) -> &'a [String] {
    if devices.is_empty() { std::slice::from_ref(whole) } else { devices }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FormerAudit {
    known_fingerprints: Vec<String>,
}

impl Baseline {
    /// Reads what `audit --json` or `audit --report` saved.
    ///
    /// # Errors
    ///
    /// What stands in place of an audit.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let read = serde_json::from_slice::<Self>(bytes);
        let baseline = read.map_err(|error| format!("not an audit: {error}"))?;
        let is_audit = baseline.schema == report::SCHEMA && baseline.findings.is_some();
        if is_audit { Ok(baseline) } else { Err("not an audit".to_owned()) }
    }

    fn findings(&self) -> impl Iterator<Item = &FormerFinding> {
        self.findings.iter().flatten()
    }
}

/// Leaves out what a former audit found already, and says what it found that is
/// no more.
pub fn compare(answer: &mut AuditAnswer, baseline: &Baseline) {
    let (findings, audit) = (&mut answer.findings, &mut answer.audit);
    let of = |finding: &Finding| parts(&finding.fingerprint, &finding.device_fingerprints).to_vec();
    let old = baseline.findings().flat_map(FormerFinding::parts);
    let known: BTreeSet<&String> = old.chain(&baseline.audit.known_fingerprints).collect();
    let now: BTreeSet<String> = findings.iter().flat_map(of).collect();
    let is_gone = |former: &&FormerFinding| {
        former.ignored.is_none() && !former.parts().iter().any(|part| now.contains(part))
    };
    audit.fixed = baseline.findings().filter(is_gone).map(fixed).collect();
    let (left_out, new) = std::mem::take(findings)
        .into_iter()
        .partition::<Vec<_>, _>(|finding| of(finding).iter().all(|part| known.contains(part)));
    audit.known = left_out.len();
    audit.known_fingerprints = left_out.iter().flat_map(of).collect();
    *findings = new;
}

fn fixed(former: &FormerFinding) -> FixedFinding {
    let FormerFinding { id, fingerprint, summary, .. } = former;
    FixedFinding { id: id.clone(), fingerprint: fingerprint.clone(), summary: summary.clone() }
}

/// Marks findings that the configuration accepts on the day of the observation.
pub(super) fn mark_ignored(findings: &mut [Finding], config: &Config, taken_at: &Time) {
    let today = day(taken_at);
    for finding in findings {
        let accepted = config.ignore.iter().find(|ignore| covers(ignore, finding, today));
        finding.ignored = accepted.map(|ignore| ignore.reason.clone());
    }
}

fn covers(ignore: &Ignore, finding: &Finding, today: Option<Date>) -> bool {
    let in_time = today.is_some_and(|today| today <= ignore.until);
    let in_place = ignore.cgroup.as_ref().is_none_or(|top| {
        finding
            .cgroup
            .as_ref()
            .is_some_and(|cgroup| CgroupPath::new(cgroup).is_at_or_below(CgroupPath::new(top)))
    });
    let of_gpu = ignore
        .gpu
        .as_ref()
        .is_none_or(|key| finding.devices.iter().any(|device| device.gpu.as_deref() == Some(key)));
    ignore.id == finding.id && in_time && in_place && of_gpu
}

/// Counts the findings, and says whether the audit fails.
pub fn judge(answer: &mut AuditAnswer, fail_on: FailOn) {
    let (findings, audit) = (&answer.findings, &mut answer.audit);
    let counting = || findings.iter().filter(|finding| finding.ignored.is_none());
    let of = |severity: Severity| counting().filter(|it| it.severity == severity).count();
    audit.counts =
        Counts { critical: of(Severity::Critical), warning: of(Severity::Warning), note: of(Severity::Note) };
    audit.ignored = findings.len() - counting().count();
    audit.fail_on = fail_on;
    let all = [Severity::Note, Severity::Warning, Severity::Critical];
    let is_bad = |limit: Severity| all.into_iter().filter(|it| *it >= limit).any(|it| of(it) > 0);
    audit.failed = fail_on.limit().is_some_and(is_bad);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OwnerKind;

    /// Make sure that a name's beginning is not the cgroup, and that nothing is
    /// outside of the root.
    #[test]
    fn places() {
        assert!(is_within("/a/b", &Text::from("/a")) && is_within("/a", &Text::from("/a")));
        assert!(!is_within("/ab", &Text::from("/a")) && is_within("/ab", &Text::from("/")));
    }

    /// Make sure that a double grant concerns both jobs.
    #[test]
    fn both_sides() {
        let owner = |id| Owner { kind: OwnerKind::Slurm, job_id: Some(id), ..Owner::default() };
        let row =
            |id: u64| OwnerSets { owner: owner(id), cgroup: format!("/job_{id}"), ..OwnerSets::default() };
        let payload = NodeAnswer { owners: Some(vec![row(1), row(2), row(3)]), ..NodeAnswer::default() };
        let finding = Finding {
            cgroup: Some("/job_1".to_owned()),
            owner: Some(owner(1)),
            others: vec![owner(2)],
            ..Finding::default()
        };
        for (id, expected) in [(1, true), (2, true), (3, false)] {
            let job = AuditScope { job: Some(JobName::Number(id)), ..AuditScope::default() };
            let path = AuditScope {
                paths: vec![Text::from(format!("/job_{id}").as_str())],
                ..AuditScope::default()
            };
            assert_eq!(job.contains(&finding, &payload), expected, "{id}");
            assert_eq!(path.contains(&finding, &payload), expected, "{id}");
        }
    }

    fn finding(fingerprint: &str, severity: Severity, ignored: Option<&str>) -> Finding {
        Finding {
            fingerprint: fingerprint.to_owned(),
            severity,
            ignored: ignored.map(str::to_owned),
            ..Finding::default()
        }
    }

    fn payload(findings: Vec<Finding>) -> AuditAnswer {
        AuditAnswer { findings, ..AuditAnswer::default() }
    }

    /// Make sure that the limit is inclusive and that ignored findings do not count.
    #[test]
    fn limits() {
        let failed = |severity: Severity, ignored: Option<&str>, fail_on: FailOn| {
            let mut payload = payload(vec![finding("a", severity, ignored)]);
            judge(&mut payload, fail_on);
            payload.audit.failed
        };
        assert!(failed(Severity::Warning, None, FailOn::Warning));
        assert!(failed(Severity::Critical, None, FailOn::Note));
        assert!(!failed(Severity::Note, None, FailOn::Warning));
        assert!(!failed(Severity::Critical, None, FailOn::Never));
        assert!(!failed(Severity::Critical, Some("known"), FailOn::Note));
    }

    /// Make sure that only new findings stay, through a chain of baselines too.
    #[test]
    fn baselines() {
        let mut first = payload(vec![finding("a", Severity::Note, None)]);
        let known = || finding("a", Severity::Note, None);
        let baseline = |payload: &AuditAnswer| {
            let document = serde_json::json!({
                "schema": report::SCHEMA, "findings": payload.findings, "audit": payload.audit,
            });
            Baseline::read(document.to_string().as_bytes()).unwrap()
        };
        let old = payload(vec![
            known(),
            finding("z", Severity::Note, None),
            finding("y", Severity::Note, Some("x")),
        ]);
        compare(&mut first, &baseline(&old));
        let audit = first.audit.clone();
        assert!(first.findings.is_empty());
        assert_eq!((audit.known, audit.fixed.len()), (1, 1));
        let mut second = payload(vec![known(), finding("b", Severity::Note, None)]);
        compare(&mut second, &baseline(&first));
        assert_eq!(second.findings[0].fingerprint, "b");
    }

    /// Make sure that a finding about several devices is known device by device.
    #[test]
    fn baselines_of_several_devices() {
        let about = |devices: &[&str]| Finding {
            device_fingerprints: devices.iter().map(ToString::to_string).collect(),
            ..finding(&devices.concat(), Severity::Warning, None)
        };
        let left = |old: &Finding, now: &Finding| {
            let findings = serde_json::json!({ "schema": report::SCHEMA, "findings": [old], "audit": {} });
            let mut answer = payload(vec![now.clone()]);
            compare(&mut answer, &Baseline::read(findings.to_string().as_bytes()).unwrap());
            (answer.findings.len(), answer.audit.fixed.len())
        };
        let (both, one) = (about(&["a", "b"]), finding("a", Severity::Warning, None));
        assert_eq!(left(&both, &one), (0, 0));
        assert_eq!(left(&one, &both), (1, 0));
        assert_eq!(left(&both, &about(&["c", "d"])), (1, 1));
    }
}
