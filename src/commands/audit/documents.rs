//! The files of an audit: its baseline and its report.

use std::path::Path;

use crate::audit::Baseline;
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::ProblemCode;
use crate::observation::Observation;
use crate::report::{AuditAnswer, AuditOptions};

/// A former audit.
pub(super) fn baseline(invocation: &mut Invocation<'_>, path: &Path) -> Result<Baseline, Failure> {
    let bytes = files::read(invocation, path)?;
    let needs = "save one with gpumap audit --report FILE";
    Baseline::read(&bytes)
        .map_err(|why| Failure::new(ProblemCode::BadBaseline, files::name(path), why, needs))
}

/// Saves the answer with the observation it rests on.
pub(super) fn report(
    invocation: &Invocation<'_>,
    path: &Path,
    observation: &Observation,
    payload: &AuditAnswer,
) -> Result<(), Failure> {
    let payload = AuditAnswer { observation: Some(Box::new(observation.clone())), ..payload.clone() };
    let document = envelope::document(invocation.command, observation, payload);
    files::save(path, &document)
}

/// Keeps the options and files that are needed to make the audit again.
pub(super) fn remember(payload: &mut AuditAnswer, options: AuditOptions) {
    payload.audit.options = options;
}
