//! Decides which findings count: ignored ones, those of a baseline, and whether
//! one is severe enough to fail the audit.

use std::collections::BTreeSet;

use jiff::civil::Date;

use super::config::{Config, Ignore, day};
use crate::model::{CgroupPath, FailOn, Severity};
use crate::report::{Counts, Document, Finding, FixedFinding, Payload};

/// Leaves out what a former audit found already, and says what it found that is
/// no more.
pub fn compare(payload: &mut Payload, baseline: &Document) {
    let (Some(findings), Some(audit)) = (&mut payload.findings, &mut payload.audit) else { return };
    let old = baseline.payload.findings.as_deref().unwrap_or_default();
    let left_out = baseline.payload.audit.iter().flat_map(|audit| &audit.known_fingerprints);
    let known: BTreeSet<&String> = old.iter().map(|finding| &finding.fingerprint).chain(left_out).collect();
    let now: BTreeSet<&String> = findings.iter().map(|finding| &finding.fingerprint).collect();
    let is_gone = |finding: &&Finding| finding.ignored.is_none() && !now.contains(&finding.fingerprint);
    audit.fixed = old.iter().filter(is_gone).map(fixed).collect();
    let (left_out, new) = std::mem::take(findings)
        .into_iter()
        .partition::<Vec<_>, _>(|finding| known.contains(&finding.fingerprint));
    audit.known = left_out.len();
    audit.known_fingerprints = left_out.into_iter().map(|finding| finding.fingerprint).collect();
    *findings = new;
}

fn fixed(finding: &Finding) -> FixedFinding {
    let Finding { id, fingerprint, summary, .. } = finding.clone();
    FixedFinding { id, fingerprint, summary }
}

/// Marks findings that the configuration accepts on the day of the observation.
pub(super) fn mark_ignored(findings: &mut [Finding], config: &Config, taken_at: &str) {
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
        .is_none_or(|key| finding.devices.iter().any(|device| device.gpu.as_ref() == Some(key)));
    ignore.id == finding.id && in_time && in_place && of_gpu
}

/// Counts the findings, and says whether the audit fails.
pub fn judge(payload: &mut Payload, fail_on: FailOn) {
    let (Some(findings), Some(audit)) = (&payload.findings, &mut payload.audit) else { return };
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
    use crate::report::Audit;

    fn finding(fingerprint: &str, severity: Severity, ignored: Option<&str>) -> Finding {
        Finding {
            fingerprint: fingerprint.to_owned(),
            severity,
            ignored: ignored.map(str::to_owned),
            ..Finding::default()
        }
    }

    fn payload(findings: Vec<Finding>) -> Payload {
        Payload { findings: Some(findings), audit: Some(Audit::default()), ..Payload::default() }
    }

    /// Make sure that the limit is inclusive and that ignored findings do not count.
    #[test]
    fn limits() {
        let failed = |severity: Severity, ignored: Option<&str>, fail_on: FailOn| {
            let mut payload = payload(vec![finding("a", severity, ignored)]);
            judge(&mut payload, fail_on);
            payload.audit.unwrap().failed
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
        let baseline = |payload: &Payload| Document { payload: payload.clone(), ..Document::default() };
        let old = payload(vec![
            known(),
            finding("z", Severity::Note, None),
            finding("y", Severity::Note, Some("x")),
        ]);
        compare(&mut first, &baseline(&old));
        let audit = first.audit.clone().unwrap();
        assert!(first.findings.as_ref().unwrap().is_empty());
        assert_eq!((audit.known, audit.fixed.len()), (1, 1));
        let mut second = payload(vec![known(), finding("b", Severity::Note, None)]);
        compare(&mut second, &baseline(&first));
        assert_eq!(second.findings.unwrap()[0].fingerprint, "b");
    }
}
