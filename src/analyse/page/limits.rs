//! How much one page has at most. A browser has to open it, and 100 jobs are to fit into
//! two megabytes; what a node has beyond that is counted and named.

use crate::report::{Finding, PageCut};

/// Cells of the matrix.
const CELLS: usize = 6_000;
/// Marks in the drawings of levels: levels times columns.
const MARKS: usize = 11_500;
/// Instructions in all proofs together.
const STEPS: usize = 10_000;
/// Processes.
const PROCESSES: usize = 1_500;
/// Findings.
const FINDINGS: usize = 300;

/// Room that is left on the page, and what had no room.
#[derive(Debug)]
pub(super) struct Limits {
    marks: usize,
    steps: usize,
    pub(super) cuts: Vec<PageCut>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { marks: MARKS, steps: STEPS, cuts: Vec::new() }
    }
}

impl Limits {
    /// How many rows with so many columns the matrix has at most.
    pub(super) fn rows(columns: usize) -> usize {
        CELLS / columns.max(1)
    }

    /// How many processes there are at most.
    pub(super) fn processes() -> usize {
        PROCESSES
    }

    /// Takes room for a drawing; `false` if there is none.
    pub(super) fn take_marks(&mut self, count: usize) -> bool {
        take(&mut self.marks, count)
    }

    /// Takes room for the instructions of a proof; `false` if there is none.
    pub(super) fn take_steps(&mut self, count: usize) -> bool {
        take(&mut self.steps, count)
    }

    /// Notes what was left out, if anything was.
    pub(super) fn cut(&mut self, what: &str, count: usize, instead: &str) {
        if count > 0 {
            self.cuts.push(PageCut { what: what.to_owned(), count, instead: instead.to_owned() });
        }
    }

    /// Leaves out findings beyond the limit; the most severe are first.
    pub(super) fn findings(&mut self, findings: &mut Vec<Finding>) {
        let more = findings.len().saturating_sub(FINDINGS);
        findings.truncate(FINDINGS);
        self.cut("findings", more, "gpumap audit lists all");
    }
}

fn take(room: &mut usize, count: usize) -> bool {
    let rest = room.checked_sub(count);
    *room = rest.unwrap_or(*room);
    rest.is_some()
}
