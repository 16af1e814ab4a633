//! Turns "something changed here" into two observations: before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::lists::{Listed, Walked};
use super::nodes::parent;
use super::state::{Differences, FIRST_REVISION, MonitoredCgroups};
use crate::model::{CgroupPath, Owner};
use crate::observation::{Answer, Attached, Cgroup, Observation, Program, Text, with_inner};
use crate::observe::cgroups::recheck;
use crate::observe::cgroups::walk::VisitedCgroup;
use crate::observe::problems::Log;
use crate::observe::programs::{cache, symbols};
use crate::observe::{clock, gpu};
use crate::owner;
use crate::sys::absence::OrAbsent as _;
use crate::sys::bpf::{ListKind, query};
use crate::sys::dir::Dir;

/// How often cgroups are queried again, as in a single observation.
const ROUNDS: usize = 3;
/// The GPU inventory is read again for a change if it is older than this.
const FACTS: Duration = Duration::from_secs(10);

/// Own list, its revision, programs in force.
type Lists = (Answer<Attached>, u64, Answer<Vec<u32>>);

/// A change of programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramsChange {
    /// The cgroups concerned and their ancestors as they were, with their
    /// programs.
    pub before: Observation,
    /// The observation after the change.
    pub after: Observation,
    /// The cgroups that were asked for and that changed: their list of programs in
    /// force changed, they came or went with programs of their own, their programs
    /// read a map that changed, or a function of one was replaced. Parents come
    /// first.
    pub cgroups: Vec<Text>,
    /// The cgroups that were asked for and that came, outer ones first.
    pub came: Vec<Text>,
    /// Those that went.
    pub went: Vec<Text>,
    /// By cgroup, how many changes of its own list cannot be shown: programs that
    /// came and went between two checks.
    pub unseen: BTreeMap<Text, u64>,
}

impl MonitoredCgroups {
    /// Reads what changed; `None` if no program is concerned.
    pub(super) fn step(&mut self, mut found: Differences, log: &mut Log) -> Option<ProgramsChange> {
        self.read(&mut found, log);
        let unseen = self.unseen(&found);
        let cgroups = self.concerned(&found);
        let (came, went) = (self.came(&found), self.went(&found));
        let is_any = !cgroups.is_empty() || !unseen.is_empty() || !came.is_empty() || !went.is_empty();
        let step = is_any.then(|| {
            self.facts(log);
            let named = cgroups.iter().chain(unseen.keys()).chain(&came).chain(&went);
            let paths = self.with_ancestors(named, &found);
            let was = |path: &Text| match found.before.get(path) {
                Some(cgroup) => Some(cgroup.clone()),
                None if found.fresh.contains(path) => None,
                None => self.nodes.get(path).map(|node| node.cgroup.clone()),
            };
            let is = |path: &Text| Some(self.nodes.get(path)?.cgroup.clone());
            let before = self.observation(paths.iter().filter_map(was), &found);
            let after = self.observation(paths.iter().filter_map(is), &Differences::default());
            ProgramsChange { before, after, cgroups, came, went, unseen }
        });
        self.forget_programs();
        step
    }

    /// Queries the cgroups concerned and reads their programs until no list has
    /// changed since.
    pub(super) fn read(&mut self, found: &mut Differences, log: &mut Log) {
        self.read_rounds(ROUNDS, found, log);
    }

    /// The same for the first time, when nothing is compared yet. One round is
    /// enough if every program could be read: what changed meanwhile differs from
    /// what is kept, so the next check finds it.
    pub(super) fn read_first(&mut self, found: &mut Differences, log: &mut Log) {
        self.read_rounds(1, found, log);
        let is_read = |id: u32| self.cache.programs.get(&id).is_some_and(|it| it.xlated.known().is_some());
        if self.nodes.iter().any(|(_, node)| !recheck::ids(&node.cgroup).all(is_read)) {
            self.read(found, log);
        }
    }

