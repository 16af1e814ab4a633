//! Reads what the page of a fleet has of a node beyond the report. All of it has a bound:
//! a node beyond it has a section that says so.

mod owners;

use super::document::{Answer, Compact, EverySet, Finding};
use super::kept::{Kept, KeptFinding, KeptOwners};
use super::tables::Tables;
use crate::report::{self, CompactNode};

/// Owners of all nodes together: some 50 MiB. 10,000 nodes of 50 jobs with their steps
/// and tasks have more; the page has room for fewer.
const OWNERS: usize = 1 << 20;
/// Findings of all nodes together: some 30 MiB.
const FINDINGS: usize = 1 << 20;

/// How much may still be kept.
#[derive(Debug)]
pub(super) struct Room {
    owners: usize,
    findings: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { owners: OWNERS, findings: FINDINGS }
    }
}

impl Room {
    fn take<T>(room: &mut usize, count: usize, what: T) -> Kept<T> {
        match room.checked_sub(count) {
            Some(rest) => {
                *room = rest;
                Kept::There(what)
            }
            None => Kept::NoRoom,
        }
    }

    /// Owners that a newer answer of their node replaced.
    pub(super) fn give_back_owners(&mut self, count: usize) {
        self.owners += count;
    }

    /// Findings, likewise.
    pub(super) fn give_back_findings(&mut self, count: usize) {
        self.findings += count;
    }

    /// The owners in an answer of `node`, which has these bytes. `room` is `None` if no page
    /// is asked for. Sets that a report does not need are read of the same bytes again.
    pub(super) fn owners_of_answer(
        room: &mut Option<Self>,
        tables: &mut Tables,
        answer: &Answer<'_>,
        bytes: &[u8],
    ) -> Kept<KeptOwners> {
        let Some(room) = room else { return Kept::Unwanted };
        let owners = match (&answer.compact, serde_json::from_slice::<EverySet>(bytes)) {
            (Some(node), _) => owners::of_compact(tables, node),
            (None, Ok(every)) => {
                let gpus = answer.gpus.as_ref().map(|gpus| gpus.0.as_slice()).unwrap_or_default();
                owners::of_answer(tables, gpus, &every.owners.0)
            }
            (None, Err(_)) => return Kept::Unreadable,
        };
        Self::take(&mut room.owners, owners.len(), owners)
    }

    /// The owners in the compact form of an observation.
    pub(super) fn owners_of_node(
        room: &mut Option<Self>,
        tables: &mut Tables,
        node: &CompactNode,
    ) -> Kept<KeptOwners> {
        let Some(room) = room else { return Kept::Unwanted };
        let owners = owners::of_compact(tables, &Compact::from(node));
        Self::take(&mut room.owners, owners.len(), owners)
    }

    /// The findings in an answer of `audit`.
    pub(super) fn findings_of_answer(
        room: &mut Option<Self>,
        tables: &mut Tables,
        answer: &Answer<'_>,
    ) -> Kept<Vec<KeptFinding>> {
        let Some(room) = room else { return Kept::Unwanted };
        room.findings(tables, answer.findings.as_ref().map(|list| list.0.as_slice()).unwrap_or_default())
    }

    /// The findings of an observation.
    pub(super) fn findings_of(
        room: &mut Option<Self>,
        tables: &mut Tables,
        found: &[report::Finding],
    ) -> Kept<Vec<KeptFinding>> {
        let Some(room) = room else { return Kept::Unwanted };
        let found: Vec<Finding<'_>> = found.iter().map(Finding::from).collect();
        room.findings(tables, &found)
    }

    fn findings(&mut self, tables: &mut Tables, found: &[Finding<'_>]) -> Kept<Vec<KeptFinding>> {
        let mut word = |text: &str| tables.words.number(text);
        let mut kept: Vec<KeptFinding> = found
            .iter()
            .map(|one| KeptFinding {
                severity: one.severity,
                id: word(&one.id),
                summary: word(&one.summary),
                cgroup: one.cgroup.as_ref().map(|path| word(path)),
                advice: word(&one.advice),
                accepted: one.ignored.as_ref().map(|why| word(why)),
            })
            .collect();
        kept.sort_by_key(|one| (one.accepted.is_some(), std::cmp::Reverse(one.severity)));
        Self::take(&mut self.findings, kept.len(), kept)
    }
}

#[cfg(test)]
mod tests;
