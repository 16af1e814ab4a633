//! Decodes the policies of an observation, each once, however many cgroups share it, and
//! turns policies and rules of the decoder into those of the report.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::subject::{self, AnalyseError, Subject};
use crate::gpu::Labels;
use crate::model::{Device, DeviceType, Rule, Verdict};
use crate::observation::{Cgroup, GpuFacts, Observation, Process, Program, Text};
use crate::policy::{self, AlwaysListed, Combination, Context, Decoder, Policy, Unsettled};
use crate::report::{self, ListedRule, Omitted, Unknown};

/// The facts that decide a cgroup's policy: its programs, its id if a program asks
/// for it, the v1 groups of its processes.
type Key = (Vec<u32>, Option<u64>, BTreeSet<Option<Text>>);

/// Decodes the programs of one observation.
///
/// What was decoded is kept in cells, each borrowed for one look-up or one insertion.
#[derive(Debug)]
pub(super) struct Policies<'a> {
    observation: &'a Observation,
    programs: HashMap<u32, &'a Program>,
    combination: Combination,
    /// Policies of programs that decide the same wherever they are attached.
    alone: RefCell<HashMap<u32, Option<Policy>>>,
    /// Whether programs may ask in which cgroup they run.
    reads_cgroup_id: RefCell<HashMap<u32, bool>>,
    known: RefCell<HashMap<Key, Policy>>,
}

impl<'a> Policies<'a> {
    pub(super) fn new(observation: &'a Observation) -> Self {
        Self {
            observation,
            programs: observation.programs.iter().map(|program| (program.id, program)).collect(),
            combination: Combination::of_host(&observation.host),
            alone: RefCell::default(),
            reads_cgroup_id: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// The facts that programs of this observation may read, in the cgroup with this
    /// id.
    pub(super) fn context(&self, cgroup_id: Option<u64>) -> Context<'a> {
        let Observation { maps, cgroups, .. } = self.observation;
        Context { maps, cgroups, cgroup_id, combination: self.combination }
    }

    /// The policy of a subject.
    pub(super) fn of_subject(
        &self,
        subject: &Subject,
        decoder: &mut Decoder,
    ) -> Result<Policy, AnalyseError> {
        match subject {
            Subject::Cgroup(path) => {
                let cgroup = subject::cgroup(self.observation, path)?;
                let inside = self.observation.processes.iter().filter(|process| process.cgroup == *path);
                let inside: Vec<&Process> = inside.collect();
                Ok(self.of_cgroup(cgroup, &inside, decoder))
            }
            Subject::Programs(ids) => {
                let programs: Result<Vec<&Program>, _> =
                    ids.iter().map(|id| subject::program(self.observation, *id)).collect();
                Ok(decoder.policy(&programs?, &self.context(None)))
            }
        }
    }

    /// A policy of a subject for single questions, where its programs may be too
    /// complex as a whole ([`Decoder::undrawn`]); `None` otherwise.
    pub(super) fn undrawn(&self, subject: &Subject, decoder: &mut Decoder) -> Option<Policy> {
        let (ids, cgroup) = match subject {
            Subject::Cgroup(path) => {
                let cgroup = subject::cgroup(self.observation, path).ok()?;
                (cgroup.effective.known()?, Some(cgroup))
            }
            Subject::Programs(ids) => (ids, None),
        };
        let programs: Option<Vec<&Program>> = ids.iter().map(|id| self.programs.get(id).copied()).collect();
        let context = self.context(cgroup.map(|cgroup| cgroup.id));
        let policy = decoder.undrawn(&programs?, &context)?;
        let groups = cgroup.map(|cgroup| {
            let inside = self.observation.processes.iter().filter(|process| process.cgroup == cgroup.path);
            self.groups(inside)
        });
        Some(match groups.and_then(|groups| self.of_groups(&groups, decoder)) {
            Some(v1) => decoder.all_of(&[policy, v1]),
            None => policy,
        })
    }

    /// The v1 groups of these processes, where that controller is mounted.
    fn groups<'p>(&self, inside: impl Iterator<Item = &'p Process>) -> BTreeSet<Option<Text>> {
        match self.observation.devices_v1 {
            Some(_) => inside.map(|process| process.devices_v1.clone()).collect(),
            None => BTreeSet::new(),
        }
    }

    /// The policy of a cgroup: its programs and, where it is mounted, the v1
    /// controller of the processes inside.
    pub(super) fn of_cgroup(&self, cgroup: &Cgroup, inside: &[&Process], decoder: &mut Decoder) -> Policy {
        let Some(ids) = cgroup.effective.known() else {
            let why = cgroup.effective.missing().unwrap_or_default();
            return decoder.unknown_policy(&format!("the programs in force could not be asked: {why}"));
        };
        let are_alone = ids.iter().all(|id| self.alone(*id, decoder).is_some());
        let asks = !are_alone && ids.iter().any(|id| self.reads_cgroup_id(*id));
        let groups = self.groups(inside.iter().copied());
        let key = (ids.clone(), asks.then_some(cgroup.id), groups);
        let known = self.known.borrow().get(&key).copied();
        if let Some(policy) = known {
            return policy;
        }
        let programs = match are_alone {
            true => self.of_each(ids, decoder),
            false => self.of_stack(ids, key.1, decoder),
        };
        let policy = match self.of_groups(&key.2, decoder) {
            Some(v1) => decoder.all_of(&[programs, v1]),
            None => programs,
        };
        self.known.borrow_mut().insert(key, policy);
        policy
    }

