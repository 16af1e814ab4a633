//! `gpumap report`: one HTML file that explains the node.

use std::io::Write;

use super::audit;
use super::invocation::{Failure, Invocation, envelope};
use super::page;
use crate::cli::{AuditArgs, Exit, ReportArgs};
use crate::model::ProblemCode;
use crate::render;
use crate::report::PageAnswer;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ReportArgs) -> Result<Exit, Failure> {
    let is_stdout = args.output.as_os_str() == "-";
    if is_stdout && invocation.global.json {
        let needs = "name a file: -o FILE.html";
        return Err(Failure::new(
            ProblemCode::Usage,
            "--json",
            "the page itself goes to standard output",
            needs,
        ));
    }
    let asked = AuditArgs {
        paths: args.paths.clone(),
        config: args.config.clone(),
        state: args.state.clone(),
        allocation: args.allocation.clone(),
        ..AuditArgs::default()
    };
    let examined = audit::examine(invocation, &asked)?;
    let written = page::write(invocation, &examined, &args.output)?;
    let mut about = envelope::blank();
    about.taken_at.clone_from(&examined.observation.taken_at);
    about.host = examined.observation.host.clone();
    about.errors = written.errors;
    let answer = PageAnswer { page: written.file };
    let view = if is_stdout { |_: &mut dyn Write, _, _: &PageAnswer| Ok(()) } else { render::page_file };
    invocation.answer_about(&about, answer, !written.complete, view)
}
