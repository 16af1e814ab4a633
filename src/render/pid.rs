//! The answer of `gpumap pid`: a process in full, then what its cgroup may open.

use std::io::{self, Write};

use super::table::{Last, Table};
use super::{Style, activity, cgroup, gpus, job, node, own_access, owner, process, sanitize, vgpu, wrap};
use crate::model::{Certainty, CgroupPath, GpuKey, JobIdSource, OwnerRank, ValueState};
use crate::report::{ActiveProcess, Api, Asked, Cgroup, Claim, Gpu, NodeAnswer, OwnerSets, Process, Visible};

/// Characters of a variable's value.
const VALUE: usize = 40;

/// Prints each process of the answer, separated by an empty line.
pub fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let mut first = true;
    for cgroup in payload.cgroups.iter() {
        for process in &cgroup.processes {
            if !std::mem::take(&mut first) {
                writeln!(out)?;
            }
            one(out, style, process, cgroup, payload)?;
        }
        if !cgroup.processes.is_empty() {
            writeln!(out)?;
            cgroup::rights(out, style, cgroup, payload)?;
        }
    }
    match first {
        true => writeln!(out, "None of the processes is there any more."),
        false => own_access::write(out, style, payload),
    }
}

fn one(
    out: &mut dyn Write,
    style: Style,
    it: &Process,
    cgroup: &Cgroup,
    payload: &NodeAnswer,
) -> io::Result<()> {
    let inventory = &payload.gpus;
    writeln!(out, "process {}  {}", it.pid, process::command(it))?;
    identity(out, it)?;
    match &cgroup.owner {
        Some(owner) => writeln!(out, "  owner    {}", owner::full(owner))?,
        None => writeln!(out, "  owner    not recognised")?,
    }
    let outer = cgroup.owner.as_ref().and_then(|owner| owner.outer.as_deref());
    outer.map_or(Ok(()), |outer| writeln!(out, "  in       {}", owner::full(outer)))?;
    let source = cgroup.owner.as_ref().and_then(|owner| owner.job_id_source.as_ref());
    if let Some(source) = source.filter(|source| **source != JobIdSource::Path) {
        writeln!(out, "  number   from {}", job::source_name(source))?;
    }
    writeln!(out, "  cgroup   {}", sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref()))?;
    it.claim.as_ref().map_or(Ok(()), |claim| writeln!(out, "  claims   {}", self::claim(claim)))?;
    if let Some(nothing) = nothing_of(it) {
        return writeln!(out, "\n{nothing}");
    }
    // What the scheduler's own daemon may open says nothing about the job.
    if cgroup.owner.as_ref().is_some_and(|owner| owner.part.is_none()) {
        sets(out, style, it, payload)?;
    }
    if let Some(visible) = &it.visible {
        variables(out, style, visible)?;
        results(out, style, visible, inventory)?;
    }
    held(out, style, it, inventory)?;
    vgpu::section(out, style, &[it], inventory)?;
    let Some(activity) = payload.activity.as_deref().filter(|_| it.used.is_some()) else { return Ok(()) };
    let is_it = |other: &ActiveProcess| (other.pid, other.start_time) == (it.pid, it.start_time);
    activity::section(out, style, activity, is_it, inventory)
}

/// The line that replaces all others if a process cannot hold anything. A process
/// that an older gpumap saw with devices open keeps its list of them.
fn nothing_of(it: &Process) -> Option<&'static str> {
    let holds = it.held_unknown.is_some()
        || !it.held_shared.is_empty()
        || it.held.as_ref().is_none_or(|held| !held.is_empty());
    match (holds, it.kernel_thread, it.has_ended()) {
        (false, true, _) => Some(
            "A kernel thread has no program, no environment and no descriptors of its own: it asks for no GPU \
             and holds none.",
        ),
        (false, false, true) => {
            Some("It has ended (a zombie has no memory, no environment and no descriptors): it holds no GPU.")
        }
        _ => None,
    }
}

/// Its user, its state and its age.
fn identity(out: &mut dyn Write, it: &Process) -> io::Result<()> {
    match &it.user {
        Some(_) => writeln!(out, "  user     {} (uid {})", process::user(it, VALUE), it.uid)?,
        None => writeln!(out, "  user     uid {}", it.uid)?,
    }
    it.state.as_ref().map_or(Ok(()), |state| {
        writeln!(out, "  state    {}, {}", state.letter(), process::meaning(state))
    })?;
    let age = it.age_seconds.map(|seconds| format!(", {} old", process::age(seconds))).unwrap_or_default();
    match &it.started_at {
        Some(at) => writeln!(out, "  started  {}{age}", sanitize::text(at.as_str())),
        None => writeln!(out, "  started  not known: the observation does not tell when the node was booted"),
    }
}

