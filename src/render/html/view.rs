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

    /// The stack of a cgroup by its path.
    pub(super) fn stack_of(&self, path: &str) -> Option<usize> {
        let cgroups = self.page.document.payload.cgroups.as_deref().unwrap_or_default();
        let place = cgroups.iter().position(|cgroup| cgroup.path == path)?;
        self.page.stacks.iter().position(|stack| stack.cgroups.contains(&place))
    }

    /// A program of the answer.
    pub(super) fn program(&self, id: u32) -> Option<&'a Program> {
        self.page.document.payload.programs.as_ref()?.get(&id)
    }
}
