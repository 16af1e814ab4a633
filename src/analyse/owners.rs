//! Builds the tree of owners: each with its cgroups, its processes and its four sets.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::gpu_verdicts::GpuVerdicts;
use super::joined_node::JoinedNode;
use super::{allocated, levels, processes, sets};
use crate::allocation::Numbering;
use crate::model::{CgroupPath, Owner, OwnerKind};
use crate::observation::{self, Text, UnseenProcesses};
use crate::report::{OwnerSets, Process, USERS_NAMED};

/// One owner while the cgroups are gathered.
#[derive(Debug, Default)]
struct Entry {
    owner: Owner,
    depth: usize,
    top: Text,
    cgroups: Vec<OwnedCgroup>,
    /// Processes of it that cannot be seen.
    unseen: Option<UnseenProcesses>,
    children: Vec<usize>,
}

/// One of an owner's cgroups that counts for what it may do.
#[derive(Debug)]
struct OwnedCgroup {
    path: Text,
    /// The GPUs that can be opened from here; several views where the v1 controller
    /// treats processes differently.
    views: Vec<Rc<GpuVerdicts>>,
    /// Indices of processes.
    inside: std::ops::Range<usize>,
}

/// Gathers cgroups in walk order.
#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    entries: Vec<Entry>,
    roots: Vec<usize>,
    index: HashMap<Vec<Owner>, usize>,
    /// The last cgroup inside a job that has programs of its own.
    inner: Option<(Text, Owner)>,
    processes: Vec<(&'a observation::Process, Process)>,
}