    fn read_rounds(&mut self, rounds: usize, found: &mut Differences, log: &mut Log) {
        let tops: BTreeSet<&Text> = found.fresh.iter().chain(found.changed.keys()).collect();
        let below = |path: &Text| -> bool {
            std::iter::successors(Some(path.clone()), parent).skip(1).any(|above| tops.contains(&above))
        };
        let outer = tops.iter().filter(|path| !below(path));
        let affected: BTreeSet<Text> = outer.flat_map(|path| self.nodes.below(path)).collect();
        for _ in 0..rounds {
            let walked = self.lists.walk(affected.len());
            let is_new = |path: &&Text| self.refresh(path, walked.as_ref(), found, log);
            let changed: Vec<Text> = affected.iter().filter(is_new).cloned().collect();
            if changed.is_empty() {
                break;
            }
            self.fill_links(&changed, log);
            self.load(&changed, found, log);
        }
    }

    /// Queries one cgroup again; returns whether its lists changed.
    fn refresh(
        &mut self,
        path: &Text,
        walked: Option<&Walked>,
        found: &mut Differences,
        log: &mut Log,
    ) -> bool {
        let listed = self.nodes.get(path).and_then(|node| shown(&walked?.get(node.cgroup.id)?));
        let Some((own, revision, effective)) = listed.or_else(|| self.ask(path, log)) else {
            // If it is gone, the next check removes it.
            return false;
        };
        self.has_revisions |= revision > 0;
        let Some(node) = self.nodes.get_mut(path) else { return false };
        let count = node.advance(revision);
        if count > 0 && !found.fresh.contains(path) {
            *found.changed.entry(path.clone()).or_default() += count;
        }
        let of = |answer: &Answer<Attached>| answer.known().map(|own| (own.programs.clone(), own.flags));
        if node.cgroup.effective == effective && of(&node.cgroup.own) == of(&own) {
            return false;
        }
        if !found.fresh.contains(path) {
            found.before.entry(path.clone()).or_insert_with(|| node.cgroup.clone());
        }
        (node.cgroup.effective, node.cgroup.own) = (effective, own);
        true
    }

    /// The own list, its revision, and the programs in force; `None` if the cgroup
    /// is gone.
    fn ask(&mut self, path: &Text, log: &mut Log) -> Option<Lists> {
        let list_query = &mut self.list_query;
        // Own list first: a change after it shows in the revision at the next
        // look.
        let ask = |dir: &Dir| {
            let (own, revision) = own_list(dir)?;
            // The query says nothing but that the cgroup is gone.
            let Ok(effective) = list_query.effective(dir, log) else { return None };
            Some((own, revision, effective))
        };
        let asked = self.nodes.with_dir(&self.hierarchy, path, ask);
        log.found(path.lossy(), asked.or_removed()).flatten()
    }

    fn fill_links(&mut self, paths: &[Text], log: &mut Log) {
        let nodes = paths.iter().filter_map(|path| self.nodes.get(path));
        let has_own = |cgroup: &Cgroup| cgroup.own.known().is_some_and(|own| !own.programs.is_empty());
        let mut seen: Vec<VisitedCgroup> = nodes
            .filter(|node| has_own(&node.cgroup))
            .map(|node| VisitedCgroup { cgroup: node.cgroup.clone(), requested: node.requested })
            .collect();
        recheck::fill(&mut seen, log);
        for VisitedCgroup { cgroup, .. } in seen {
            if let Some(node) = self.nodes.get_mut(&cgroup.path) {
                node.cgroup = cgroup;
            }
        }
    }

    /// Reads programs in force that are not known yet, and maps that can have
    /// changed.
    fn load(&mut self, paths: &[Text], found: &mut Differences, log: &mut Log) {
        let ids: BTreeSet<u32> = paths.iter().flat_map(|path| self.ids(path)).collect();
        let is_new = |id: &u32| !self.cache.programs.contains_key(id);
        let new: BTreeSet<u32> = ids.iter().copied().filter(is_new).collect();
        let maps = self.cache.used(ids.iter().filter_map(|id| self.cache.programs.get(id)));
        for id in maps {
            if self.cache.maps.get(&id).is_some_and(|map| map.frozen) {
                continue;
            }
            if let Some(old) = self.cache.maps.insert(id, cache::read(id, log)) {
                found.old_maps.entry(id).or_insert(old);
            }
        }
        self.cache.add_inner(log);
        self.cache.load(new.iter().copied(), log);
        let programs = self.cache.programs.values_mut().filter(|program| new.contains(&program.id));
        symbols::resolve(&self.options.proc, programs, log);
        symbols::resolve(&self.options.proc, self.cache.unnamed_called(), log);
    }

