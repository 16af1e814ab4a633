//! `gpumap prog --compile`: from rules to a program.

use std::io::Write as _;
use std::path::Path;

use crate::analyse;
use crate::cli::Exit;
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::{NoteCode, ProblemCode};
use crate::observation::{Observation, Program};
use crate::policy::{Decoder, TimeLimit};
use crate::render;
use crate::report::{Note, Payload};

/// Compiles the rules in a file, shows the program, and saves it if `output` names a
/// file; with `-` it prints the bytes alone.
pub(super) fn run(
    invocation: &mut Invocation<'_>,
    rules: &Path,
    output: Option<&Path>,
) -> Result<Exit, Failure> {
    let text = files::read(invocation, rules)?;
    let (program, notes) = compiled(&text, &files::name(rules), &invocation.decoding)?;
    if !invocation.global.json {
        let _nobody_reads =
            render::notes(invocation.err, true, &Payload { notes: notes.clone(), ..Payload::default() });
    }
    let bytes = program.xlated.known().map(|xlated| xlated.0.as_slice()).unwrap_or_default();
    match output {
        Some(path) if path.as_os_str() == "-" => {
            invocation.out.write_all(bytes)?;
            invocation.out.flush()?;
            return Ok(Exit::Yes);
        }
        Some(path) => files::save_bytes(path, bytes)?,
        None => {}
    }
    let observation = Observation { programs: vec![program], ..envelope::blank() };
    let payload = Payload { notes, ..analyse::programs(&observation, &[0], &invocation.decoding)? };
    invocation.answer(&observation, payload, render::prog)
}

/// The program, and what its rules leave open.
type Compiled = (Program, Option<Vec<Note>>);

fn compiled(text: &[u8], name: &str, limit: &TimeLimit) -> Result<Compiled, Failure> {
    let bad = |why: String| Failure::new(ProblemCode::BadRules, name, why, "see NOTATION in gpumap(1)");
    let text = std::str::from_utf8(text).map_err(|error| bad(format!("not text: {error}")))?;
    let mut decoder = Decoder::within(limit);
    let policy = decoder.policy_of_text(text).map_err(|error| bad(error.to_string()))?;
    let program = analyse::compiled(&mut decoder, policy).map_err(|error| {
        Failure::new(ProblemCode::TooLarge, name, error.to_string(), "use fewer rules, or ranges")
    })?;
    let left = decoder.left_open(text, policy);
    let notes: Vec<Note> = left.into_iter().map(|text| Note { code: NoteCode::PartDenied, text }).collect();
    Ok((program, (!notes.is_empty()).then_some(notes)))
}