    /// The policy of programs that decide the same wherever they are attached.
    fn of_each(&self, ids: &[u32], decoder: &mut Decoder) -> Policy {
        let policies: Vec<Policy> = ids.iter().filter_map(|id| self.alone(*id, decoder)).collect();
        decoder.all_of(&policies)
    }

    /// The policy of programs that see what the others do.
    fn of_stack(&self, ids: &[u32], cgroup_id: Option<u64>, decoder: &mut Decoder) -> Policy {
        let blank: BTreeMap<u32, Program> =
            ids.iter().filter(|id| !self.programs.contains_key(*id)).map(|id| (*id, unread(*id))).collect();
        let programs: Vec<&Program> =
            ids.iter().filter_map(|id| self.programs.get(id).copied().or_else(|| blank.get(id))).collect();
        decoder.policy(&programs, &self.context(cgroup_id))
    }

    /// Whether the program may ask in which cgroup it runs.
    fn reads_cgroup_id(&self, id: u32) -> bool {
        if let Some(known) = self.reads_cgroup_id.borrow().get(&id) {
            return *known;
        }
        let program = self.programs.get(&id);
        let reads = program.is_some_and(|program| Decoder::reads_cgroup_id(program, &self.context(None)));
        self.reads_cgroup_id.borrow_mut().insert(id, reads);
        reads
    }

    /// The policy of a program that decides the same everywhere; `None` if its
    /// place matters or the observation lacks it.
    pub(super) fn alone(&self, id: u32, decoder: &mut Decoder) -> Option<Policy> {
        let known = self.alone.borrow().get(&id).copied();
        if let Some(known) = known {
            return known;
        }
        let context = self.context(None);
        let program = self.programs.get(&id);
        let policy = program.and_then(|program| decoder.policy_anywhere(program, &context));
        self.alone.borrow_mut().insert(id, policy);
        policy
    }

    /// What the v1 controller says of these processes; `None` where it is not
    /// mounted or nobody is there to ask about.
    pub(super) fn v1_of(&self, inside: &[&Process], decoder: &mut Decoder) -> Option<Policy> {
        self.observation.devices_v1.as_ref()?;
        let groups = inside.iter().map(|process| process.devices_v1.clone()).collect();
        self.of_groups(&groups, decoder)
    }

    /// The v1 policy for the processes in a cgroup; `None` if there is no process.
    fn of_groups(&self, groups: &BTreeSet<Option<Text>>, decoder: &mut Decoder) -> Option<Policy> {
        if groups.is_empty() {
            return None;
        }
        let policies: Vec<Policy> =
            groups.iter().map(|group| self.of_group(group.as_ref(), decoder)).collect();
        Some(decoder.agreement(&policies, "the processes inside are in different v1 device cgroups"))
    }

    fn of_group(&self, path: Option<&Text>, decoder: &mut Decoder) -> Policy {
        let groups = self.observation.devices_v1.iter().flat_map(|v1| &v1.groups);
        let Some(group) = path.and_then(|path| groups.into_iter().find(|group| group.path == *path)) else {
            return decoder.unknown_policy("the v1 device cgroup of a process is not known");
        };
        match (group.list.known(), group.list.missing()) {
            (Some(lines), _) => decoder.devices_v1(group.path.as_bytes(), lines),
            (None, why) => {
                let why = why.unwrap_or_default();
                decoder.unknown_policy(&format!("the v1 devices.list could not be read: {why}"))
            }
        }
    }
}

/// A placeholder for a program that is in force but not in the observation.
fn unread(id: u32) -> Program {
    let xlated = crate::observation::Answer::Missing("it is not part of the observation".into());
    Program { id, xlated, ..Program::default() }
}

/// The policies of an answer by id.
#[derive(Debug)]
pub(super) struct PolicyTable {
    ids: BTreeMap<policy::Policy, String>,
    /// The drivers of majors that the kernel assigns anew on each boot.
    majors: BTreeMap<u32, Vec<String>>,
    /// The devices whose rules are never left out.
    always_listed: AlwaysListed,
    /// The policies of the answer.
    pub(super) policies: BTreeMap<String, report::Policy>,
}

/// Majors of character devices that the kernel assigns as drivers ask for them
/// (`CHRDEV_MAJOR_DYN_END` and its neighbours in `linux/fs.h`).
const DYNAMIC: [std::ops::RangeInclusive<u32>; 2] = [234..=254, 384..=511];

