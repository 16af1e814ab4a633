//! A page, and its lists at hand.

use crate::report::{Finding, Gpu, OwnerSets, Page, Program};

/// A page, and its lists at hand.
pub(super) struct View<'a> {
    pub(super) page: &'a Page,
    pub(super) gpus: &'a [Gpu],
    pub(super) owners: &'a [OwnerSets],
    pub(super) findings: &'a [Finding],
}

impl<'a> View<'a> {
    pub(super) fn new(page: &'a Page) -> Self {
        let payload = &page.document.payload;
        Self {
            page,
            gpus: payload.gpus.as_deref().unwrap_or_default(),
            owners: payload.owners.as_deref().unwrap_or_default(),
            findings: payload.findings.as_deref().unwrap_or_default(),
        }
    }

    /// A program of the answer.
    pub(super) fn program(&self, id: u32) -> Option<&'a Program> {
        self.page.document.payload.programs.as_ref()?.get(&id)
    }
}
