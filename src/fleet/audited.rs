//! What `fleet` keeps of the findings of a node.

use std::collections::BTreeMap;

use super::alike::alike;
use super::answer::{Alike, Audited, FindingRow};
use super::compact::digest;
use super::document::{Answer, Finding};
use super::kept::Kept;
use super::limits::Refusal;
use super::tables::Tables;
use crate::model::OwnerKind;
use crate::report::AuditAnswer;

/// Findings of a node, by what those that are alike have in common.
type Rows = BTreeMap<Alike, FindingRow>;

/// Refuses an audit that leaves findings out.
pub(super) fn check(answer: &Answer<'_>) -> Result<(), Refusal> {
    let Some(audit) = &answer.audit else { return Err(Refusal::why("it does not say how it was made")) };
    if !audit.options.paths.0.is_empty() || audit.options.job.is_some() {
        return Err(Refusal::why(
            "it is an audit of a part of the node: make it without PATH and --from-env",
        ));
    }
    if !audit.known_fingerprints.0.is_empty() {
        let why = "it was made with --baseline, which leaves findings out; give fleet a baseline instead";
        return Err(Refusal::why(why));
    }
    Ok(())
}

/// The findings of `audit --json`.
pub(super) fn of_answer(tables: &mut Tables, answer: &Answer<'_>) -> Audited {
    let findings = answer.findings.as_ref().map(|list| list.0.as_slice()).unwrap_or_default();
    let (counted, ignored): (Vec<_>, Vec<_>) = findings.iter().partition(|one| one.ignored.is_none());
    let mut rows = Rows::new();
    counted.into_iter().for_each(|finding| add(tables, &mut rows, finding));
    let config = answer.audit.as_ref().and_then(|audit| audit.options.config.as_ref());
    let config = config.map_or_else(|| "none".to_owned(), |config| digest(config.text.as_bytes()));
    Audited {
        findings: rows.into_values().collect(),
        ignored: ignored.len(),
        config: tables.words.number(&config),
        kept: Kept::Unwanted,
    }
}

/// The findings of an observation, audited without a configuration.
pub(super) fn of_payload(tables: &mut Tables, answer: &AuditAnswer) -> Audited {
    let mut rows = Rows::new();
    answer.findings.iter().for_each(|finding| add(tables, &mut rows, &finding.into()));
    let (findings, config) = (rows.into_values().collect(), tables.words.number("none"));
    Audited { findings, ignored: 0, config, kept: Kept::Unwanted }
}

fn add(tables: &mut Tables, rows: &mut Rows, found: &Finding<'_>) {
    let alike = Alike {
        severity: found.severity,
        id: tables.words.number(&found.id),
        owner: found.owner.as_ref().map(|owner| short(&owner.kind)),
        words: tables.words.number(&alike(&found.summary)),
    };
    let fingerprint = fingerprint(&found.fingerprint);
    let example = tables.words.number(&found.summary);
    match rows.get_mut(&alike) {
        Some(row) => {
            row.fingerprints.push(fingerprint);
            if tables.words.get(example) < tables.words.get(row.example) {
                row.example = example;
            }
        }
        None => {
            rows.insert(alike.clone(), FindingRow { alike, example, fingerprints: vec![fingerprint] });
        }
    }
}

/// A kind of owner that later versions name is kept short.
fn short(kind: &OwnerKind) -> OwnerKind {
    match kind {
        OwnerKind::Other(word) => OwnerKind::Other(word.chars().take(40).collect()),
        kind => kind.clone(),
    }
}

/// A fingerprint as a number: its 16 hexadecimal digits. Anything else is no
/// fingerprint of gpumap's, and stands for itself by its digest.
fn fingerprint(text: &str) -> u64 {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let text = if is_hex { text.to_owned() } else { digest(text.as_bytes()) };
    u64::from_str_radix(&text, 16).unwrap_or_default()
}
