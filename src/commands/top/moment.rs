//! From a look at a node to what the screen shows of it.

use crate::analyse;
use crate::commands::resident::look::Look;
use crate::report::{Event, Finding, Matrix, Payload};
use crate::top::{Moment, Origin};

/// The matrix of a look.
pub(super) fn matrix(node: &Payload, audit: &Payload, all: bool) -> Matrix {
    analyse::matrix(node, audit.findings.as_deref().unwrap_or_default(), all)
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
        gpus: look.node.payload.gpus.clone().unwrap_or_default(),
        findings: look.audit.findings.iter().flatten().filter(counts).cloned().collect(),
        events,
        complete: look.node.complete,
    }
}