impl PolicyTable {
    /// An empty table that knows the majors of this node.
    pub(super) fn new(facts: &GpuFacts) -> Self {
        let majors = dynamic_majors(facts);
        let always_listed = listed_of(facts, &majors);
        Self { ids: BTreeMap::new(), majors, always_listed, policies: BTreeMap::new() }
    }

    /// The id of a policy, which is in the table from then on.
    pub(super) fn add(&mut self, policy: policy::Policy, decoder: &mut Decoder) -> String {
        if let Some(id) = self.ids.get(&policy) {
            return id.clone();
        }
        let mut id = decoder.id(policy);
        // Two policies that are not one have two places, whatever their ids.
        while self.policies.contains_key(&id) {
            id.push('+');
        }
        let mut policy_report = report(&id, policy, decoder, &self.always_listed);
        policy_report.rules.iter_mut().for_each(|rule| rule.names = self.names(&rule.rule));
        self.policies.insert(id.clone(), policy_report);
        self.ids.insert(policy, id.clone());
        id
    }

    /// The drivers of the one major that a rule names.
    fn names(&self, rule: &Rule) -> Vec<String> {
        let major = rule.major.single().filter(|_| rule.kind == Some(DeviceType::Char));
        major.and_then(|major| self.majors.get(&major)).cloned().unwrap_or_default()
    }
}

/// The devices of a node whose rules are never left out.
pub(super) fn always_listed(facts: &GpuFacts) -> AlwaysListed {
    listed_of(facts, &dynamic_majors(facts))
}

fn listed_of(facts: &GpuFacts, majors: &BTreeMap<u32, Vec<String>>) -> AlwaysListed {
    let is_of_gpu = |name: &String| ["nvidia", "kfd", "drm"].iter().any(|start| name.starts_with(start));
    let of_gpus = majors.iter().filter(|(_, names)| names.iter().any(is_of_gpu)).map(|(major, _)| *major);
    let nodes =
        facts.nodes.iter().map(|node| Device { kind: node.kind, major: node.major, minor: node.minor });
    AlwaysListed::new(of_gpus, nodes)
}

/// The drivers of majors that the kernel assigns anew on each boot.
fn dynamic_majors(facts: &GpuFacts) -> BTreeMap<u32, Vec<String>> {
    let labels = Labels::new(facts);
    let names = |major| (major, labels.driver_names(DeviceType::Char, major));
    DYNAMIC.into_iter().flatten().map(names).filter(|(_, names)| !names.is_empty()).collect()
}

fn report(
    id: &str,
    policy: policy::Policy,
    decoder: &mut Decoder,
    always_listed: &AlwaysListed,
) -> report::Policy {
    let list = decoder.rules_with(policy, always_listed);
    let listed =
        |rule: &Rule| ListedRule { not_drawn: list.not_drawn.contains(rule), ..ListedRule::from(*rule) };
    report::Policy {
        id: id.to_owned(),
        default: list.default,
        exact: list.omitted.is_none() && decoder.is_known(policy),
        not_drawn: list.default == Verdict::Unknown && list.unknown.iter().any(|open| open.not_drawn),
        rules: list.rules.iter().map(listed).collect(),
        unknown: list.unknown.into_iter().map(unknown).collect(),
        omitted: list.omitted.map(|questions| Omitted { questions }),
    }
}

fn unknown(open: Unsettled) -> Unknown {
    let rules = open.rules.iter().map(ToString::to_string).collect();
    Unknown { rules, why: open.why, not_drawn: open.not_drawn }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Answer, HexBytes, Map};

    /// Make sure that a program with a map is decoded once for many cgroups, and one
    /// that asks in which cgroup it runs once for each.
    #[test]
    fn one_drawing_for_many_cgroups() {
        let ends = [[0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]].concat();
        let loads_map = [[0x18, 0x11, 0, 0, 7, 0, 0, 0], [0; 8]].concat();
        let asks = [0x85, 0, 0, 0, 80, 0, 0, 0];
        let program = |id, begins: &[u8]| Program {
            id,
            map_ids: vec![7],
            xlated: Answer::Known(HexBytes([begins, &ends].concat())),
            calls: BTreeMap::from([(80, "bpf_get_current_cgroup_id".to_owned())]),
            ..Program::default()
        };
        let observation = Observation {
            programs: vec![program(1, &loads_map), program(2, &asks)],
            maps: vec![Map { id: 7, ..Map::default() }],
            ..Observation::default()
        };
        let (decoder, policies) = (&mut Decoder::new(), &Policies::new(&observation));
        let mut drawn = |program| {
            for id in 1..=5 {
                let cgroup = Cgroup {
                    path: "/job".into(),
                    id,
                    effective: Answer::Known(vec![program]),
                    ..Cgroup::default()
                };
                policies.of_cgroup(&cgroup, &[], decoder);
            }
            policies.known.take().len()
        };
        assert_eq!([drawn(1), drawn(2)], [1, 5]);
    }
}
