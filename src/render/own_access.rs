//! What the kernel lets gpumap itself open, below answers whose programs could not be read: the
//! answer that somebody in a job or container asks for.

use std::io::{self, Write};

use super::{Style, sanitize, wrap};
use crate::model::Verdicts;
use crate::report::NodeAnswer;

/// Prints what the kernel said, where it was asked.
pub(super) fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let Some(checks) = payload.own_access.as_deref() else { return Ok(()) };
    let of = |verdict: Verdicts| {
        let devices = checks.iter().filter(|check| check.verdict == verdict);
        let names = devices.map(|check| check.device.rsplit('/').next().unwrap_or_default());
        super::names::set(names.map(|name| sanitize::text(name).into_owned()).collect())
    };
    let (allowed, unknown) = (of(Verdicts::Allow), of(Verdicts::Unknown));
    let allowed = if allowed.is_empty() { "no GPU".to_owned() } else { allowed };
    let unknown = if unknown.is_empty() { unknown } else { format!("; not known: {unknown}") };
    let text = format!(
        "The programs in force may not be read here. The kernel was asked instead: gpumap itself, in this \
         place, may open {allowed}{unknown} (as gpumap check --self asks)."
    );
    writeln!(out)?;
    wrap::write(out, "", 0, usize::from(style.width), &text)
}
