//! `gpumap prog`: one program with its rules and its disassembly; with `--compile`, from
//! rules to a program.

use std::io::Write as _;
use std::path::Path;

use super::subject::programs;
use crate::cli::{Exit, ProgArgs, ProgramSource};
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation, envelope};
use crate::model::{NoteCode, ProblemCode};
use crate::observation::{Observation, Problem, Program};
use crate::policy::{Decoder, TimeLimit};
use crate::report::{Note, ProgramsAnswer};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ProgArgs) -> Result<Exit, Failure> {
    if let Some(rules) = &args.compile {
        return compile(invocation, rules, args.output.as_deref());
    }
    let sources = args.program.as_slice();
    let mut gathered = programs::gather(invocation, sources, args.maps.as_deref())?;
    if matches!(sources, [ProgramSource::Id(_)]) && invocation.global.from.is_none() {
        add_places(invocation, &mut gathered.observation);
    }
    let payload = analyse::programs(&gathered.observation, &gathered.ids, &invocation.decoding)?;
    invocation.answer(&gathered.observation, payload, render::prog)
}

/// Adds where the program is attached, or why that is not known.
fn add_places(invocation: &Invocation<'_>, observation: &mut Observation) {
    if let Err(error) = observe::add_places(&invocation.options(), observation) {
        let what = "where the program is attached".to_owned();
        let problem =
            Problem { code: ProblemCode::NoCgroup, what, why: error.to_string(), needs: String::new() };
        observation.errors.push(problem);
    }
}

/// Compiles the rules in a file, shows the program, and saves it if `output` names a
/// file; with `-` it prints the bytes alone.
fn compile(invocation: &mut Invocation<'_>, rules: &Path, output: Option<&Path>) -> Result<Exit, Failure> {
    let text = files::read(invocation, rules)?;
    let (program, notes) = compiled(&text, &files::name(rules), &invocation.decoding)?;
    if !invocation.global.json {
        let _nobody_reads = render::notes(invocation.err, true, &notes);
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
    let payload = ProgramsAnswer { notes, ..analyse::programs(&observation, &[0], &invocation.decoding)? };
    invocation.answer(&observation, payload, render::prog)
}

/// The program, and what its rules leave open.
type Compiled = (Program, Vec<Note>);

fn compiled(text: &[u8], name: &str, limit: &TimeLimit) -> Result<Compiled, Failure> {
    let bad = |why: String| Failure::new(ProblemCode::BadRules, name, why, "see NOTATION in gpumap(1)");
    let text = std::str::from_utf8(text).map_err(|error| bad(format!("not text: {error}")))?;
    let mut decoder = Decoder::of_one_program(limit);
    let policy = decoder.policy_of_text(text).map_err(|error| bad(error.to_string()))?;
    let program = analyse::compiled(&mut decoder, policy).map_err(|error| {
        Failure::new(ProblemCode::TooLarge, name, error.to_string(), "use fewer rules, or ranges")
    })?;
    let left = decoder.left_open(text, policy);
    let notes = left.into_iter().map(|text| Note { code: NoteCode::PartDenied, text }).collect();
    Ok((program, notes))
}
