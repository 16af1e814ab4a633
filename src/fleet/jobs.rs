//! Jobs that run on several nodes: whether they have alike GPUs on all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::gather::Gatherer;
use super::hostlist;
use super::inventory::{Grant, GrantNumber, GrantRow};
use super::limits::Word;
use crate::model::{GrantedSet, InOrder as _};
use crate::report::{FleetJobs, JobDifference, JobGrant};

/// A job on one node.
struct Row<'a> {
    job: Word,
    /// The cluster that the job is one of, where nodes of several clusters answered.
    cluster: Option<Word>,
    node: &'a str,
    allowed: GrantRow,
    allocated: Option<GrantRow>,
}

/// The jobs of all nodes.
pub(super) fn of(gatherer: &Gatherer) -> FleetJobs {
    let states = || gatherer.nodes.values().filter_map(|node| Some(&node.state.as_ref()?.what));
    // Every cluster counts its jobs from 1.
    let clusters: BTreeSet<Word> = states().filter_map(|state| state.cluster).collect();
    let are_several = clusters.len() > 1;
    let rows = gatherer.nodes.iter().flat_map(|(name, node)| {
        let states = node.state.iter().map(|part| &part.what);
        states.flat_map(move |state| {
            state.jobs.iter().map(move |row| Row {
                job: row.job,
                cluster: state.cluster.filter(|_| are_several),
                node: name.as_str(),
                allowed: row.allowed,
                allocated: row.allocated,
            })
        })
    });
    let mut rows: Vec<Row<'_>> = rows.collect();
    // By number, which is quick; jobs are put in order by name when they are reported.
    rows.order_by_key(|row| (row.job, row.cluster));
    let mut jobs = FleetJobs::default();
    for job in rows.chunk_by(|a, b| (a.job, a.cluster) == (b.job, b.cluster)) {
        jobs.all += 1;
        if job.first().map(|row| row.node) != job.last().map(|row| row.node) {
            jobs.several += 1;
            jobs.differing.extend(differences(gatherer, job));
        }
    }
    jobs.differing.order_by(|a, b| (natural(&a.job), &a.set).cmp(&(natural(&b.job), &b.set)));
    jobs
}

/// Job numbers in their order.
fn natural(job: &str) -> (&str, Option<u64>, &str) {
    match job.rsplit_once(' ') {
        Some((kind, id)) => (kind, id.parse().ok(), id),
        None => (job, None, ""),
    }
}

fn differences<'a>(gatherer: &'a Gatherer, job: &[Row<'a>]) -> Vec<JobDifference> {
    let allowed: Vec<(&'a str, GrantRow)> = job.iter().map(|row| (row.node, row.allowed)).collect();
    // What was allocated is only known in hooks: nodes without it cannot be compared.
    let allocated: Vec<(&'a str, GrantRow)> =
        job.iter().filter_map(|row| Some((row.node, row.allocated?))).collect();
    [(GrantedSet::Allowed, allowed), (GrantedSet::Allocated, allocated)]
        .into_iter()
        .filter_map(|(set, rows)| difference(gatherer, job.first()?, set, &rows))
        .collect()
}

fn difference<'a>(
    gatherer: &'a Gatherer,
    job: &Row<'_>,
    set: GrantedSet,
    rows: &[(&'a str, GrantRow)],
) -> Option<JobDifference> {
    let words = &gatherer.tables.words;
    // By node: one that names a job twice has no more weight than the others.
    let mut grants: BTreeMap<GrantNumber, BTreeMap<&'a str, Word>> = BTreeMap::new();
    for (node, row) in rows {
        grants.entry(row.grant).or_default().entry(node).or_insert(row.numbers);
    }
    if grants.len() < 2 {
        return None;
    }
    let told = |(number, on): (GrantNumber, BTreeMap<&'a str, Word>)| {
        let grant = gatherer.tables.grants.get(number);
        (grant, grant.text(words), on)
    };
    let mut grants: Vec<_> = grants.into_iter().map(told).collect();
    grants.order_by(|(_, a, x), (_, b, y)| (Reverse(x.len()), a, x).cmp(&(Reverse(y.len()), b, y)));
    let usual = grants.first().map(|(grant, ..)| *grant)?;
    let one = |(grant, text, on): &(&Grant, String, BTreeMap<&str, Word>)| JobGrant {
        gpus: text.clone(),
        compared: grant.compared(usual),
        numbers: on.first_key_value().map(|(_, numbers)| words.get(*numbers).to_owned()).unwrap_or_default(),
        on: hostlist::set(on.keys().copied()),
    };
    let cluster = job.cluster.map(|name| format!(" of cluster {}", words.get(name)));
    Some(JobDifference {
        job: format!("{}{}", words.get(job.job), cluster.unwrap_or_default()),
        set,
        grants: grants.iter().map(one).collect(),
    })
}