/// The four sets, a line each, for a process of a job.
fn sets(out: &mut dyn Write, style: Style, it: &Process, payload: &NodeAnswer) -> io::Result<()> {
    let Some((top, own)) = owners(it, payload) else { return Ok(()) };
    let inventory = &payload.gpus;
    let asks = it.visible.as_ref().map_or_else(|| "?".to_owned(), |it| process::result(&it.live, inventory));
    let sets = [
        ("allocated", node::cell(&top.allocated, &[], inventory)),
        ("allowed", node::cell(&own.allowed, &[], inventory)),
        ("asks for", asks),
        ("holds", process::held(it, inventory)),
    ];
    let used = it.used.as_ref().map(|used| ("uses", node::cell(used, &[], inventory)));
    writeln!(out)?;
    sets.into_iter().chain(used).try_for_each(|(name, gpus)| writeln!(out, "  {name:<9}  {gpus}"))?;
    node::allocation_marks(out, style, &top.allocated)
}

/// The rows of a process's job and of its innermost owner.
fn owners<'a>(it: &Process, payload: &'a NodeAnswer) -> Option<(&'a OwnerSets, &'a OwnerSets)> {
    let all = payload.owners.as_deref().unwrap_or_default();
    let cgroup = CgroupPath::new(&it.cgroup);
    let is_around = |row: &&OwnerSets| cgroup.is_at_or_below(CgroupPath::new(&row.cgroup));
    let around = || all.iter().filter(is_around);
    let top = around().find(|row| row.owner.rank() == OwnerRank::Job)?;
    Some((top, around().max_by_key(|row| (row.cgroup.len(), row.depth))?))
}

/// The job in its environment, compared with that of its cgroup.
fn claim(claim: &Claim) -> String {
    let job = claim.job_id.map(|id| format!("job {id}"));
    let job = job
        .or_else(|| claim.sluid.as_deref().map(|sluid| format!("job {}", sanitize::short(sluid, 16, "…"))));
    let step = claim.step.as_deref().map(|step| format!(", step {}", sanitize::short(step, 16, "…")));
    let verdict = match (claim.agrees, claim.outside) {
        (_, true) => "; but it is in no job's cgroup",
        (Some(true), _) => "; so does its cgroup",
        (Some(false), _) => "; its cgroup is another job's",
        (None, _) => "",
    };
    let why = claim.why.as_deref().map(|why| format!(" ({})", sanitize::short(why, 200, "…")));
    let job = job.unwrap_or_else(|| "no job".to_owned());
    format!("{job}{}{verdict}{}", step.unwrap_or_default(), why.unwrap_or_default())
}

/// Every variable about GPUs, at exec and now.
fn variables(out: &mut dyn Write, style: Style, visible: &Visible) -> io::Result<()> {
    let all = visible.at_exec.variables.iter().chain(&visible.live.variables);
    let all = all.filter(|variable| style.all || !variable.idle);
    let mut names: Vec<&str> = all.map(|variable| variable.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return writeln!(out, "\nEnvironment: {}", nothing(visible));
    }
    writeln!(out, "\nEnvironment")?;
    Table::of(&names)
        .text("VARIABLE", |name| sanitize::short(name, VALUE, "…"))
        .text("AT EXEC", |name| variable(&visible.at_exec, name))
        .text("NOW", |name| variable(&visible.live, name))
        .write(out, style, Last::Wraps)?;
    match visible.changed {
        Some(true) => writeln!(out, "  It now asks for something other than at exec."),
        _ => Ok(()),
    }
}

fn nothing(visible: &Visible) -> &'static str {
    match (visible.at_exec.state, visible.live.state) {
        (ValueState::Unknown, ValueState::Unknown) => "could not be read",
        (_, ValueState::Unknown) => {
            "no variable about GPUs was set at exec; what is set now could not be read"
        }
        (ValueState::Unknown, _) => {
            "no variable about GPUs is set now; what was set at exec could not be read"
        }
        _ => "no variable about GPUs is set",
    }
}

