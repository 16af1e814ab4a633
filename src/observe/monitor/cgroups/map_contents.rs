//! Reads maps again that can change. A program decides by what its maps hold, and
//! the kernel notifies nobody when they change.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::state::{Differences, MonitoredCgroups};
use crate::observation::{Program, Text};
use crate::observe::problems::Log;
use crate::observe::programs::{maps, symbols};

/// The longest time that one check reads maps; the next check reads the others.
const TIME: Duration = Duration::from_millis(20);

impl MonitoredCgroups {
    /// Reads maps again, the longest unread first, and finds the cgroups whose
    /// programs in force use a changed map.
    pub(super) fn reread_maps(&mut self, found: &mut Differences, log: &mut Log) {
        let start = Instant::now();
        let mut changed = BTreeSet::new();
        for id in self.maps_in_turn() {
            self.map_turn = id;
            if self.reread(id, found, log) {
                changed.insert(id);
            }
            if start.elapsed() > TIME {
                break;
            }
        }
        if !changed.is_empty() {
            found.touched.extend(self.users(&changed));
        }
    }

    fn maps_in_turn(&self) -> Vec<u32> {
        let later = self.cache.maps.range((Bound::Excluded(self.map_turn), Bound::Unbounded));
        let earlier = self.cache.maps.range(..=self.map_turn);
        let open = later.chain(earlier).filter(|(_, map)| !map.frozen);
        open.map(|(id, _)| *id).collect()
    }

    /// Whether the contents of the map changed since it was last read. A map that
    /// cannot be read at this moment counts as unchanged.
    fn reread(&mut self, id: u32, found: &mut Differences, log: &mut Log) -> bool {
        let new = maps::read(id, log);
        let Some(known) = self.cache.maps.get_mut(&id) else { return false };
        if known.entries == new.entries || new.entries.known().is_none() {
            return false;
        }
        let old = std::mem::replace(known, new);
        self.cache.add_inner(log);
        symbols::resolve(&self.options.proc, self.cache.unnamed_called(), log);
        found.old_maps.entry(id).or_insert(old);
        true
    }

    /// The cgroups on which programs are in force that use one of these maps.
    pub(super) fn users(&self, maps: &BTreeSet<u32>) -> Vec<Text> {
        let uses = |program: &&Program| !self.cache.used(std::iter::once(*program)).is_disjoint(maps);
        let programs = self.cache.programs.values().filter(uses);
        self.running(&programs.map(|program| program.id).collect())
    }

    /// The cgroups on which one of these programs is in force.
    pub(super) fn running(&self, programs: &BTreeSet<u32>) -> Vec<Text> {
        let is_used = |ids: &Vec<u32>| ids.iter().any(|id| programs.contains(id));
        let on = self.nodes.iter().filter(|(_, node)| node.requested);
        let on = on.filter(|(_, node)| node.cgroup.effective.known().is_some_and(is_used));
        on.map(|(path, _)| path.clone()).collect()
    }
}
