//! Findings of all nodes: those that are alike as one, without those of a former report,
//! which are left out of the next one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::answer::Fingerprint;
use super::gather::Gatherer;
use super::hostlist;
use crate::model::{FailOn, GrantComparison, InOrder as _, OwnerKind, Severity};
use crate::report::{Counts, Fleet, FleetFinding, SCHEMA};

/// Groups of one id and severity that are reported by their words; the rest is one group.
const GROUPS: usize = 50;

/// A group while it is put together.
#[derive(Debug, Default)]
struct Group<'a> {
    nodes: BTreeSet<&'a str>,
    count: usize,
    /// The first node, and what it says.
    example: Option<(&'a str, &'a str)>,
}

impl<'a> Group<'a> {
    fn add(&mut self, node: &'a str, example: &'a str, count: usize) {
        self.nodes.insert(node);
        self.count += count;
        let candidate = (node, example);
        self.example = Some(self.example.map_or(candidate, |former| former.min(candidate)));
    }

    fn merge(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
        self.count += other.count;
        self.example = [self.example, other.example].into_iter().flatten().min();
    }
}

/// What groups are told apart by: severity, id, kind of owner, words.
type Key<'a> = (Reverse<Severity>, &'a str, Option<&'a OwnerKind>, &'a str);

/// A group with what it is told apart by.
type Told<'a> = (Key<'a>, Group<'a>);

/// Fills in all of a report that is about findings.
pub(super) fn fill(fleet: &mut Fleet, gatherer: &Gatherer, baseline: &Baseline, fail_on: FailOn) {
    let mut groups: BTreeMap<Key<'_>, Group<'_>> = BTreeMap::new();
    for (name, node) in &gatherer.nodes {
        let Some(audit) = &node.audit else { continue };
        fleet.ignored += audit.what.ignored;
        let old = baseline.known().get(name);
        let mut now = BTreeSet::new();
        for row in &audit.what.findings {
            let is_known = |one: &&Fingerprint| old.is_some_and(|old| one.is_in(old));
            let count = row.fingerprints.iter().filter(|it| !is_known(it)).count();
            fleet.known += row.fingerprints.len() - count;
            now.extend(row.fingerprints.iter().flat_map(Fingerprint::parts));
            let wholes = row.fingerprints.iter().map(Fingerprint::whole);
            now.extend(wholes.filter(|whole| old.is_some_and(|old| old.contains(whole))));
            if count > 0 {
                let (alike, words) = (&row.alike, &gatherer.tables.words);
                let key = (
                    Reverse(alike.severity),
                    words.get(alike.id),
                    alike.owner.as_ref(),
                    words.get(alike.words),
                );
                groups.entry(key).or_default().add(name, words.get(row.example), count);
            }
        }
        fleet.gone += old.map_or(0, |old| old.difference(&now).count());
        if !now.is_empty() {
            let texts = now.iter().map(|fingerprint| format!("{fingerprint:016x}")).collect();
            fleet.fingerprints.insert(name.clone(), texts);
        }
    }
    fleet.findings = reported(bounded(groups));
    count(fleet, baseline, fail_on);
}

/// Groups of one id and severity beyond the largest ones as one group.
fn bounded<'a>(groups: BTreeMap<Key<'a>, Group<'a>>) -> Vec<Told<'a>> {
    let mut kinds: BTreeMap<(Reverse<Severity>, &str), Vec<Told<'a>>> = BTreeMap::new();
    for (key, group) in groups {
        kinds.entry((key.0, key.1)).or_default().push((key, group));
    }
    let mut kept = Vec::new();
    for ((severity, id), mut groups) in kinds {
        groups.order_by(|(a, x), (b, y)| (Reverse(x.count), a).cmp(&(Reverse(y.count), b)));
        let rest = groups.split_off(groups.len().min(GROUPS));
        kept.extend(groups);
        let merged = rest.into_iter().map(|(_, group)| group).reduce(|mut all, group| {
            all.merge(group);
            all
        });
        kept.extend(merged.map(|group| ((severity, id, None, ""), group)));
    }
    kept
}

fn reported(groups: Vec<Told<'_>>) -> Vec<FleetFinding> {
    let one = |((severity, id, owner, _), group): (Key<'_>, Group<'_>)| {
        let (node, example) = group.example.unwrap_or_default();
        FleetFinding {
            id: id.to_owned(),
            severity: severity.0,
            owner: owner.cloned(),
            count: group.count,
            on: hostlist::set(group.nodes),
            example: example.to_owned(),
            example_on: node.to_owned(),
        }
    };
    groups.into_iter().map(one).collect()
}

/// How severe it is that nodes are not alike. A job that the baseline has is known.
fn unlike(fleet: &Fleet, baseline: &Baseline) -> Option<Severity> {
    let new = fleet.jobs.differing.iter().filter(|job| !baseline.has_job(&job.job));
    let mut grants = new.flat_map(|job| &job.grants);
    let lacks = grants.any(|grant| grant.compared == GrantComparison::Missing);
    if lacks {
        return Some(Severity::Warning);
    }
    let differs = !fleet.jobs.differing.is_empty()
        || !fleet.claimed_twice.is_empty()
        || fleet.drift.iter().any(|one| one.values.len() > 1);
    differs.then_some(Severity::Note)
}

fn count(fleet: &mut Fleet, baseline: &Baseline, fail_on: FailOn) {
    let of = |severity| {
        fleet
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .map(|finding| finding.count)
            .sum()
    };
    fleet.counts =
        Counts { critical: of(Severity::Critical), warning: of(Severity::Warning), note: of(Severity::Note) };
    fleet.fail_on = fail_on;
    let limit = fail_on.limit();
    let worst = fleet.findings.iter().map(|finding| finding.severity).chain(unlike(fleet, baseline)).max();
    fleet.failed = limit.is_some_and(|limit| worst.is_some_and(|worst| worst >= limit));
}

/// The fingerprints that a former report had, by node.
pub(super) type Known = BTreeMap<String, BTreeSet<u64>>;

/// The findings of a former `fleet --json`, and the jobs that had unlike GPUs.
#[derive(Debug, Default)]
pub struct Baseline {
    known: Known,
    jobs: BTreeSet<String>,
}

/// Why a file is no former report.
#[derive(Debug, thiserror::Error)]
pub enum BadBaseline {
    /// It is not what `fleet --json` printed.
    #[error("not a report of gpumap fleet: {0}")]
    Json(#[from] serde_json::Error),
    /// It is another document.
    #[error("not a report of gpumap fleet")]
    Other,
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    fleet: Option<Report>,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    fingerprints: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    jobs: Jobs,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jobs {
    differing: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    job: String,
}

impl Baseline {
    /// Reads what `fleet --json` printed.
    ///
    /// # Errors
    ///
    /// Anything else.
    pub fn read(bytes: &[u8]) -> Result<Self, BadBaseline> {
        let document: Document = serde_json::from_slice(bytes)?;
        let report = document.fleet.filter(|_| document.schema == SCHEMA).ok_or(BadBaseline::Other)?;
        let number = |text: &String| u64::from_str_radix(text, 16).ok();
        let nodes = report.fingerprints.into_iter();
        let known = nodes.map(|(node, texts)| (node, texts.iter().filter_map(number).collect()));
        let jobs = report.jobs.differing.into_iter().map(|job| job.job);
        Ok(Self { known: known.collect(), jobs: jobs.collect() })
    }

    /// The fingerprints by node.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Whether a job had unlike GPUs on its nodes already.
    pub(super) fn has_job(&self, job: &str) -> bool {
        self.jobs.contains(job)
    }
}
