//! Finds GPU access that systemd takes away at a daemon-reload. systemd makes its
//! programs from unit files, which do not contain what a container runtime granted.

mod lost;
mod needed;
mod pages;
mod reload;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

pub(super) const FAMILY: Family = Family { kinds: &[pages::LOST, pages::RELOAD], find };

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let needed = needed::needed(facts);
    let mut found = lost::find(facts, &needed);
    found.extend(reload::find(facts, &needed));
    found
}

#[cfg(test)]
mod tests;
