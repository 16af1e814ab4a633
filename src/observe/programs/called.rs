//! Programs that others go on in (tail calls): they are in maps, and in force wherever a
//! program is that has such a map.

use std::collections::BTreeSet;

use super::cache::{ProgramCache, info, missing, why};
use super::maps;
use crate::observation::{Map, Program};
use crate::observe::problems::Log;
use crate::sys::bpf::CGROUP_DEVICE_PROGRAM;

/// The most programs of one map that are read: more than the kernel goes on in, one
/// after the other.
const MOST: usize = 64;

impl ProgramCache {
    /// Reads what programs reach through maps and is not known yet: the maps inside maps,
    /// the programs inside, and the maps of these.
    pub(in crate::observe) fn add_inner(&mut self, log: &mut Log) {
        loop {
            self.read_called(log);
            let inner: BTreeSet<u32> = self.maps.values().flat_map(Map::inner_ids).collect();
            let new: Vec<u32> = inner.into_iter().filter(|id| !self.maps.contains_key(id)).collect();
            if new.is_empty() {
                return;
            }
            self.maps.extend(new.into_iter().map(|id| (id, maps::read(id, log))));
        }
    }

    /// The programs inside maps whose calls have no names yet.
    pub(in crate::observe) fn unnamed_called(&mut self) -> impl Iterator<Item = &mut Program> {
        let called = self.maps.values_mut().flat_map(|map| &mut map.programs);
        called.filter(|program| program.calls.is_empty())
    }

    /// Reads the programs inside maps of which none was read yet.
    fn read_called(&mut self, log: &mut Log) {
        let is_unread = |map: &&Map| map.programs.is_empty() && !map.program_ids().is_empty();
        let unread = self.maps.values().filter(is_unread).map(|map| (map.id, map.program_ids()));
        for (map, programs) in unread.collect::<Vec<_>>() {
            let programs = programs.into_iter().take(MOST).map(|id| self.called(id, log)).collect();
            self.maps.entry(map).and_modify(|map| map.programs = programs);
        }
    }

    fn called(&mut self, id: u32, log: &mut Log) -> Program {
        if log.out_of_time("reading programs") {
            return missing(id, "the time limit was reached");
        }
        match info(id) {
            Ok(info) if info.kind != CGROUP_DEVICE_PROGRAM => {
                missing(id, &format!("it is of type {}, no device program", info.kind))
            }
            Ok(info) => self.describe(info, log),
            Err(error) => missing(id, &why(id, error, log)),
        }
    }
}
