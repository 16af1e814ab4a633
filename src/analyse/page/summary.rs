//! The numbers at the top of a page.

use crate::model::{Membership, Severity};
use crate::report::{Counts, Document, Finding, OwnerSets, PageRow, PageSummary};

use super::columns::Column;

/// What the page shows, in numbers.
pub(super) fn of(
    document: &Document,
    owners: &[OwnerSets],
    columns: &[Column],
    rows: &[PageRow],
) -> PageSummary {
    let findings = document.payload.findings.as_deref().unwrap_or_default();
    let checked = document.payload.audit.as_ref().map(|audit| audit.checked).unwrap_or_default();
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
        contradictions: cells().filter(|cell| cell.sets.state.is_contradiction()).count(),
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