impl<'a> Owners<'a> {
    /// Adds a cgroup and its processes to its owner and those around it.
    pub(super) fn add(
        &mut self,
        cgroup: &observation::Cgroup,
        inside: &[&'a observation::Process],
        reported: &[Process],
        join: &mut JoinedNode<'_>,
    ) {
        let owner = join.owners.of(&cgroup.path).cloned();
        let mut levels = levels::of(owner.as_ref(), &cgroup.path.lossy());
        levels.extend(self.inside(&levels, owner.as_ref(), cgroup));
        if owner.is_none() && inside.is_empty() && cgroup.unseen.is_none() {
            return;
        }
        let is_service = levels::is_service(owner.as_ref());
        let start = self.processes.len();
        if !is_service {
            self.processes.extend(inside.iter().copied().zip(reported.iter().cloned()));
        }
        let views = join.views(cgroup, inside);
        for depth in 0..levels.len() {
            let entry = self.entry(&levels[..=depth], cgroup);
            if !is_service {
                let unseen = &mut self.entries[entry].unseen;
                *unseen = UnseenProcesses::join(unseen.take(), cgroup.unseen.as_ref());
                let inside = start..self.processes.len();
                self.entries[entry].cgroups.push(OwnedCgroup {
                    path: cgroup.path.clone(),
                    views: views.clone(),
                    inside,
                });
            }
        }
    }

    /// The cgroup inside a job that this one is, or is in: one with device programs of its own
    /// that the scheduler did not make, as that of a container which the job started. What may
    /// be opened there is not what the job's other processes may open.
    fn inside(
        &mut self,
        levels: &[Owner],
        owner: Option<&Owner>,
        cgroup: &observation::Cgroup,
    ) -> Option<Owner> {
        let (path, around) = (CgroupPath::new(&cgroup.path), self.entries.get(*self.index.get(levels)?)?);
        if let Some((_, inner)) = self.inner.as_ref().filter(|(top, _)| path.is_below(CgroupPath::new(top))) {
            return Some(inner.clone());
        }
        let has_own = cgroup.own.known().is_some_and(|own| !own.programs.is_empty());
        if !has_own || !levels::may_have_inner(owner?, path) {
            return None;
        }
        let name =
            path.as_bytes().strip_prefix(CgroupPath::new(&around.top).as_bytes())?.strip_prefix(b"/")?;
        let name = String::from_utf8_lossy(name).into_owned();
        let outer = Some(Box::new(around.owner.clone()));
        let inner = Owner { kind: OwnerKind::Cgroup, name: Some(name), outer, ..Owner::default() };
        self.inner = Some((cgroup.path.clone(), inner.clone()));
        Some(inner)
    }

    /// The entry of the last of these levels.
    fn entry(&mut self, levels: &[Owner], cgroup: &observation::Cgroup) -> usize {
        if let Some(index) = self.index.get(levels) {
            return *index;
        }
        let index = self.entries.len();
        let owner = levels.last().cloned().unwrap_or_default();
        let top = cgroup.path.clone();
        self.entries.push(Entry { owner, depth: levels.len() - 1, top, ..Entry::default() });
        match levels.split_last().and_then(|(_, outer)| self.index.get(outer)) {
            Some(parent) => self.entries[*parent].children.push(index),
            None => self.roots.push(index),
        }
        self.index.insert(levels.to_vec(), index);
        index
    }

    /// The owners with their sets, each followed by those inside it.
    pub(super) fn finish(
        self,
        join: &JoinedNode<'_>,
        numbering: &Numbering,
        granted: &allocated::KnownAllocation<'_>,
    ) -> Vec<OwnerSets> {
        let mut answer = Vec::new();
        for root in &self.roots {
            self.report(*root, join, numbering, granted, &mut answer);
        }
        answer
    }

    fn report(
        &self,
        index: usize,
        join: &JoinedNode<'_>,
        numbering: &Numbering,
        granted: &allocated::KnownAllocation<'_>,
        answer: &mut Vec<OwnerSets>,
    ) {
        let entry = &self.entries[index];
        let members = entry.members(&self.processes);
        let processes: Vec<&Process> = members.iter().map(|(_, process)| process).collect();
        let facts: Vec<&observation::Process> = members.iter().map(|(process, _)| *process).collect();
        let allowed = sets::allowed(&entry.views(), &join.gpus);
        let sets = OwnerSets {
            owner: entry.owner.clone(),
            depth: entry.depth,
            cgroup: entry.top.lossy().into_owned(),
            cgroup_hex: entry.top.hex(),
            array_task: processes::array_task(&entry.owner, &facts),
            component: processes::component(&entry.owner, &facts),
            users: users(&processes),
            processes: processes.len(),
            unseen: entry.unseen.clone(),
            allocated: allocated::of(&entry.owner, &facts, join, numbering, granted),
            visible: sets::visible(&processes, entry.unseen.as_ref(), &allowed, &join.gpus),
            allowed,
            held: sets::held(&processes, entry.unseen.as_ref(), &join.gpus),
            held_denied: sets::held_denied(&processes),
            used: None,
            idle_seconds: None,
            shares: Vec::new(),
        };
        let shares = super::sets::sharing(&sets, &facts, &join.gpus);
        answer.push(OwnerSets { shares, ..sets });
        for child in &entry.children {
            self.report(*child, join, numbering, granted, answer);
        }
    }
}

/// The users of processes, the first of them.
fn users(processes: &[&Process]) -> Vec<String> {
    let users: BTreeSet<String> = processes
        .iter()
        .map(|process| process.user.clone().unwrap_or_else(|| process.uid.to_string()))
        .collect();
    users.into_iter().take(USERS_NAMED).collect()
}

impl Entry {
    fn members<'p, T>(&self, processes: &'p [T]) -> Vec<&'p T> {
        self.cgroups.iter().filter_map(|place| processes.get(place.inside.clone())).flatten().collect()
    }

    /// The GPUs that its processes may open; without processes, those that one would
    /// open that joined the innermost of its cgroups.
    fn views(&self) -> Vec<Rc<GpuVerdicts>> {
        let occupied: Vec<&OwnedCgroup> =
            self.cgroups.iter().filter(|place| !place.inside.is_empty()).collect();
        let places = if occupied.is_empty() { self.leaves() } else { occupied };
        let mut seen = BTreeSet::new();
        let views = places.into_iter().flat_map(|place| &place.views);
        views.filter(|view| seen.insert(Rc::as_ptr(view))).cloned().collect()
    }

    fn leaves(&self) -> Vec<&OwnedCgroup> {
        let is_parent = |place: &OwnedCgroup| {
            let inside =
                |other: &OwnedCgroup| CgroupPath::new(&other.path).is_below(CgroupPath::new(&place.path));
            // In walk order the cgroups below follow directly.
            self.cgroups.iter().skip_while(|other| other.path != place.path).nth(1).is_some_and(inside)
        };
        self.cgroups.iter().filter(|place| !is_parent(place)).collect()
    }
}
