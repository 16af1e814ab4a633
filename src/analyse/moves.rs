//! Compares what processes may do at two moments: before and after a move to another cgroup,
//! and before and after the programs in force on a cgroup changed.

use std::collections::{BTreeSet, HashMap};

use super::attachment::Tree;
use super::diff::changes;
use super::gpu_verdicts::gpu_verdicts;
use super::policies::{self, Policies};
use super::programs::writer_of;
use crate::gpu;
use crate::model::{CgroupPath, GpuKey, Owner, Verdict, Writer};
use crate::observation::{self, Cgroup, Map, Observation, Process, Program, Text};
use crate::policy::{AlwaysListed, Decoder, Policy, TimeLimit};
use crate::report::{Change, Effective, Gpu, Omitted, PolicyEvent, PolicyProgram};
use crate::visible::OpenableGpus;

/// GPUs and MIG instances (`KEY/GI/CI`) by what a move does to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedReach {
    /// They can be opened now and could not before.
    pub gained: Vec<GpuKey>,
    /// They can no longer be opened.
    pub lost: Vec<GpuKey>,
    /// For these that is unknown on one side alone.
    pub unknown: Vec<GpuKey>,
}

/// Whether a process left a job, container, pod or virtual machine: one that the
/// cgroup of before belongs to, and that of now does not. Steps and tasks of one
/// job are one place here.
pub fn left_owner(from: Option<&Owner>, to: Option<&Owner>) -> bool {
    let now: Vec<Owner> = chain(to).map(Owner::whole).collect();
    chain(from).filter(|owner| owner.is_workload()).any(|owner| !now.contains(&owner.whole()))
}

fn chain(owner: Option<&Owner>) -> impl Iterator<Item = &Owner> {
    std::iter::successors(owner, |owner| owner.outer.as_deref())
}

/// GPUs that a process may open after a move and could not before, and the reverse.
/// GPUs that only one side has are left out.
pub(super) fn difference(before: (&[Gpu], &OpenableGpus), after: (&[Gpu], &OpenableGpus)) -> MovedReach {
    let mut found = MovedReach::default();
    let before = verdicts(before);
    for (key, now) in verdicts(after) {
        let Some((_, then)) = before.iter().find(|(known, _)| *known == key) else { continue };
        match (then, now) {
            (then, now) if *then == now => {}
            (Verdict::Deny, Verdict::Allow) => found.gained.push(key),
            (Verdict::Allow, Verdict::Deny) => found.lost.push(key),
            _ => found.unknown.push(key),
        }
    }
    found
}

/// Every GPU and every instance with its verdict.
fn verdicts((gpus, reach): (&[Gpu], &OpenableGpus)) -> Vec<(GpuKey, Verdict)> {
    let mut all = Vec::new();
    for (gpu, access) in gpus.iter().zip(&reach.gpus) {
        all.push((gpu.key.clone(), access.verdict));
        let instances = gpu.mig.iter().zip(&access.instances);
        all.extend(instances.map(|(part, verdict)| (part.key(gpu), *verdict)));
    }
    all
}

/// What happened to the programs of one cgroup; `None` if the same programs are in
/// force and decide the same. Use [`NodeComparison`] for several cgroups.
pub fn change(before: &Observation, after: &Observation, cgroup: &Text) -> Option<PolicyEvent> {
    NodeComparison::new(before, after, &TimeLimit::default()).change(cgroup)
}

/// Whether the same programs are in force as before and decide the same. In another order
/// they may decide differently.
pub fn is_unchanged(event: &PolicyEvent) -> bool {
    event.attached.is_empty() && event.gone.is_empty() && event.equal
}

/// Two observations of one node, of which each policy is decoded once.
#[derive(Debug)]
pub struct NodeComparison<'a> {
    before: Side<'a>,
    after: Side<'a>,
    decoder: Decoder,
    gpus: Vec<Gpu>,
    /// Devices whose rules are never left out.
    always_listed: AlwaysListed,
    known: HashMap<(Policy, Policy), Difference>,
    /// Maps that hold something else than before.
    new_contents: BTreeSet<u32>,
}

type Difference = (Vec<Change>, Option<Omitted>);

#[derive(Debug)]
struct Side<'a> {
    observation: &'a Observation,
    cgroups: HashMap<&'a Text, &'a Cgroup>,
    programs: HashMap<u32, &'a Program>,
    tree: Tree<'a>,
    policies: Policies<'a>,
}

