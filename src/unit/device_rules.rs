//! Builds the rules that systemd makes from a unit's settings (`src/core/cgroup.c`
//! of systemd).

use super::device_names::DeviceNames;
use super::filter::{Filter, FilterRule};
use super::settings::{Policy, Settings};
use crate::model::DeviceType;
use crate::observation::{GpuFacts, Unit};

/// The device rules that systemd makes from the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRules {
    /// No program: the unit restricts nothing.
    Open,
    /// A program with these rules.
    Filter(Filter),
}

/// Rules of one unit: the kernel takes no program with more instructions
/// (`BPF_COMPLEXITY_LIMIT_INSNS`), and systemd writes several for a rule.
const RULE_LIMIT: usize = 100_000;

/// What `closed` always allows: null, zero, full, random, urandom, tty, ptmx.
const STATIC: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];

/// The rules that systemd would make of a unit's settings now.
pub fn device_rules(unit: &Unit, gpu_facts: &GpuFacts) -> DeviceRules {
    let settings = Settings::of(unit);
    let is_open = settings.policy == Policy::Auto && settings.allow.is_empty();
    if is_open && settings.doubts.is_empty() {
        return DeviceRules::Open;
    }
    let mut filter = Filter { doubts: settings.doubts.clone(), ..Filter::default() };
    if settings.policy != Policy::Strict {
        add_static(&mut filter);
    }
    let names = DeviceNames { unit, gpu_facts };
    for allow in &settings.allow {
        names.add(allow, &mut filter);
        if filter.rules.len() > RULE_LIMIT {
            filter.doubts.push(format!("its settings stand for more than {RULE_LIMIT} rules"));
            break;
        }
    }
    DeviceRules::Filter(filter)
}

/// The names in `DeviceAllow=` of a unit that stand for no device of this node.
pub fn names_of_nothing(unit: &Unit, gpu_facts: &GpuFacts) -> Vec<String> {
    let names = DeviceNames { unit, gpu_facts };
    let allowed = Settings::of(unit).allow;
    let of_nothing =
        allowed.into_iter().filter(|allow| names.devices(allow).is_some_and(|found| found.is_empty()));
    of_nothing.map(|allow| allow.device).collect()
}

/// Adds what `closed` always allows.
fn add_static(filter: &mut Filter) {
    let rule = |(major, minor)| FilterRule::char(Some(major), Some(minor), 7);
    filter.rules.extend(STATIC.map(rule));
    filter.rules.push(FilterRule::char(Some(136), None, 6));
    // `/run/systemd/inaccessible/{chr,blk}`.
    let hidden = FilterRule::char(Some(0), Some(0), 7);
    filter.rules.extend([hidden, FilterRule { kind: DeviceType::Block, ..hidden }]);
}
