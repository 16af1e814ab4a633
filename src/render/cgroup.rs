//! The answer of `gpumap cgroup`: GPUs, rules, programs and processes of a cgroup.

use std::io::{self, Write};

use super::{Style, gpus, owner, process, programs, rules, sanitize};
use crate::report::{Cgroup, Payload, Policy, Process};

/// Prints each cgroup of the answer, separated by an empty line.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    for (index, cgroup) in payload.cgroups.iter().flatten().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one(out, style, cgroup, payload)?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    writeln!(out, "{}", sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref()))?;
    if let Some(owner) = &cgroup.owner {
        let outer = owner.outer.as_deref().map(|outer| format!("; in {}", owner::full(outer)));
        writeln!(out, "  {}{}", owner::full(owner), outer.unwrap_or_default())?;
    }
    writeln!(out)?;
    rights(out, style, cgroup, payload)?;
    let processes: Vec<&Process> = cgroup.processes.iter().collect();
    let unseen = cgroup.unseen.as_ref();
    process::write(out, style, &processes, unseen, payload.gpus.as_deref().unwrap_or_default(), None)
}

/// Prints what may be opened from a cgroup, and what says so.
pub(super) fn rights(
    out: &mut dyn Write,
    style: Style,
    cgroup: &Cgroup,
    payload: &Payload,
) -> io::Result<()> {
    gpu_part(out, style, cgroup, payload)?;
    rule_part(out, style, cgroup, payload)?;
    program_part(out, cgroup, payload)
}

fn gpu_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    let inventory = payload.gpus.as_deref().unwrap_or_default();
    match cgroup.gpus.as_slice() {
        [] => writeln!(out, "GPUs: none on this node"),
        verdicts => {
            writeln!(out, "GPUs: {}", gpus::tally(verdicts))?;
            gpus::write(out, style, verdicts, inventory)
        }
    }
}

fn rule_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    match payload.policies.as_ref().and_then(|policies| policies.get(&cgroup.policy)) {
        Some(policy) => {
            writeln!(out, "\nRules")?;
            rules::write(out, style, policy, payload.gpus.as_deref().unwrap_or_default())
        }
        None => writeln!(out, "\nRules: not decoded"),
    }
}

fn program_part(out: &mut dyn Write, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    match (cgroup.programs.as_slice(), &payload.programs) {
        ([], _) if cgroup.programs_unknown.is_some() => writeln!(out, "\nPrograms: could not be asked"),
        ([], _) if allows_everything(cgroup, payload) => {
            writeln!(out, "\nPrograms: none, so the kernel allows every device")
        }
        ([], _) => writeln!(out, "\nPrograms: none"),
        (effective, known) => {
            writeln!(out, "\nPrograms in run order")?;
            programs::write(out, effective, known.as_ref().unwrap_or(&Default::default()))
        }
    }
}

/// Whether every device may be opened: there is no program, and the v1 controller
/// does not restrict either.
fn allows_everything(cgroup: &Cgroup, payload: &Payload) -> bool {
    let policy = payload.policies.as_ref().and_then(|policies| policies.get(&cgroup.policy));
    policy.is_some_and(Policy::allows_everything)
}
