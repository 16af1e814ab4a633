//! Which cgroups count for which owner of a list.

use std::collections::HashMap;

use crate::model::{CgroupPath, Owner};
use crate::observation::{self, Observation};
use crate::report::{Cgroup, OwnerSets};

use super::super::joined_node::in_scope;
use super::super::levels;

/// The cgroups of each owner, and the owners of each cgroup, by place in their lists.
#[derive(Debug)]
pub(super) struct Places {
    /// By owner: cgroups that count for what it may do, in walk order.
    cgroups: Vec<Vec<usize>>,
    /// By cgroup: its owners, the outermost first.
    owners: Vec<Vec<usize>>,
}

impl Places {
    /// Looks up the owners of `cgroups`, which are those of the observation's scope.
    pub(super) fn new(owners: &[OwnerSets], cgroups: &[Cgroup], observation: &Observation) -> Self {
        let rows = by_levels(owners);
        let observed = in_scope(observation).unwrap_or_default();
        let observed: HashMap<u64, &observation::Cgroup> =
            observed.into_iter().map(|cgroup| (cgroup.id, cgroup)).collect();
        let mut places =
            Self { cgroups: vec![Vec::new(); owners.len()], owners: vec![Vec::new(); cgroups.len()] };
        for (place, cgroup) in cgroups.iter().enumerate() {
            let Some(seen) = observed.get(&cgroup.id) else { continue };
            let chain = levels::of(cgroup.owner.as_ref(), &seen.path.lossy());
            let found = (1..=chain.len()).filter_map(|end| rows.get(chain.get(..end)?).copied());
            let found: Vec<usize> = found.collect();
            if !levels::is_service(cgroup.owner.as_ref()) {
                for owner in &found {
                    if let Some(list) = places.cgroups.get_mut(*owner) {
                        list.push(place);
                    }
                }
            }
            if let Some(list) = places.owners.get_mut(place) {
                *list = found;
            }
        }
        places.only_deciding(cgroups);
        places
    }

    /// Of an owner's cgroups those with processes decide what it may do; without any,
    /// those that hold no other of its cgroups.
    fn only_deciding(&mut self, cgroups: &[Cgroup]) {
        let is_occupied =
            |place: &usize| cgroups.get(*place).is_some_and(|cgroup| !cgroup.processes.is_empty());
        for list in &mut self.cgroups {
            if list.iter().any(is_occupied) {
                list.retain(is_occupied);
                continue;
            }
            let path = |place: &usize| cgroups.get(*place).map_or("", |cgroup| cgroup.path.as_str());
            let is_leaf = |pair: &[usize]| match pair {
                [place, next] => !CgroupPath::new(path(next)).is_below(CgroupPath::new(path(place))),
                _ => true,
            };
            // In walk order the cgroups below follow directly.
            let leaves =
                (0..list.len()).filter(|at| is_leaf(list.get(*at..list.len().min(at + 2)).unwrap_or(&[])));
            *list = leaves.filter_map(|at| list.get(at).copied()).collect();
        }
    }

    /// The cgroups that decide for an owner.
    pub(super) fn of_owner(&self, owner: usize) -> &[usize] {
        self.cgroups.get(owner).map_or(&[], Vec::as_slice)
    }

    /// The owners of a cgroup, the outermost first.
    pub(super) fn owners_of(&self, cgroup: usize) -> &[usize] {
        self.owners.get(cgroup).map_or(&[], Vec::as_slice)
    }

    /// All cgroups: those that decide for these owners first, then the others in walk
    /// order.
    pub(super) fn cgroups_of(&self, owners: &[usize]) -> Vec<usize> {
        let mut is_listed = vec![false; self.owners.len()];
        let deciding = owners.iter().flat_map(|owner| self.of_owner(*owner)).copied();
        let mut order = Vec::with_capacity(is_listed.len());
        for place in deciding.chain(0..self.owners.len()) {
            if let Some(seen) = is_listed.get_mut(place).filter(|seen| !**seen) {
                *seen = true;
                order.push(place);
            }
        }
        order
    }
}

/// The rows by the owners from the outermost in: one owner may be inside several others.
fn by_levels(rows: &[OwnerSets]) -> HashMap<Vec<Owner>, usize> {
    let mut chain: Vec<Owner> = Vec::new();
    let mut index = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        chain.truncate(row.depth);
        chain.push(row.owner.clone());
        index.insert(chain.clone(), place);
    }
    index
}