    fn ids(&self, path: &Text) -> Vec<u32> {
        let cgroup = self.nodes.get(path).map(|node| &node.cgroup);
        cgroup.map(|cgroup| recheck::ids(cgroup).collect()).unwrap_or_default()
    }

    /// The cgroups that were asked for and have other programs in force, and those
    /// that came or went with programs of their own.
    fn concerned(&self, found: &Differences) -> Vec<Text> {
        let all: BTreeSet<&Text> = found.before.keys().chain(&found.fresh).collect();
        let own = |cgroup: &Cgroup| cgroup.own.known().is_some_and(|own| !own.programs.is_empty());
        let asked = |path: &&&Text| self.nodes.wanted(path) == Some(true);
        let is_it = |path: &&&Text| {
            let before = found.before.get(**path);
            let after = self.nodes.get(path).map(|node| &node.cgroup);
            match (before, after) {
                (Some(before), Some(after)) => before.effective != after.effective,
                (Some(before), None) => own(before),
                (None, Some(after)) => self.differs_from_parent(after) || own(after),
                (None, None) => false,
            }
        };
        let changed = all.iter().filter(asked).filter(is_it).map(|path| (**path).clone());
        let touched = found.touched.iter().filter(|path| self.nodes.get(path).is_some()).cloned();
        changed.chain(touched).collect::<BTreeSet<Text>>().into_iter().collect()
    }

    /// New cgroups of jobs and containers.
    fn came(&self, found: &Differences) -> Vec<Text> {
        let is_it = |path: &&Text| is_workload(path) && self.nodes.wanted(path) == Some(true);
        found.fresh.iter().filter(is_it).cloned().collect()
    }

    /// Cgroups of jobs and containers that are gone.
    fn went(&self, found: &Differences) -> Vec<Text> {
        let is_it = |path: &&Text| is_workload(path) && self.nodes.get(path).is_none();
        let asked = |path: &&Text| self.nodes.wanted(path) == Some(true);
        found.before.keys().filter(is_it).filter(asked).cloned().collect()
    }

    /// Whether a new cgroup has other programs in force than its parent had when it
    /// was made, which is known only roughly.
    fn differs_from_parent(&self, cgroup: &Cgroup) -> bool {
        let above = parent(&cgroup.path).and_then(|path| self.nodes.get(&path));
        above.is_some_and(|above| above.cgroup.effective != cgroup.effective)
    }

    /// Changes that the kernel counted and that left no trace in the lists.
    fn unseen(&self, found: &Differences) -> BTreeMap<Text, u64> {
        let none = Vec::new();
        let programs = |cgroup: Option<&Cgroup>| {
            cgroup.and_then(|cgroup| cgroup.own.known()).map_or(none.clone(), |own| own.programs.clone())
        };
        let count = |(path, count): (&Text, &u64)| {
            let before = found.before.get(path);
            let node = self.nodes.get(path).filter(|node| node.revision > FIRST_REVISION)?;
            let after = programs(Some(&node.cgroup));
            let before = before.map_or_else(|| after.clone(), |cgroup| programs(Some(cgroup)));
            let new = after.iter().filter(|id| !before.contains(id)).count();
            let old = before.iter().filter(|id| !after.contains(id)).count();
            let unseen = count.saturating_sub((new + old) as u64);
            (unseen > 0 && node.requested).then(|| (path.clone(), unseen))
        };
        found.changed.iter().filter_map(count).collect()
    }

