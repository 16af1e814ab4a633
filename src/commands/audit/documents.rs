//! The files of an audit: its configuration, its baseline and its report.

use std::fs;
use std::io;
use std::path::Path;

use crate::audit::Config;
use crate::cli::AuditArgs;
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::ProblemCode;
use crate::observation::Observation;
use crate::report::{AuditConfig, AuditOptions, Document, Payload};

/// The path of the configuration unless the caller names another.
const USUAL: &str = "/etc/gpumap.toml";

/// The configuration that the caller names, else that of the report being read
/// again, else this node's. A saved observation may be of another node.
pub(super) fn config(
    invocation: &mut Invocation<'_>,
    args: &AuditArgs,
    former: Option<AuditConfig>,
) -> Result<(Config, Option<AuditConfig>), Failure> {
    let found = match &args.config {
        Some(path) => Some(read(invocation, path)?),
        None if invocation.global.from.is_some() => former,
        None if is_there(Path::new(USUAL))? => Some(read(invocation, Path::new(USUAL))?),
        None => None,
    };
    let Some(found) = found else { return Ok((Config::default(), None)) };
    let bad = |error: crate::audit::ConfigError| {
        let needs = "see CONFIGURATION in gpumap-audit(1), and gpumap audit --list for ids";
        Failure::new(ProblemCode::BadConfig, &*found.path, error.to_string(), needs)
    };
    let config = found.text.parse().map_err(bad)?;
    Ok((config, Some(found)))
}

/// Whether there is such a file; one that cannot be looked at is no "no".
fn is_there(path: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::file(path, &error)),
    }
}

fn read(invocation: &mut Invocation<'_>, path: &Path) -> Result<AuditConfig, Failure> {
    let name = files::name(path);
    let text = String::from_utf8(files::read(invocation, path)?);
    let text = text.map_err(|_| Failure::new(ProblemCode::BadConfig, &*name, "not UTF-8", ""))?;
    Ok(AuditConfig { path: name, text })
}

/// A former audit.
pub(super) fn baseline(invocation: &mut Invocation<'_>, path: &Path) -> Result<Document, Failure> {
    let bytes = files::read(invocation, path)?;
    let needs = "save one with gpumap audit --report FILE";
    let bad = |why: String| Failure::new(ProblemCode::BadBaseline, files::name(path), why, needs);
    let document: Document =
        serde_json::from_slice(&bytes).map_err(|error| bad(format!("not an audit: {error}")))?;
    if document.schema != crate::report::SCHEMA || document.payload.findings.is_none() {
        return Err(bad("not an audit".to_owned()));
    }
    Ok(document)
}

/// Saves the answer with the observation it rests on.
pub(super) fn report(
    invocation: &Invocation<'_>,
    path: &Path,
    observation: &Observation,
    payload: &Payload,
) -> Result<(), Failure> {
    let payload = Payload { observation: Some(Box::new(observation.clone())), ..payload.clone() };
    let document = envelope::document(invocation.command, observation, payload);
    files::save(path, &document)
}

/// Keeps the options and files that are needed to make the audit again.
pub(super) fn remember(payload: &mut Payload, options: AuditOptions) {
    if let Some(audit) = &mut payload.audit {
        audit.options = options;
    }
}
