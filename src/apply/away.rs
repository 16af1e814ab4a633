//! Takes gpumap's program out of a list.

use std::os::fd::AsFd as _;

use super::error::ApplyError;
use super::place::{HeldCgroup, program};
use super::prove::{self, count};
use crate::model::ReplaceMode;
use crate::observation::Text;
use crate::observe::Options;
use crate::repair::{self, Swapped};
use crate::report::RepairJournal;

/// Takes gpumap's program out of a list where no verdict depends on it. The inner
/// error says why it does not; then nothing was changed.
pub(super) fn detach(
    options: &Options,
    level: &Text,
    journal: &RepairJournal,
) -> Result<Result<usize, String>, ApplyError> {
    let planned = &journal.replacement;
    if planned.mode != ReplaceMode::Listed {
        return Ok(Err("it is not one of a list that it could be taken out of".to_owned()));
    }
    let place = HeldCgroup::open(options, level, planned)?;
    let revision = place.lists()?.own.revision;
    let before = prove::look(options, level)?;
    let swapped = Swapped { level, meant: None, old: journal.program, new: None };
    let changed = repair::changes(&before, swapped);
    if let Some(first) = changed.first() {
        return Ok(Err(format!("without it {first}")));
    }
    let ours = program(journal.program, &journal.tag)?;
    place.detach(ours.as_fd(), revision).map_err(|error| ApplyError::bpf("gpumap's program", error))?;
    let after = prove::look(options, level)?;
    let wrong = repair::differences(&before, &after, swapped);
    if wrong.is_empty() {
        Ok(Ok(count(&after, level)))
    } else {
        let wrong = wrong.join("; ");
        Err(ApplyError::Unproved(format!(
            "gpumap's program is taken away, and meanwhile others changed something: {wrong}"
        )))
    }
}