fn variable(asked: &Asked, name: &str) -> String {
    match asked.variables.iter().find(|variable| variable.name == name) {
        Some(it) => process::quoted(sanitize::short_with_hex(&it.value, it.value_hex.as_deref(), VALUE)),
        None if asked.state == ValueState::Unknown => "?".to_owned(),
        None => "unset".to_owned(),
    }
}

/// The result of each interface.
fn results(out: &mut dyn Write, style: Style, visible: &Visible, gpus: &[Gpu]) -> io::Result<()> {
    let moments = [
        ("at exec", Some(&visible.at_exec)),
        ("now", Some(&visible.live)),
        ("watched", visible.last_set.as_ref()),
    ];
    let moments: Vec<(&str, &Asked)> =
        moments.into_iter().filter_map(|(name, asked)| asked.map(|asked| (name, asked))).collect();
    writeln!(out, "\nAsks for")?;
    let rows: Vec<_> = moments.iter().flat_map(|(moment, asked)| of_moment(moment, asked)).collect();
    let plain = |text: &str| sanitize::short(text, VALUE, "…");
    Table::of(&rows)
        .text("WHEN", |row| row.moment.to_owned())
        .text("INTERFACE", |row| plain(&row.api))
        .text("BY", |row| plain(row.by))
        .text("GPUS", |row| process::in_order(row.gpus, row.instances, gpus))
        .text("CONFIDENCE", |row| row.confidence.to_string())
        .write(out, style, Last::Wraps)?;
    moments.iter().try_for_each(|(moment, asked)| notes(out, style, moment, asked))
}

/// What an interface answers at a moment.
struct Answered<'a> {
    moment: &'a str,
    api: String,
    by: &'a str,
    gpus: Option<&'a [GpuKey]>,
    instances: &'a [GpuKey],
    confidence: Certainty,
}

fn of_moment<'a>(moment: &'a str, asked: &'a Asked) -> Vec<Answered<'a>> {
    let Asked { gpus, instances, confidence, .. } = asked;
    let dash = "-".to_owned();
    let (gpus, confidence) = (gpus.as_deref(), *confidence);
    if asked.apis.is_empty() {
        return vec![Answered { moment, api: dash, by: "-", gpus, instances, confidence }];
    }
    let of_api = |api: &'a Api| Answered {
        moment,
        api: api.api.to_string(),
        by: &api.variable,
        gpus: api.gpus.as_deref(),
        instances: &api.instances,
        confidence: api.confidence,
    };
    asked.apis.iter().map(of_api).collect()
}

fn notes(out: &mut dyn Write, style: Style, moment: &str, asked: &Asked) -> io::Result<()> {
    let of_apis = asked.apis.iter().map(|api| (api.cut.as_ref(), api.why.as_deref()));
    let mut notes: Vec<String> = Vec::new();
    for (cut, why) in std::iter::once((asked.cut.as_ref(), asked.why.as_deref())).chain(of_apis) {
        notes.extend(cut.map(|cut| format!("{moment}: {}", process::cut(cut))));
        notes.extend(why.map(|why| process::reason(moment, asked, why)));
    }
    notes.extend(process::unread(moment, asked));
    notes.dedup();
    notes.iter().try_for_each(|note| wrap::note(out, style, note))
}

fn held(out: &mut dyn Write, style: Style, it: &Process, inventory: &[Gpu]) -> io::Result<()> {
    let shared: Vec<_> =
        it.held_shared.iter().map(|name| sanitize::short(&name.to_string(), VALUE, "…")).collect();
    let shared =
        if shared.is_empty() { String::new() } else { format!("; of all GPUs: {}", shared.join(", ")) };
    match &it.held_unknown {
        Some(why) if it.held.as_ref().is_none_or(Vec::is_empty) => {
            writeln!(out)?;
            let why = format!("not known, because {}", sanitize::short(why, 300, "…"));
            wrap::write(out, "Holds: ", 2, usize::from(style.width), &why)
        }
        unknown => {
            let names = match process::held(it, inventory).as_str() {
                "-" => "no GPU".to_owned(),
                "?" => "not looked at".to_owned(),
                names => names.to_owned(),
            };
            writeln!(out, "\nHolds: {names}{shared}")?;
            if let Some(why) = unknown {
                let why = format!("there may be more, because {}", sanitize::short(why, 300, "…"));
                wrap::write(out, "  ", 4, usize::from(style.width), &why)?;
            }
            gpus::denied_legend(out, !it.held_denied.is_empty())
        }
    }
}
