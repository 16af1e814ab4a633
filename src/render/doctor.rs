//! The answer of `gpumap doctor`: a line for each check, and what to do about it.

use std::io::{self, Write};

use owo_colors::OwoColorize as _;

use super::{Style, wrap};
use crate::model::CheckState;
use crate::report::{DoctorCheck, Payload};

/// Columns of the state.
const STATE: usize = 9;

/// Prints every check, and how many there are of each state.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let checks = payload.doctor.as_deref().unwrap_or_default();
    checks.iter().try_for_each(|check| one(out, style, check))?;
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    writeln!(
        out,
        "\n{} checks: {} ok, {} worth knowing, {} missing, {} unknown. gpumap-doctor(1) explains each.",
        checks.len(),
        count(CheckState::Ok),
        count(CheckState::Note),
        count(CheckState::Missing),
        count(CheckState::Unknown)
    )
}

fn one(out: &mut dyn Write, style: Style, check: &DoctorCheck) -> io::Result<()> {
    let width = usize::from(style.width);
    let first = state(style, check.state);
    wrap::write(out, &first, STATE, width, &format!("{}: {}", check.id, check.found))?;
    match &check.fix {
        Some(fix) => wrap::write(out, &format!("{}do: ", " ".repeat(STATE)), STATE + 4, width, fix),
        None => Ok(()),
    }
}

/// The word of a state in its colour, padded.
fn state(style: Style, state: CheckState) -> String {
    let word = format!("{:<STATE$}", state.to_string());
    match state {
        _ if !style.color => word,
        CheckState::Ok => word.green().to_string(),
        CheckState::Note => word.bold().to_string(),
        CheckState::Missing => word.red().to_string(),
        CheckState::Unknown => word.yellow().to_string(),
    }
}
