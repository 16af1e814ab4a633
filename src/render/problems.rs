//! Problems on standard error, the checks of `gpumap doctor`, and the file that `gpumap
//! report` wrote.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use owo_colors::OwoColorize as _;

use super::names::counted;
use super::{Style, sanitize, wrap};
use crate::model::CheckState;
use crate::observation::Problem;
use crate::report::{DoctorAnswer, DoctorCheck, PageAnswer};

/// Lines printed before the rest is counted.
const SHOWN: usize = 8;

/// `what: why; what would help`, safe to print. A bare right is one that is
/// needed.
pub fn line(problem: &Problem) -> String {
    let what = if problem.what.is_empty() { String::new() } else { format!("{}: ", problem.what) };
    let is_right = problem.needs.starts_with("CAP_") || problem.needs.starts_with("root");
    let needs = match (problem.needs.as_str(), is_right) {
        ("", _) => String::new(),
        (right, true) => format!("; needs {right}"),
        (help, false) => format!("; {help}"),
    };
    sanitize::text(&format!("{what}{}{needs}", problem.why)).into_owned()
}

/// A problem for a line with little room: a long name, such as a path that a user
/// chose, loses its middle, so that the reason stays.
pub(super) fn brief(problem: &Problem) -> String {
    const NAME: usize = 80;
    let name: Vec<char> = problem.what.chars().collect();
    if name.len() <= NAME {
        return line(problem);
    }
    let (head, tail) = name.split_at(NAME / 2);
    let end = tail.iter().skip(tail.len().saturating_sub(NAME / 2 - 1));
    let what = head.iter().chain(&['…']).chain(end).collect();
    line(&Problem { what, ..problem.clone() })
}

/// Prints problems. Problems that differ only in the thing they are about share a
/// line unless `all` is set, so that a missing right is printed once and not 5000
/// times.
pub fn write(err: &mut dyn Write, problems: &[Problem], all: bool) -> io::Result<()> {
    if all {
        return problems.iter().try_for_each(|problem| writeln!(err, "gpumap: {}", line(problem)));
    }
    let mut alike: BTreeMap<(&str, &str, &str), Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        alike.entry((problem.code.as_str(), &problem.why, &problem.needs)).or_default().push(problem);
    }
    for group in alike.values().take(SHOWN) {
        let Some(first) = group.first() else { continue };
        match group.len() {
            1 => writeln!(err, "gpumap: {}", line(first))?,
            count => writeln!(err, "gpumap: {} (and {} alike; -v lists all)", line(first), count - 1)?,
        }
    }
    match alike.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(err, "gpumap: … and {more} more kinds of problem (-v lists all)"),
    }
}

/// Columns of the state.
const STATE: usize = 9;

/// Prints every check, and how many there are of each state.
pub fn write_checks(out: &mut dyn Write, style: Style, answer: &DoctorAnswer) -> io::Result<()> {
    let checks = &answer.doctor;
    checks.iter().try_for_each(|check| one_check(out, style, check))?;
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let counts = format!(
        "{} checks: {} ok, {} worth knowing, {} missing, {} unknown. gpumap-doctor(1) explains each.",
        checks.len(),
        count(CheckState::Ok),
        count(CheckState::Note),
        count(CheckState::Missing),
        count(CheckState::Unknown)
    );
    writeln!(out)?;
    wrap::write(out, "", 2, usize::from(style.width), &counts)
}

fn one_check(out: &mut dyn Write, style: Style, check: &DoctorCheck) -> io::Result<()> {
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

/// Prints one line, and one for each thing that was left out.
pub fn write_page_file(out: &mut dyn Write, _style: Style, answer: &PageAnswer) -> io::Result<()> {
    let file = &answer.page;
    let size = file.bytes.div_ceil(1024);
    writeln!(
        out,
        "{}: {size} KiB, {}, {}, {}",
        sanitize::text(&file.file),
        counted(file.owners, "owner"),
        counted(file.findings, "finding"),
        counted(file.proofs, "proof")
    )?;
    writeln!(out, "  SHA-256 of the observation in it: {}", sanitize::text(&file.observation_sha256))?;
    file.left_out.iter().try_for_each(|cut| {
        writeln!(
            out,
            "  left out: {}: {} ({})",
            sanitize::text(&cut.what),
            cut.count,
            sanitize::text(&cut.instead)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProblemCode;

    fn problem(what: &str, why: &str) -> Problem {
        let (code, needs) = (ProblemCode::NoRight, "run it as root".to_owned());
        Problem { code, what: what.to_owned(), why: why.to_owned(), needs }
    }

    /// Make sure that a thousand alike are one line, and that none is dropped
    /// silently.
    #[test]
    fn alike_problems_are_counted() {
        let problems: Vec<Problem> =
            (0..1000).map(|id| problem(&format!("program {id}"), "no right")).collect();
        let mut err = Vec::new();
        write(&mut err, &problems, false).unwrap();
        let expected = "gpumap: program 0: no right; run it as root (and 999 alike; -v lists all)\n";
        assert_eq!(String::from_utf8(err).unwrap(), expected);
        let mut err = Vec::new();
        write(&mut err, &problems, true).unwrap();
        assert_eq!(String::from_utf8(err).unwrap().lines().count(), 1000);
    }

    /// Make sure that an error line cannot carry an escape.
    #[test]
    fn hostile_names() {
        assert_eq!(line(&problem("/a\x1b[2J\n", "gone")), "/a\\x1b[2J\\n: gone; run it as root");
    }
}