impl<'a> NodeComparison<'a> {
    /// Takes both in; the inventory is the later one's, if it has one.
    pub fn new(before: &'a Observation, after: &'a Observation, limit: &TimeLimit) -> Self {
        let mut facts = &after.gpu_facts;
        let mut gpus = gpu::inventory(facts);
        if gpus.is_empty() {
            facts = &before.gpu_facts;
            gpus = gpu::inventory(facts);
        }
        Self {
            before: Side::new(before),
            after: Side::new(after),
            decoder: Decoder::of_programs(before.programs.iter().chain(&after.programs), limit),
            gpus,
            always_listed: policies::always_listed(facts),
            known: HashMap::new(),
            new_contents: new_contents(&before.maps, &after.maps),
        }
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// What happened to the programs of one cgroup; `None` if the same programs are
    /// in force and decide the same, or if there is nothing to compare with.
    pub fn change(&mut self, path: &Text) -> Option<PolicyEvent> {
        self.compared(path).filter(|event| !is_unchanged(event))
    }

    /// The same, also where nothing happened; `None` if there is nothing to compare with.
    ///
    /// A new cgroup is compared with the programs that were in force on the nearest
    /// cgroup above it, because it started with those.
    pub fn compared(&mut self, path: &Text) -> Option<PolicyEvent> {
        let Some(after) = self.after.cgroup(path) else { return self.removed(path) };
        let above = ancestry(path).find_map(|path| self.before.cgroup(&path))?;
        let inherited = Cgroup { id: after.id, ..above.clone() };
        let maps = self.changed_maps(after);
        if inherited.effective == after.effective && maps.is_empty() {
            return Some(PolicyEvent { equal: true, ..PolicyEvent::default() });
        }
        let (old, new) = (self.before.tree.effective(above), self.after.tree.effective(after));
        let from = self.before.policy(&inherited, path, &mut self.decoder);
        let to = self.after.policy(after, path, &mut self.decoder);
        let new_pair = || changes(&mut self.decoder, from, to, &self.always_listed);
        let (changes, omitted) = self.known.entry((from, to)).or_insert_with(new_pair).clone();
        let attached = self.after.programs(missing(&new, &old));
        let event = PolicyEvent {
            repair_undone: undone(&attached, &self.after.programs(new.clone())).filter(|_| from != to),
            attached,
            gone: self.before.programs(missing(&old, &new)),
            equal: from == to,
            created: self.before.cgroup(path).is_none(),
            changes,
            omitted,
            maps,
            ..PolicyEvent::default()
        };
        Some(if is_unchanged(&event) { event } else { self.with_gpus(event, from, to) })
    }

    /// The maps of the programs in force that hold something else than before.
    fn changed_maps(&self, cgroup: &Cgroup) -> Vec<u32> {
        let programs = cgroup.effective.known().into_iter().flatten();
        let programs = programs.filter_map(|id| self.after.programs.get(id));
        let ids = programs.flat_map(|program| program.map_ids.iter().copied());
        let maps = &self.after.observation.maps;
        let used = observation::with_inner(ids, |id| maps.iter().find(|map| map.id == id));
        used.into_iter().filter(|id| self.new_contents.contains(id)).collect()
    }

    /// Its own programs went with it.
    fn removed(&self, path: &Text) -> Option<PolicyEvent> {
        let before = self.before.cgroup(path)?;
        let own = &before.own.known()?.programs;
        let places = self.before.tree.effective(before).into_iter();
        let here = places.filter(|place| own.contains(&place.id) && place.attached_at == path.lossy());
        let gone = self.before.programs(here.collect());
        let event = PolicyEvent { equal: true, removed: true, gone, ..PolicyEvent::default() };
        (!event.gone.is_empty()).then_some(event)
    }

    fn with_gpus(&self, mut event: PolicyEvent, from: Policy, to: Policy) -> PolicyEvent {
        let before = gpu_verdicts(&self.gpus, from, &self.decoder).into_iter();
        for (before, after) in before.zip(gpu_verdicts(&self.gpus, to, &self.decoder)) {
            let list = match (before.verdict, after.verdict) {
                (a, b) if a == b => continue,
                (Verdict::Allow, Verdict::Deny) => &mut event.lost,
                (Verdict::Deny, Verdict::Allow) => &mut event.gained,
                _ => &mut event.unknown,
            };
            list.push(after.gpu);
        }
        event
    }
}

impl<'a> Side<'a> {
    fn new(observation: &'a Observation) -> Self {
        Self {
            observation,
            cgroups: observation.cgroups.iter().map(|cgroup| (&cgroup.path, cgroup)).collect(),
            programs: observation.programs.iter().map(|program| (program.id, program)).collect(),
            tree: Tree::new(&observation.cgroups),
            policies: Policies::new(observation),
        }
    }

