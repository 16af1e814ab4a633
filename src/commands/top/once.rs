//! `gpumap top --once`: the matrix as a table.

use crate::cli::{Exit, TopArgs};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::look::Look;
use crate::render::{self, MatrixStyle};
use crate::report::MatrixAnswer;
use crate::top::{Choice, Filter, rows};

use super::saved;

/// Prints one look. The rows that do not match the filter are left out of the document,
/// too.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &TopArgs, look: Look) -> Result<Exit, Failure> {
    let is_unknown = !look.node.complete;
    let Look { observation, node, audit, remark, .. } = look;
    let mut matrix = saved::matrix(&node.payload, &audit, invocation.style.all);
    let (gpus, gpus_unread) = (node.payload.gpus, node.payload.gpus_unread);
    let filter = Filter::new(&args.filter, &matrix, &gpus);
    let shown = rows(&matrix, Choice { filter: &filter, order: args.sort, open: None });
    let all = std::mem::take(&mut matrix.rows);
    matrix.rows = shown.iter().filter_map(|row| all.get(*row).cloned()).collect();
    let how = MatrixStyle { ascii: args.ascii, processes: invocation.style.all };
    let payload = MatrixAnswer { gpus, gpus_unread, findings: audit.findings, matrix };
    let remarks: Vec<_> = remark.into_iter().collect();
    let exit = invocation.answer_about(&observation, payload, is_unknown, |out, style, payload| {
        render::matrix(out, style, how, payload)
    })?;
    if !remarks.is_empty() {
        invocation.problems(&remarks)?;
    }
    Ok(exit)
}
