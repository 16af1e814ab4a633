//! The page of a fleet: the report, and sections of nodes, as many as there is room for.

use std::cmp::Reverse;

use super::gather::{GatheredNode, Gatherer};
use super::kept::{Kept, KeptFinding};
use super::limits::Words;
use super::problems;
use crate::model::{InOrder as _, Severity, Time};
use crate::report::{Fleet, FleetNode, FleetNodeFinding, FleetOwners, FleetPage, PageCut};

/// Sections of nodes.
const NODES: usize = 2_000;

/// Findings of one node, and of all.
const FINDINGS_OF_ONE: usize = 100;

const FINDINGS: usize = 5_000;

/// Owners of all nodes: jobs first, then what is inside of them.
const OWNERS: usize = 20_000;

/// The page of a report. The nodes with the worst findings have sections first, then
/// those of which something was not known. What is inside of jobs is left out first, of
/// the last nodes; then jobs; then findings; then whole nodes.
pub(super) fn page(gatherer: &Gatherer, fleet: Fleet) -> FleetPage {
    let words = &gatherer.tables.words;
    let mut nodes: Vec<(&String, &GatheredNode)> = gatherer.nodes.iter().collect();
    nodes.order_by_key(|(_, node)| (Reverse(weight(node)), problems::is_complete(node)));
    let rest = nodes.split_off(nodes.len().min(NODES));
    let mut sections: Vec<FleetNode> = nodes.iter().map(|(name, node)| section(words, name, node)).collect();
    let (mut findings, mut owners) = (FINDINGS, OWNERS);
    for ((_, node), section) in nodes.iter().zip(&mut sections) {
        fill_findings(words, node, section, &mut findings);
    }
    for with_inner in [false, true] {
        for ((_, node), section) in nodes.iter().zip(&mut sections) {
            fill_owners(words, node, section, with_inner, &mut owners);
        }
    }
    let mut page = FleetPage { fleet, nodes: sections, cuts: Vec::new() };
    if !rest.is_empty() {
        let instead = "those with findings are here first; give fleet fewer nodes to see the others";
        page.cuts.push(cut("sections of nodes", rest.len(), instead));
    }
    page
}

fn cut(what: &str, count: usize, instead: &str) -> PageCut {
    PageCut { what: what.to_owned(), count, instead: instead.to_owned() }
}

/// How many findings of each severity count, the most severe first.
fn weight(node: &GatheredNode) -> Vec<(Severity, usize)> {
    let mut counts = Vec::new();
    for severity in [Severity::Critical, Severity::Warning, Severity::Note] {
        let rows = node.audit.iter().flat_map(|audit| &audit.what.findings);
        let of = rows.filter(|row| row.alike.severity == severity).map(|row| row.fingerprints.len());
        counts.push((severity, of.sum()));
    }
    counts
}

fn section(words: &Words, name: &str, node: &GatheredNode) -> FleetNode {
    let times =
        [node.state.as_ref().map(|part| part.taken_at), node.audit.as_ref().map(|part| part.taken_at)];
    let mut taken_at: Vec<Time> = times.into_iter().flatten().map(Time::from).collect();
    taken_at.dedup();
    let properties = node.state.iter().flat_map(|state| &state.what.properties);
    FleetNode {
        name: name.to_owned(),
        taken_at,
        counts: weight(node).into_iter().filter(|(_, count)| *count > 0).collect(),
        complete: problems::is_complete(node),
        properties: properties
            .map(|(what, value)| (words.get(*what).to_owned(), words.get(*value).to_owned()))
            .collect(),
        problems: problems::of_node(words, node),
        ..FleetNode::default()
    }
}

fn fill_findings(words: &Words, node: &GatheredNode, section: &mut FleetNode, room: &mut usize) {
    let Some(audit) = &node.audit else { return };
    let kept = match &audit.what.kept {
        Kept::There(kept) => kept.as_slice(),
        Kept::NoRoom => {
            let count = audit.what.findings.iter().map(|row| row.fingerprints.len()).sum();
            section.cuts.push(cut("findings", count, "on the node: gpumap audit"));
            &[]
        }
        // Findings are read once, for the report too.
        Kept::Unreadable | Kept::Unwanted => return,
    };
    let shown = kept.len().min(FINDINGS_OF_ONE).min(*room);
    *room -= shown;
    let word = |word: &Option<_>| word.map(|word| words.get(word).to_owned());
    let finding = |one: &KeptFinding| FleetNodeFinding {
        severity: one.severity,
        id: words.get(one.id).to_owned(),
        summary: words.get(one.summary).to_owned(),
        cgroup: word(&one.cgroup),
        advice: words.get(one.advice).to_owned(),
        accepted: word(&one.accepted),
    };
    section.findings = Some(kept.iter().take(shown).map(finding).collect());
    if kept.len() > shown {
        section.cuts.push(cut("findings", kept.len() - shown, "on the node: gpumap audit"));
    }
}

fn fill_owners(
    words: &Words,
    node: &GatheredNode,
    section: &mut FleetNode,
    with_inner: bool,
    room: &mut usize,
) {
    let Some(state) = &node.state else { return };
    let instead = "on the node: gpumap node, or gpumap report for a page of its own";
    let kept = match &state.what.kept {
        Kept::There(kept) => kept,
        Kept::NoRoom if !with_inner => {
            section.owners = Some(FleetOwners::default());
            let count = state.what.jobs.len();
            return section.cuts.push(cut("jobs and all inside of them", count, instead));
        }
        Kept::Unreadable if !with_inner => {
            section.owners = Some(FleetOwners::default());
            let why = format!("gpumap cannot read the sets of its owners in its document; {instead}");
            return section.cuts.push(cut("jobs and all inside of them", state.what.jobs.len(), &why));
        }
        _ => return,
    };
    let inner = kept.inner();
    let (what, needed) = match with_inner {
        false => ("owners and all inside of them", kept.len() - inner),
        true => ("steps, tasks and others inside of owners", inner),
    };
    match room.checked_sub(needed) {
        // The outer ones had no room: what is inside of them is left out with them.
        _ if with_inner && section.owners.as_ref().is_none_or(|told| told.rows.is_empty()) => {}
        Some(rest) => {
            *room = rest;
            section.owners = Some(kept.told(words, with_inner));
        }
        None => {
            section.owners.get_or_insert_default();
            section.cuts.push(cut(what, needed, instead));
        }
    }
}
