//! What should be allowed, and who says so.

use crate::analyse::{self, ProgramInForce, Stack};
use crate::model::{CgroupPath, IntentionSource, Rule, Time, Writer};
use crate::observation::{Observation, Text};
use crate::policy::{Decoder, Policy};
use crate::report::Intention;
use crate::unit;

/// A saved observation of the same cgroup.
#[derive(Clone, Debug)]
pub struct Like {
    /// The observation.
    pub observation: Observation,
    /// What the caller calls it.
    pub name: String,
}

/// What should be allowed.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) policy: Policy,
    pub(super) intention: Intention,
}

/// The programs in force in a unit by whose they are.
#[derive(Debug)]
pub(super) struct InUnit<'a> {
    /// The unit's cgroup.
    pub(super) path: Text,
    /// systemd's, attached to the unit itself.
    pub(super) systemd: Vec<&'a ProgramInForce>,
    /// What others attached to the unit or below it.
    pub(super) others: Vec<&'a ProgramInForce>,
}

/// The path of the unit that a cgroup is or is in; the outermost one that is no
/// slice.
pub fn unit_of(path: &Text) -> Option<Text> {
    let mut tops = CgroupPath::new(path).downwards().map(CgroupPath::as_bytes);
    let is_unit = |top: &&[u8]| unit::of_cgroup(top).is_some_and(|name| !name.ends_with(".slice"));
    tops.find(is_unit).map(Text::from)
}

/// The programs of the unit that a cgroup is in.
pub(super) fn in_unit<'a>(path: &Text, stack: &'a Stack) -> Option<InUnit<'a>> {
    let unit = unit_of(path)?;
    let top = unit.lossy().into_owned();
    let below = format!("{top}/");
    // A program of gpumap says what somebody wanted once, and nothing of what should be.
    let at = |program: &&ProgramInForce| {
        program.writer != Some(Writer::Gpumap)
            && (program.place.attached_at == top || program.place.attached_at.starts_with(&below))
    };
    let (systemd, others) = stack.programs.iter().filter(at).partition(|program| is_systemd(program, &top));
    Some(InUnit { path: unit, systemd, others })
}

fn is_systemd(program: &ProgramInForce, unit: &str) -> bool {
    program.writer == Some(Writer::Systemd) && program.place.attached_at == unit
}

/// What the programs of a container's runtime allow, which systemd's, loaded
/// later, narrows; `None` if no such program is in force.
///
/// # Errors
///
/// Why nothing can be said, a sentence: systemd's program is the older limit, and no
/// other source may widen that.
pub(super) fn surviving(path: &Text, stack: &Stack, decoder: &mut Decoder) -> Result<Option<Target>, String> {
    let Some(unit) = in_unit(path, stack).filter(|unit| !unit.others.is_empty()) else { return Ok(None) };
    let newest = unit.others.iter().map(|program| age(program)).max();
    if let Some(first) = unit.systemd.iter().find(|program| Some(age(program)) < newest) {
        return Err(format!(
            "systemd's program {} was loaded before those of others in {}: what it denies was never granted \
             there; name a source with --like or --allow",
            first.place.id,
            unit.path.lossy()
        ));
    }
    let policies: Vec<Policy> = unit.others.iter().map(|program| program.policy).collect();
    let policy = decoder.all_of(&policies);
    refuse_older_limit(&unit, policy, decoder)?;
    let ids: Vec<String> = unit.others.iter().map(|program| title(program)).collect();
    let beside = if unit.systemd.is_empty() { "" } else { " beside systemd's" };
    let what = format!("{}, in force{beside}", ids.join(" and "));
    let as_of = newest.map(|(time, _)| time.clone()).filter(Time::is_known);
    let intention = Intention { source: IntentionSource::SurvivingProgram, what, as_of };
    Ok(Some(Target { policy, intention }))
}

/// Refuses to take a unit's own limit for a loss: systemd makes its program anew at
/// each reload, so that it is younger than those of others although the limit is
/// older. A runtime that was granted more put its program in the place of systemd's,
/// in the scope that it asked systemd for; programs below a service say nothing.
fn refuse_older_limit(unit: &InUnit<'_>, policy: Policy, decoder: &mut Decoder) -> Result<(), String> {
    let path = unit.path.lossy();
    let took_its_place = unit.others.iter().any(|program| program.place.attached_at == path);
    if path.ends_with(".scope") && took_its_place {
        return Ok(());
    }
    let limits: Vec<Policy> = unit.systemd.iter().map(|program| program.policy).collect();
    let limit = decoder.all_of(&limits);
    let missing = decoder.missing(limit, policy);
    if decoder.allows_nothing(missing) {
        return Ok(());
    }
    Err(format!(
        "systemd's program limits {path} to less than others allow in it, and nothing says that more was \
         ever granted there; name a source with --like or --allow"
    ))
}

/// Load time, then id: the time is in seconds, and ids grow until they wrap.
fn age(program: &ProgramInForce) -> (&Time, u32) {
    (&program.loaded_at, program.place.id)
}

fn title(program: &ProgramInForce) -> String {
    match &program.writer {
        Some(writer) => format!("program {} ({writer})", program.place.id),
        None => format!("program {}", program.place.id),
    }
}

/// What a saved observation of the same cgroup allowed.
///
/// # Errors
///
/// Why it says nothing of this cgroup.
pub(super) fn saved(
    now: &Observation,
    path: &Text,
    like: &Like,
    decoder: &mut Decoder,
) -> Result<Target, String> {
    let name = &like.name;
    let then = &like.observation;
    if then.host.boot_id != now.host.boot_id || now.host.boot_id.is_empty() {
        return Err(format!(
            "{name} was saved under another boot: device numbers may mean other devices now"
        ));
    }
    let id = |observation: &Observation| {
        observation.cgroups.iter().find(|cgroup| cgroup.path == *path).map(|cgroup| cgroup.id)
    };
    let (Some(id_then), Some(id_now)) = (id(then), id(now)) else {
        return Err(format!("{name} does not hold {}", path.lossy()));
    };
    if id_then != id_now {
        return Err(format!(
            "{name} holds another cgroup of this path: its id was {id_then} and is {id_now}"
        ));
    }
    let stack = analyse::stack(then, path, decoder).map_err(|error| format!("{name}: {error}"))?;
    let what = format!("{name}, saved of the same cgroup");
    let as_of = Some(then.taken_at.clone());
    Ok(Target {
        policy: stack.together,
        intention: Intention { source: IntentionSource::SavedObservation, what, as_of },
    })
}

/// What is in force, and these requests.
pub(super) fn asked(stack: &Stack, rules: &[Rule], decoder: &mut Decoder) -> Target {
    let named = decoder.naming(rules);
    let devices: Vec<String> = rules.iter().map(ToString::to_string).collect();
    let what = format!("--allow {}", devices.join(", "));
    Target {
        policy: decoder.widened(stack.whole, named),
        intention: Intention { source: IntentionSource::Asked, what, as_of: None },
    }
}

/// What is in force.
pub(super) fn in_force(stack: &Stack, now: &Observation) -> Target {
    let what = "the programs in force now".to_owned();
    let as_of = Some(now.taken_at.clone());
    Target { policy: stack.together, intention: Intention { source: IntentionSource::InForce, what, as_of } }
}
