//! One cgroup in full: GPUs, then rules, then programs, then processes.

use std::io::{self, Write};

use super::table::{self, Last};
use super::{Style, gpus, programs, rules, sanitize};
use crate::report::{Cgroup, Payload, Process};

/// Processes listed before the table says how many more there are.
const PROCESSES: usize = 10;

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
    let owner = cgroup.owner.as_ref().map(|owner| format!("  ({})", sanitize::text(&owner.kind)));
    let path = sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref());
    writeln!(out, "{path}{}", owner.unwrap_or_default())?;
    gpu_part(out, style, cgroup, payload)?;
    rule_part(out, style, cgroup, payload)?;
    program_part(out, cgroup, payload)?;
    process_part(out, style, &cgroup.processes)
}

fn gpu_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    let inventory = payload.gpus.as_deref().unwrap_or_default();
    match cgroup.gpus.as_slice() {
        [] => writeln!(out, "\nGPUs: none on this node"),
        verdicts => {
            let allowed = verdicts.iter().filter(|gpu| gpu.verdict == "allow").count();
            writeln!(out, "\nGPUs: {allowed} of {} allowed", verdicts.len())?;
            gpus::write(out, style, verdicts, inventory)
        }
    }
}

fn rule_part(out: &mut dyn Write, style: Style, cgroup: &Cgroup, payload: &Payload) -> io::Result<()> {
    match payload.policies.as_ref().and_then(|policies| policies.get(&cgroup.policy)) {
        Some(policy) => {
            writeln!(out, "\nRules")?;
            rules::write(out, style, policy)
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

/// Whether nothing stands in the way of any device. Without a program that is
/// so unless the v1 controller has a say.
fn allows_everything(cgroup: &Cgroup, payload: &Payload) -> bool {
    let policy = payload.policies.as_ref().and_then(|policies| policies.get(&cgroup.policy));
    policy.is_some_and(|policy| policy.default == "allow" && policy.exact && policy.rules.is_empty())
}

fn process_part(out: &mut dyn Write, style: Style, processes: &[Process]) -> io::Result<()> {
    if processes.is_empty() {
        return writeln!(out, "\nProcesses: none");
    }
    writeln!(out, "\nProcesses: {}", processes.len())?;
    let rows = processes.iter().take(PROCESSES).map(|process| {
        let comm = sanitize::with_hex(&process.comm, process.comm_hex.as_deref());
        vec![process.pid.to_string(), process.uid.to_string(), comm.into_owned()]
    });
    table::write(out, style, &["PID", "UID", "COMMAND"], &["PID", "UID"], rows.collect(), Last::Wraps)?;
    match processes.len().saturating_sub(PROCESSES) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more (--json lists all)"),
    }
}
