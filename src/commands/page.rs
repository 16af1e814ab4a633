//! The page of a node that was examined, and the file that it is written to.

use std::io::Write as _;
use std::path::Path;

use super::files;
use super::invocation::{Failure, Invocation, envelope};
use crate::analyse::CallerAllocation;
use crate::observation::{Observation, Problem, Scope, Text};
use crate::report::{AuditAnswer, NodeAnswer, Page, PageFile};
use crate::{analyse, render};

/// A node with its findings.
pub(super) struct Examined {
    /// The facts.
    pub(super) observation: Observation,
    /// The allocation that the caller named.
    pub(super) granted: CallerAllocation,
    /// The cgroups that the findings concern; none stands for all.
    pub(super) paths: Vec<Text>,
    /// The answer of the audit.
    pub(super) payload: AuditAnswer,
}

/// A page that was written.
pub(super) struct Written {
    /// What is to be said of it.
    pub(super) file: PageFile,
    /// What the page does not know.
    pub(super) errors: Vec<Problem>,
    /// Whether it knows everything.
    pub(super) complete: bool,
}

/// Makes the page of an examined node and writes it.
pub(super) fn write(
    invocation: &mut Invocation<'_>,
    examined: &Examined,
    output: &Path,
) -> Result<Written, Failure> {
    let page = page(invocation, examined)?;
    let mut html = Vec::new();
    render::html_page(&mut html, &page)?;
    if output.as_os_str() == "-" {
        invocation.out.write_all(&html)?;
    } else {
        files::save_bytes(output, &html)?;
    }
    let file = PageFile {
        file: output.to_string_lossy().into_owned(),
        bytes: html.len(),
        observation_sha256: page.evidence.sha256,
        owners: page.rows.len(),
        proofs: page.proofs.len(),
        findings: page.findings.len(),
        left_out: page.cuts,
    };
    Ok(Written { file, errors: page.document.errors, complete: page.document.complete })
}

fn page(invocation: &Invocation<'_>, examined: &Examined) -> Result<Page, Failure> {
    let evidence = analyse::evidence(&examined.observation, &invocation.decoding)?;
    let mut observation = examined.observation.clone();
    if !examined.paths.is_empty() {
        let scope = |path: &Text| Scope { path: path.clone(), recursive: true };
        observation.scope = examined.paths.iter().map(scope).collect();
    }
    let inspection = analyse::Inspection::new(&observation, &examined.granted, &invocation.decoding)?;
    let document = |node: NodeAnswer| envelope::document(invocation.command, &observation, node);
    let mut page = analyse::page(inspection, document, &examined.payload, invocation.global.verbose > 0)?;
    page.document.complete &= !examined.payload.audit.unknown;
    invocation.settle(&mut page.document);
    analyse::tell_problems(&mut page);
    page.evidence = evidence;
    Ok(page)
}
