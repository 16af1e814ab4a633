//! One line for Nagios: state, text, `|`, performance data.

use std::io::{self, Write};

use super::problems::brief;
use super::sanitize;
use crate::observation::Problem;
use crate::report::{AuditAnswer, Finding};

/// The longest text, so that the whole line is within what old agents send.
const TEXT: usize = 600;

/// The states of Nagios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nagios {
    /// Nothing worse than a note, and everything was seen.
    Ok,
    /// A warning.
    Warning,
    /// A critical finding.
    Critical,
    /// Not everything could be seen, and nothing was found.
    Unknown,
}

impl Nagios {
    /// The state that an audit amounts to.
    pub fn of(answer: &AuditAnswer, complete: bool) -> Self {
        let counts = answer.audit.counts;
        match (counts.critical, counts.warning, complete) {
            (1.., ..) => Self::Critical,
            (0, 1.., _) => Self::Warning,
            (0, 0, false) => Self::Unknown,
            (0, 0, true) => Self::Ok,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// Prints the line; `problems` are what could not be seen.
pub fn write(
    out: &mut dyn Write,
    state: Nagios,
    answer: &AuditAnswer,
    problems: &[Problem],
) -> io::Result<()> {
    let (findings, audit) = (&answer.findings, &answer.audit);
    let counting: Vec<&Finding> = findings.iter().filter(|finding| finding.ignored.is_none()).collect();
    let what = match (state, counting.first()) {
        (Nagios::Unknown, _) => unseen(answer, problems),
        (_, None) => "no finding".to_owned(),
        (_, Some(worst)) => summary(worst, counting.len() - 1),
    };
    let counts = audit.counts;
    writeln!(
        out,
        "GPUMAP {} - {}|critical={};;0 warning={};0 note={} ignored={} gpus={}",
        state.word(),
        text(&what),
        counts.critical,
        counts.warning,
        counts.note,
        audit.ignored,
        audit.checked.gpus
    )
}

/// Prints that nothing is known.
pub fn unknown(out: &mut dyn Write, why: &str) -> io::Result<()> {
    writeln!(out, "GPUMAP {} - {}", Nagios::Unknown.word(), text(why))
}

/// The reason why the state is unknown: the first problem, or else what is not
/// known.
fn unseen(answer: &AuditAnswer, problems: &[Problem]) -> String {
    let remark = answer.audit.remarks.first().cloned();
    let why = match problems.split_first() {
        Some((first, [])) => Some(brief(first)),
        Some((first, rest)) => Some(format!("{} (and {} more)", brief(first), rest.len())),
        None => remark,
    };
    why.map_or_else(
        || "not everything could be seen".to_owned(),
        |why| format!("not everything could be seen: {why}"),
    )
}

fn summary(worst: &Finding, more: usize) -> String {
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let text = format!("{}: {}{}", worst.id, worst.summary, devices(worst));
    let head = sanitize::short(&text, TEXT - more.len(), "…");
    head + &more
}

/// Which devices are meant, unless the sentence names them.
fn devices(finding: &Finding) -> String {
    let names = finding.devices.iter().filter_map(|it| it.name.as_deref().or(it.gpu.as_deref()));
    let names: Vec<&str> = names.filter(|name| !finding.summary.contains(name)).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" [{}]", names.join(" ")),
    }
}

/// Removes the character that separates the text from the numbers. `sanitize` has
/// removed line ends.
fn text(text: &str) -> String {
    sanitize::short(text, TEXT, "…").replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Audit, Counts};

    fn payload(counts: Counts, summary: &str) -> AuditAnswer {
        let finding = Finding { id: "an-id".to_owned(), summary: summary.to_owned(), ..Finding::default() };
        let audit = Audit { counts, ..Audit::default() };
        AuditAnswer { findings: vec![finding], audit, ..AuditAnswer::default() }
    }

    /// Make sure that the worst decides and that unknown is no OK.
    #[test]
    fn states() {
        let state = |critical, warning, note, complete| {
            Nagios::of(&payload(Counts { critical, warning, note }, ""), complete)
        };
        assert_eq!(state(0, 0, 3, true), Nagios::Ok);
        assert_eq!(state(0, 0, 3, false), Nagios::Unknown);
        assert_eq!(state(0, 1, 0, false), Nagios::Warning);
        assert_eq!(state(2, 1, 0, false), Nagios::Critical);
    }

    /// Make sure that a long path does not hide why something is unknown.
    #[test]
    fn long_names() {
        let what = format!("/{}end", "d/".repeat(2000));
        let why = "cgroups nested too deeply were not read".to_owned();
        let problem = Problem { what, why, ..Problem::default() };
        let mut out = Vec::new();
        write(&mut out, Nagios::Unknown, &payload(Counts::default(), ""), &[problem]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("d/end: cgroups nested too deeply were not read|"), "{text}");
        assert!(text.chars().count() < 300, "{text}");
    }

    /// Make sure that it stays one line with one bar, whatever users call their
    /// things.
    #[test]
    fn hostile() {
        let summary = format!("job \"x|critical=0\n\x1b[2J\u{202e}\" {}", "y".repeat(5000));
        let mut out = Vec::new();
        let counts = Counts { critical: 1, ..Counts::default() };
        write(&mut out, Nagios::Critical, &payload(counts, &summary), &[]).unwrap();
        unknown(&mut out, &summary).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("GPUMAP CRITICAL - an-id: job \"x/critical=0\\n\\x1b[2J"));
        assert!(lines[0].ends_with("…|critical=1;;0 warning=0;0 note=0 ignored=0 gpus=0"));
        assert!(lines[1].starts_with("GPUMAP UNKNOWN - job") && !lines[1].contains('|'));
        assert!(lines.iter().all(|line| line.chars().count() < 800 && !line.contains(sanitize::is_hostile)));
    }
}
