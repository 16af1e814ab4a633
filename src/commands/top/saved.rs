//! Saved nodes: the moments through which the user steps; and how a look at a node, saved or
//! live, becomes what the screen shows of it.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::screen::{Shown, Source};
use crate::analyse;
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::look::{Look, Looker};
use crate::observation::Observation;
use crate::report::{AuditAnswer, Event, Finding, Matrix, NodeAnswer};
use crate::top::{Moment, Origin};

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

    /// Reads the file at the present place. Where that fails, the others can still be
    /// shown: the moment says why. It is a failure if there are no others.
    pub(super) fn read(&mut self) -> Result<Option<Shown>, Failure> {
        let Some(file) = self.files.get(self.at).cloned() else { return Ok(None) };
        let origin = Origin::Saved { number: self.at + 1, of: self.files.len() };
        match self.look(&file) {
            Ok(look) => Ok(Some(shown(look, origin, self.invocation.style.all))),
            Err(failure) if self.files.len() > 1 => Ok(Some(unreadable(&failure, origin))),
            Err(failure) => Err(failure),
        }
    }

    fn look(&mut self, file: &Path) -> Result<Look, Failure> {
        let observation = saved::load(self.invocation, file)?;
        self.looker.judge(self.invocation, observation)
    }
}

/// A look without anything that happened before.
fn shown(look: Look, origin: Origin, all: bool) -> Shown {
    let moment = of(&look, origin, Vec::new(), all);
    Shown { moment, facts: Arc::new(look.observation) }
}

/// A moment of which nothing is known but why.
fn unreadable(failure: &Failure, origin: Origin) -> Shown {
    let moment = Moment { origin, failure: Some(failure.to_string()), ..Moment::default() };
    Shown { moment, facts: Arc::new(Observation::default()) }
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

/// The matrix of a look.
pub(super) fn matrix(node: &NodeAnswer, audit: &AuditAnswer, all: bool) -> Matrix {
    analyse::matrix(node, &audit.findings, all)
}

/// All that is shown of a look.
pub(super) fn of(look: &Look, origin: Origin, events: Vec<Event>, all: bool) -> Moment {
    let counts = |finding: &&Finding| finding.ignored.is_none();
    Moment {
        origin,
        failure: None,
        host: look.node.host.name.clone(),
        taken_at: look.node.taken_at.clone(),
        matrix: matrix(&look.node.payload, &look.audit, all),
        gpus: look.node.payload.gpus.clone(),
        findings: look.audit.findings.iter().filter(counts).cloned().collect(),
        events,
        complete: look.node.complete,
    }
}
