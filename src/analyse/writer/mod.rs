//! Recognises the software that wrote a program: by its whole shape, and only where
//! nobody else writes that shape; by its name, where the shape is not always the same.
//! A name and a shape that do not fit each other have no label. It is for people, and
//! no proof.
//!
//! Others share the shapes of Slurm (without its name), of LXC up to 4.0.2 and of a crun
//! without its default devices: their programs have no label either.

mod known;
mod rules;
#[cfg(test)]
mod tests;

use crate::bytecode::{Insn, Operation};
use crate::model::Writer;
use crate::observation::Text;
use rules::{Access, End, Part, Prologue, Rule, RuleList};

/// The order in which a writer tests the parts of a question.
type Order = [Part; 4];
const ACCESS_FIRST: Order = [Part::Access, Part::Type, Part::Major, Part::Minor];
const TYPE_FIRST: Order = [Part::Type, Part::Access, Part::Major, Part::Minor];

/// The writer, if nobody else writes programs like this one.
pub(super) fn of(insns: &[Insn], name: &Text) -> Option<Writer> {
    let operations = Operation::decode_all(insns);
    let list = RuleList::of(&operations);
    let fits = |fits: fn(&RuleList) -> bool| list.as_ref().is_some_and(fits);
    match name.as_bytes() {
        b"gpumap_repair" => known::is_gpumaps(&operations).then_some(Writer::Gpumap),
        b"Slurm_Cgroup_v2" => fits(is_slurms).then_some(Writer::Slurm),
        b"sd_devices" => (fits(is_systemds) || fits(has_no_rules)).then_some(Writer::Systemd),
        b"craned_device_a" => known::looks_up(&operations).then_some(Writer::Crane),
        b"oarcgdev" => known::looks_up(&operations).then_some(Writer::Oar),
        b"" if known::is_libvirts(&operations) => Some(Writer::Libvirt),
        b"" if known::is_htcondors(&operations) => Some(Writer::Htcondor),
        b"" if rules::begins_with_nvidias(&operations) => Some(Writer::NvidiaToolkit),
        b"" => by_rules(list.as_ref()?),
        _ => None,
    }
}

fn by_rules(list: &RuleList) -> Option<Writer> {
    if is_systemds(list) {
        return Some(Writer::Systemd);
    }
    let is_ordered = |order: Order| list.rules.iter().all(|rule| rule.is_ordered(order));
    let has_types = list.rules.iter().all(|rule| rule.parts.first() == Some(&Part::Type));
    let prologue = list.prologue?;
    match (prologue, list.access(), list.verdict_width()?) {
        (Prologue::Words, Some(Access::Within), 64) if is_ordered(ACCESS_FIRST) => {
            list.rules.iter().any(Rule::tests_access_then_type).then_some(Writer::Lxc)
        }
        _ if !is_ordered(TYPE_FIRST) || !has_types => None,
        (Prologue::Words, Some(Access::Within) | None, 32) => Some(Writer::Runc),
        (Prologue::Words, Some(Access::Overlap), 32) => Some(Writer::OldRunc),
        (Prologue::HalfWord, Some(Access::Overlap) | None, 32) => Some(Writer::Containerd),
        (Prologue::Words, Some(Access::Within), 64) => known::has_cruns_rules(list).then_some(Writer::Crun),
        (_, Some(Access::Overlap), 64) => Some(Writer::OldCrun),
        _ => None,
    }
}

/// Slurm's program tests no access and allows by default.
fn is_slurms(list: &RuleList) -> bool {
    list.prologue == Some(Prologue::Words)
        && !list.rules.is_empty()
        && list.access().is_none()
        && list.verdict_width() == Some(64)
        && matches!(list.end, End::Returns(verdict) if verdict.allows)
        && list.rules.iter().all(|rule| rule.is_ordered(TYPE_FIRST))
}

/// systemd's program has one exit, to which its rules jump.
fn is_systemds(list: &RuleList) -> bool {
    list.prologue == Some(Prologue::Words)
        && list.end == End::Shared
        && matches!(list.access(), Some(Access::Within) | None)
        && list.rules.iter().all(|rule| rule.verdict.is_none() && rule.is_ordered(ACCESS_FIRST))
}

/// What systemd writes where it allows nothing.
fn has_no_rules(list: &RuleList) -> bool {
    list.rules.is_empty() && matches!(list.end, End::Returns(verdict) if !verdict.allows)
}
