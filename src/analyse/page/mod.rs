//! The page of `report`: the answers of `node` and `audit`, joined so that a reader gets
//! from a GPU of an owner to the instruction that decides.
//!
//! `rows` makes the matrix of owners and GPUs and says whose each process is, `stacks`
//! finds the cgroups in which the same programs decide and keeps each way through a program
//! once, `places` is what they share, [`evidence`] packs the observation. Whatever a node's
//! users can make large has a limit here, and the page names what was left out.

mod places;
mod rows;
mod stacks;
mod summary;

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use places::{Column, Limits, Places};
use sha2::{Digest as _, Sha256};
use stacks::Proofs;

use super::node::Inspection;
use super::subject::AnalyseError;
use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::{AuditAnswer, Document, Evidence, NodeAnswer, Page};
pub use summary::tell_problems;

/// The page about a node.
///
/// `document` makes a document of the answer of [`node()`](super::node()), which the
/// inspection has, and of an audit of the same node. `all` also lists owners and processes
/// that have nothing to do with GPUs.
/// `evidence` of the page is left empty: it is about the observation as it was saved;
/// `problems` too, until [`tell_problems()`] is called.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks.
pub fn page(
    inspection: Inspection<'_>,
    document: impl FnOnce(NodeAnswer) -> Document<NodeAnswer>,
    examined: &AuditAnswer,
    all: bool,
) -> Result<Page, AnalyseError> {
    let (mut join, payload) = inspection.into_parts();
    let observation = join.observation;
    let mut document = document(payload);
    let owners = document.payload.owners.take().unwrap_or_default();
    let cgroups = std::mem::take(&mut document.payload.cgroups);
    let gpus = std::mem::take(&mut document.payload.gpus);
    let columns: Vec<Column> = places::columns(&gpus);
    let mut limits = Limits::default();
    let shown = rows::shown(&owners, gpus.len(), columns.len(), all, &examined.findings, &mut limits);
    let places = Places::new(&owners, &cgroups, observation);
    let mut proofs = Proofs::default();
    let order = places.cgroups_of(&shown);
    let stacks = stacks::of(
        &mut join,
        &stacks::Node { cgroups: &cgroups, columns: &columns, order },
        &mut proofs,
        &mut limits,
    );
    let stacks = stacks?.with_owners(&places, &shown);
    let rows = rows::of(
        &shown,
        &owners,
        &cgroups,
        &columns,
        &places,
        &stacks,
        (&examined.findings, document.payload.activity.as_deref()),
    );
    let processes = rows::processes(&owners, &cgroups, &columns, &places, all, &mut limits);
    let mut findings = examined.findings.clone();
    limits.findings(&mut findings);
    let proofs = proofs.finish(&mut limits);
    let finding_stacks = stacks.of_findings(&findings, &cgroups);
    let summary = summary::of(&findings, examined.audit.checked, &owners, &columns, &rows);
    let reasons = summary::reasons(&rows, &owners, &mut limits);
    document.payload.owners = Some(owners);
    document.payload.cgroups = cgroups;
    document.payload.gpus = gpus;
    Ok(Page {
        document,
        findings,
        audit: examined.audit.clone(),
        columns: columns.into_iter().map(|column| column.shown).collect(),
        rows,
        policy_stacks: stacks.by_policy(),
        stacks: stacks.list,
        summary,
        finding_stacks,
        reasons,
        proofs,
        processes,
        cuts: limits.cuts,
        ..Page::default()
    })
}

/// The observation as JSON, packed by gzip, with the digest of the JSON.
///
/// # Errors
///
/// The observation cannot be written as JSON, which no observation that was read or made
/// by gpumap causes.
pub fn evidence(observation: &Observation, limit: &TimeLimit) -> io::Result<Evidence> {
    let json = serde_json::to_vec(observation)?;
    // No time and no name: the same observation is the same text.
    // Where the time limit was reached already, what is left is done quickly.
    let level = if limit.was_missed() { Compression::fast() } else { Compression::best() };
    let mut packer = GzEncoder::new(Vec::new(), level);
    packer.write_all(&json)?;
    let digest = Sha256::digest(&json);
    Ok(Evidence {
        packed: STANDARD.encode(packer.finish()?),
        bytes: json.len(),
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}