    fn with_ancestors<'a>(
        &self,
        paths: impl Iterator<Item = &'a Text>,
        found: &Differences,
    ) -> BTreeSet<Text> {
        let up = paths.flat_map(|path| std::iter::successors(Some(path.clone()), parent));
        let known = |path: &Text| self.nodes.get(path).is_some() || found.before.contains_key(path);
        up.filter(known).collect()
    }

    /// With the old maps and programs of `found`, all others as they were read
    /// last.
    fn observation(&self, cgroups: impl Iterator<Item = Cgroup>, found: &Differences) -> Observation {
        let cgroups: Vec<Cgroup> = cgroups.collect();
        let used: BTreeSet<u32> = cgroups.iter().flat_map(recheck::ids).collect();
        let program = |id| found.old_programs.get(id).or_else(|| self.cache.programs.get(id));
        let programs = used.iter().filter_map(program);
        let programs: Vec<Program> = programs.cloned().collect();
        let map = |id| found.old_maps.get(&id).or_else(|| self.cache.maps.get(&id));
        let used = with_inner(programs.iter().flat_map(|program| program.map_ids.iter().copied()), map);
        let maps = used.into_iter().filter_map(map).cloned().collect();
        Observation { taken_at: clock::now(), cgroups, programs, maps, ..self.blank.clone() }
    }

    /// Reads the inventory unless it is fresh.
    fn facts(&mut self, log: &mut Log) {
        if self.facts_at.is_none_or(|at| at.elapsed() > FACTS) {
            self.blank.gpu_facts = gpu::of_node(&self.options, log);
            self.facts_at = Some(Instant::now());
        }
    }

    /// Drops programs that are attached nowhere any more.
    fn forget_programs(&mut self) {
        let attached: BTreeSet<u32> =
            self.nodes.iter().flat_map(|(_, node)| recheck::ids(&node.cgroup)).collect();
        self.cache.keep(|id| attached.contains(&id));
    }
}

/// The lists as a walk has shown them; `None` if it did not show all.
fn shown(listed: &Listed<'_>) -> Option<Lists> {
    let own = attached(listed.own?.to_vec(), listed.attach_flags);
    Some((own, listed.revision, Answer::Known(listed.effective?.to_vec())))
}

/// The own list with its revision; `None` if the cgroup is gone.
fn own_list(dir: &Dir) -> Option<(Answer<Attached>, u64)> {
    match query(dir.as_fd(), ListKind::Own) {
        Ok(own) => Some((attached(own.ids, own.attach_flags), own.revision)),
        Err(error) if error.is_gone() => None,
        Err(error) => Some((Answer::Missing(error.to_string()), 0)),
    }
}

/// The own list. Flags outlive the programs, so an empty list has none.
fn attached(programs: Vec<u32>, flags: u32) -> Answer<Attached> {
    if programs.is_empty() {
        return Answer::Known(Attached::default());
    }
    Answer::Known(Attached { programs, flags, ..Attached::default() })
}

/// Whether a cgroup's name is that of a job, container, pod or virtual machine as a whole. One
/// beside it that serves it, such as that of a container's monitor, is none of its own.
fn is_workload(path: &Text) -> bool {
    let of = |path: &[u8]| owner::of_path(path).filter(Owner::is_workload);
    let above = CgroupPath::new(path).parent().and_then(|above| of(above.as_bytes()));
    let own = of(path.as_bytes()).filter(|own| own.part.is_none());
    own.is_some_and(|own| above.is_none_or(|above| above.whole() != own.whole()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a job, a pod and a container begin once each, however many cgroups they
    /// have.
    #[test]
    fn workloads() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4f5a1b3c_0d2e_4f60_8a1b_2c3d4e5f6071.slice";
        let plain = "/kubepods/besteffort/pod4f5a1b3c-0d2e-4f60-8a1b-2c3d4e5f6071";
        let whole = [
            pod.to_owned(),
            format!("{pod}/cri-containerd-{id}.scope"),
            format!("{pod}/crio-{id}.scope"),
            plain.to_owned(),
            format!("{plain}/{id}"),
            format!("/system.slice/docker-{id}.scope"),
            "/system.slice/slurmstepd.scope/job_7".to_owned(),
        ];
        let parts = [
            "/kubepods.slice".to_owned(),
            "/kubepods.slice/kubepods-burstable.slice".to_owned(),
            "/kubepods/besteffort".to_owned(),
            format!("{pod}/crio-conmon-{id}.scope"),
            format!("{pod}/crio-{id}.scope/container"),
            format!("{pod}/cri-containerd-{id}.scope/init.scope"),
            format!("{pod}/cri-containerd-{id}.scope/system.slice/sshd.service"),
            format!("{plain}/{id}/worker"),
            "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0".to_owned(),
            "/system.slice/slurmstepd.scope/job_7/step_batch/slurm".to_owned(),
            "/system.slice/slurmstepd.scope/system".to_owned(),
            "/system.slice/sshd.service".to_owned(),
        ];
        for path in &whole {
            assert!(is_workload(&Text::from(path.as_str())), "{path}");
        }
        for path in &parts {
            assert!(!is_workload(&Text::from(path.as_str())), "{path}");
        }
    }
}