    fn cgroup(&self, path: &Text) -> Option<&'a Cgroup> {
        self.cgroups.get(path).copied()
    }

    fn policy(&mut self, cgroup: &Cgroup, path: &Text, decoder: &mut Decoder) -> Policy {
        let inside = self.observation.processes.iter().filter(|process| process.cgroup == *path);
        let inside: Vec<&Process> = inside.collect();
        self.policies.of_cgroup(cgroup, &inside, decoder)
    }

    fn programs(&self, places: Vec<Effective>) -> Vec<PolicyProgram> {
        let blank = observation::Program::default();
        let program = |place: Effective| {
            let facts = self.programs.get(&place.id).copied().unwrap_or(&blank);
            PolicyProgram {
                name: facts.name.lossy().into_owned(),
                writer: writer_of(facts),
                loaded_at: facts.loaded_at.clone(),
                place,
            }
        };
        places.into_iter().map(program).collect()
    }
}

/// The program of gpumap's that was there before, and beside which systemd has
/// attached its own again.
fn undone(attached: &[PolicyProgram], now: &[PolicyProgram]) -> Option<u32> {
    let is_new = |program: &PolicyProgram| attached.iter().any(|new| new.place == program.place);
    let again = attached.iter().find(|program| program.writer == Some(Writer::Systemd))?;
    let ours = now.iter().find(|program| {
        program.writer == Some(Writer::Gpumap)
            && program.place.attached_at == again.place.attached_at
            && !is_new(program)
    })?;
    Some(ours.place.id)
}

/// The maps of both moments that hold something else in the second.
fn new_contents(before: &[Map], after: &[Map]) -> BTreeSet<u32> {
    let before: HashMap<u32, &Map> = before.iter().map(|map| (map.id, map)).collect();
    let differs = |map: &&Map| before.get(&map.id).is_some_and(|old| old.entries != map.entries);
    after.iter().filter(differs).map(|map| map.id).collect()
}

/// The programs of one list that the other does not have.
fn missing(of: &[Effective], from: &[Effective]) -> Vec<Effective> {
    let same = |a: &Effective, b: &Effective| (a.id, &a.attached_at) == (b.id, &b.attached_at);
    of.iter().filter(|place| !from.iter().any(|other| same(place, other))).cloned().collect()
}

/// A path and those above it, the nearest first.
fn ancestry(path: &Text) -> impl Iterator<Item = Text> {
    CgroupPath::new(path).upwards().map(|path| path.as_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::of_path;
    use crate::visible::GpuAccess;

    fn left(from: &str, to: &str) -> bool {
        left_owner(of_path(from.as_bytes()).as_ref(), of_path(to.as_bytes()).as_ref())
    }

    /// Make sure that going from step to step of a job, or deeper into it, is not
    /// leaving it, and that going anywhere else is.
    #[test]
    fn leaving() {
        let job = "/system.slice/slurmstepd.scope/job_7";
        let step = format!("{job}/step_0/user/task_0");
        assert!(!left(&step, &format!("{job}/step_batch/user/task_0")));
        assert!(!left(&step, job));
        assert!(left(&step, "/system.slice/slurmstepd.scope/job_8/step_0/user/task_0"));
        assert!(left(&step, "/system.slice/slurmd.service"));
        assert!(left(&step, "/"));
        assert!(!left("/system.slice/ssh.service", &step));
        assert!(!left("/user.slice/user-1000.slice/session-1.scope", "/"));
    }

    /// Make sure that each change of a verdict is in its list, and no other is.
    #[test]
    fn lists() {
        use Verdict::{Allow, Deny, Unknown};
        let gpu = |key: &str| Gpu { key: key.into(), ..Gpu::default() };
        let gpus: Vec<Gpu> = ["a", "b", "c", "d"].map(gpu).into();
        let reach = |verdicts: [Verdict; 4]| OpenableGpus {
            gpus: verdicts.map(|verdict| GpuAccess { verdict, instances: Vec::new() }).into(),
            shared: Vec::new(),
        };
        let (before, after) = (reach([Allow, Deny, Deny, Unknown]), reach([Allow, Allow, Unknown, Unknown]));
        let found = difference((&gpus, &before), (&gpus, &after));
        assert_eq!((found.gained, found.lost, found.unknown), (vec!["b".into()], vec![], vec!["c".into()]));
        assert_eq!(difference((&gpus, &after), (&gpus, &before)).lost, ["b"]);
    }
}
