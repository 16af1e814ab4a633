//! Every process by `/proc`, one after another.

use super::interface::{ProcessSummary, ScanError, ScanMethod, Scanner};
use super::reader::HelperReader;

/// Sees processes by `/proc`.
#[derive(Debug)]
pub(super) struct ProcScanner {
    reader: HelperReader,
}

impl ProcScanner {
    pub(super) fn new(reader: HelperReader) -> Self {
        Self { reader }
    }
}

impl Scanner for ProcScanner {
    fn engine(&self) -> ScanMethod {
        ScanMethod::Proc
    }

    fn unread(&self) -> &[u32] {
        self.reader.unread()
    }

    fn scan(&mut self) -> Result<Vec<ProcessSummary>, ScanError> {
        self.reader.begin();
        let pids = self.reader.pids()?;
        let mut found = self.reader.processes(&pids);
        // The kernel lists by pid; a fixture directory may not.
        found.sort_unstable_by_key(|process| process.pid);
        Ok(found)
    }
}
