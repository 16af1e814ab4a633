//! Numbers that are the least that somebody did, because not all of his calls found room.

use crate::model::CountTable::{
    self, Batches, Blocks, Contexts, Errors, Events, Graphs, Processes, Streams, Threads,
};
use crate::report::ActiveProcess;

/// Tables whose losses concern a column.
pub(super) const LAUNCHES: &[CountTable] = &[Processes, Threads, Streams, Graphs];
pub(super) const COPIED: &[CountTable] = &[Processes, Threads, Streams, Batches];
pub(super) const MEMORY: &[CountTable] = &[Processes, Threads, Contexts, Blocks];
pub(super) const WAITS: &[CountTable] = &[Processes, Threads, Contexts, Streams, Events];
pub(super) const ERRORS: &[CountTable] = &[Processes, Threads, Contexts, Streams, Errors];

/// Whether a process lost something in one of these tables.
pub(super) fn is_concerned(process: &ActiveProcess, tables: &[CountTable]) -> bool {
    process.lost.iter().any(|lost| tables.contains(lost))
}

/// A number: `≥12` where some may be missing, and `?` where that is all that is known.
pub(super) fn number(process: &ActiveProcess, tables: &[CountTable], shown: String) -> String {
    marked(is_concerned(process, tables), shown)
}

/// The same of a number of which it is known whether some may be missing.
pub(in crate::render) fn marked(is_partial: bool, shown: String) -> String {
    match is_partial {
        false => shown,
        true if matches!(shown.as_str(), "0" | "-" | "0 %") => "?".to_owned(),
        true => format!("≥{shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a number is marked where some of it may be missing, and a 0 is not
    /// shown as one there.
    #[test]
    fn marks() {
        let process = ActiveProcess { lost: vec![Blocks], ..ActiveProcess::default() };
        let show = |tables, text: &str| number(&process, tables, text.to_owned());
        assert_eq!([show(MEMORY, "1.4 GiB"), show(MEMORY, "-"), show(LAUNCHES, "0")], ["≥1.4 GiB", "?", "0"]);
        assert_eq!([true, false].map(|is_partial| marked(is_partial, "0".to_owned())), ["?", "0"]);
    }
}
