//! Saved nodes: the moments through which the user steps.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::moment;
use super::screen::{Shown, Source};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::look::{Look, Looker};
use crate::top::Place;

/// The files, one of which is shown.
pub(super) struct Saved<'s, 'a> {
    invocation: &'s mut Invocation<'a>,
    looker: &'s Looker,
    files: Vec<PathBuf>,
    at: usize,
}

impl<'s, 'a> Saved<'s, 'a> {
    pub(super) fn new(invocation: &'s mut Invocation<'a>, looker: &'s Looker, files: Vec<PathBuf>) -> Self {
        Self { invocation, looker, files, at: 0 }
    }

    /// Reads the file at the present place.
    pub(super) fn read(&mut self) -> Result<Option<Shown>, Failure> {
        let Some(file) = self.files.get(self.at) else { return Ok(None) };
        let observation = saved::load(self.invocation, file)?;
        let look = self.looker.judge(self.invocation, observation)?;
        let place = Place::Saved { number: self.at + 1, of: self.files.len() };
        Ok(Some(shown(look, place, self.invocation.style.all)))
    }
}

/// A look without anything that happened before.
fn shown(look: Look, place: Place, all: bool) -> Shown {
    let moment = moment::of(&look, place, Vec::new(), all);
    Shown { moment, facts: Arc::new(look.observation) }
}

impl Source for Saved<'_, '_> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn newest(&mut self) -> Option<Shown> {
        None
    }

    fn step(&mut self, forward: bool) -> Result<Option<Shown>, Failure> {
        let to = if forward { self.at.checked_add(1) } else { self.at.checked_sub(1) };
        match to.filter(|to| *to < self.files.len()) {
            Some(to) => {
                self.at = to;
                self.read()
            }
            None => Ok(None),
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}
