//! The numbers at the top of a page, and what was not known, each reason once.

use std::collections::{BTreeMap, HashMap};

use super::places::{Column, Limits};
use crate::model::{Membership, Severity};
use crate::observation::Problem;
use crate::report::{
    Checked, Counts, Finding, OwnerSets, Page, PageCut, PageProblem, PageReason, PageRow, PageSet,
    PageSummary,
};

/// What the page shows, in numbers.
pub(super) fn of(
    findings: &[Finding],
    checked: Checked,
    owners: &[OwnerSets],
    columns: &[Column],
    rows: &[PageRow],
) -> PageSummary {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let is_held = |place: usize| {
        rows.iter().filter_map(|row| row.cells.get(place)).any(|cell| cell.sets.held == Membership::Yes)
    };
    let gpus = columns.iter().enumerate().filter(|(_, column)| column.shown.instance.is_none());
    let gpus: Vec<usize> = gpus.map(|(place, _)| place).collect();
    PageSummary {
        findings: counts(findings),
        held: gpus.iter().filter(|place| is_held(**place)).count(),
        gpus: gpus.len(),
        owners: rows.iter().filter(|row| owners.get(row.owner).is_some_and(|sets| sets.depth == 0)).count(),
        contradictions: cells().filter(|cell| cell.sets.is_wrong()).count(),
        cgroups: checked.cgroups,
        processes: checked.processes,
    }
}

fn counts(findings: &[Finding]) -> Counts {
    let of = |severity: Severity| {
        findings.iter().filter(|one| one.severity == severity && one.ignored.is_none()).count()
    };
    Counts { critical: of(Severity::Critical), warning: of(Severity::Warning), note: of(Severity::Note) }
}

/// Things of one kind of problem, and owners of one reason, that are named.
const THINGS: usize = 20;

const OWNERS: usize = 3;

/// Kinds of problems, and reasons.
const KINDS: usize = 200;

/// Tells the problems of the page's document, once all of them are in it.
pub fn tell_problems(page: &mut Page) {
    let (problems, more) = problems(&page.document.errors);
    page.problems = problems;
    if more > 0 {
        let (what, instead) = ("kinds of problems".to_owned(), "gpumap node --json lists them".to_owned());
        page.cuts.push(PageCut { what, count: more, instead });
    }
}

/// Problems that differ only in the thing that they are about, as one; and how many more
/// kinds there are.
fn problems(all: &[Problem]) -> (Vec<PageProblem>, usize) {
    let mut kinds: BTreeMap<(&str, &str, &str), Vec<&Problem>> = BTreeMap::new();
    for problem in all {
        kinds.entry((problem.code.as_str(), &problem.why, &problem.needs)).or_default().push(problem);
    }
    let more = kinds.len().saturating_sub(KINDS);
    let told = kinds.into_values().take(KINDS).filter_map(|alike| {
        Some(PageProblem {
            first: (*alike.first()?).clone(),
            things: alike.iter().take(THINGS).map(|one| one.what.clone()).collect(),
            count: alike.len(),
        })
    });
    (told.collect(), more)
}

/// Why sets of the owners on the page are not known, or empty.
pub(super) fn reasons(rows: &[PageRow], owners: &[OwnerSets], limits: &mut Limits) -> Vec<PageReason> {
    let mut told: Vec<PageReason> = Vec::new();
    let mut places: HashMap<(PageSet, &str), usize> = HashMap::new();
    let mut more = 0;
    for row in rows {
        let Some(sets) = owners.get(row.owner) else { continue };
        for (set, why) in all(sets) {
            let place = match places.get(&(set, why)) {
                Some(place) => *place,
                None if told.len() == KINDS => {
                    more += 1;
                    continue;
                }
                None => {
                    places.insert((set, why), told.len());
                    told.push(PageReason { set, why: why.to_owned(), ..PageReason::default() });
                    told.len() - 1
                }
            };
            if let Some(reason) = told.get_mut(place) {
                reason.count += 1;
                if reason.owners.len() < OWNERS {
                    reason.owners.push(row.owner);
                }
            }
        }
    }
    limits.cut(
        "reasons of single owners",
        more,
        "gpumap job ID or gpumap cgroup PATH tells those of one owner",
    );
    told
}

/// The reasons of an owner, with the set that each is about.
fn all(sets: &OwnerSets) -> impl Iterator<Item = (PageSet, &str)> {
    let four = [
        (PageSet::Allocated, &sets.allocated),
        (PageSet::Allowed, &sets.allowed),
        (PageSet::Asked, &sets.visible),
        (PageSet::Held, &sets.held),
    ];
    four.into_iter().flat_map(|(name, set)| set.why.iter().map(move |why| (name, why.as_str())))
}
