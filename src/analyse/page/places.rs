//! What the parts of a page share: the columns of the matrix with the questions that
//! programs are asked about each, which cgroups count for which owner of a list, and how
//! much one page has at most.
//!
//! A browser has to open the page, and 100 jobs are to fit into two megabytes; what a node
//! has beyond that is counted and named.

use std::collections::HashMap;

use crate::analyse::joined_node::in_scope;
use crate::analyse::{levels, matrix};
use crate::model::{CgroupPath, Device, DeviceType, Owner, Request, Verdict};
use crate::observation::{self, Observation};
use crate::report::{Cgroup, Finding, Gpu, MigInstance, OwnerSets, PageColumn, PageCut};

/// A column and its questions.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) shown: PageColumn,
    /// The column of the matrix.
    pub(super) in_sets: matrix::Column,
    pub(super) questions: Vec<(Device, Request)>,
}

/// The columns of the matrix.
pub(super) fn columns(gpus: &[Gpu]) -> Vec<Column> {
    let column = |in_sets: matrix::Column| {
        let (place, number) = in_sets.place;
        let gpu = gpus.get(place);
        let questions = match number {
            None => gpu.and_then(gate).into_iter().collect(),
            Some(number) => gpu.and_then(|gpu| gpu.mig.get(number)).map(capabilities).unwrap_or_default(),
        };
        let text = |(device, request): &(Device, Request)| format!("{device} {}", request.letters());
        let texts = questions.iter().map(text).collect();
        let shown = PageColumn { key: in_sets.key.clone(), gpu: place, instance: number, questions: texts };
        Column { shown, in_sets, questions }
    };
    matrix::columns(gpus).into_iter().map(column).collect()
}

/// What using a GPU asks of the programs.
fn gate(gpu: &Gpu) -> Option<(Device, Request)> {
    Some((char(gpu.major?, gpu.minor?), Request::ReadWrite))
}

/// An instance takes the capabilities of both levels, which are opened for reading. Its
/// GPU has a column of its own.
fn capabilities(part: &MigInstance) -> Vec<(Device, Request)> {
    let minors = [part.gi_minor, part.ci_minor].into_iter().flatten();
    let devices = minors.filter_map(|minor| Some(char(part.major?, minor)));
    devices.map(|device| (device, Request::Read)).collect()
}

fn char(major: u32, minor: u32) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}

/// What a cgroup's answer says of a column, and why if there is a reason.
pub(super) fn verdict<'a>(cgroup: &'a Cgroup, column: &Column) -> (Verdict, Option<&'a str>) {
    let Some(gpu) = cgroup.gpus.get(column.shown.gpu) else { return (Verdict::Unknown, None) };
    match column.shown.instance {
        None => (gpu.verdict, gpu.why.as_deref()),
        Some(number) => {
            let verdict = gpu.instances.get(number).map_or(Verdict::Unknown, |instance| instance.verdict);
            (verdict, gpu.why.as_deref())
        }
    }
}

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

/// Cells of the matrix.
const CELLS: usize = 6_000;

/// Marks in the drawings of levels: levels times columns.
const MARKS: usize = 11_500;

/// Instructions in all proofs together.
const STEPS: usize = 10_000;

/// Processes.
const PROCESSES: usize = 1_500;

/// Findings.
const FINDINGS: usize = 300;

/// Room that is left on the page, and what had no room.
#[derive(Debug)]
pub(super) struct Limits {
    marks: usize,
    steps: usize,
    pub(super) cuts: Vec<PageCut>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { marks: MARKS, steps: STEPS, cuts: Vec::new() }
    }
}

impl Limits {
    /// How many rows with so many columns the matrix has at most.
    pub(super) fn rows(columns: usize) -> usize {
        CELLS / columns.max(1)
    }

    /// How many processes there are at most.
    pub(super) fn processes() -> usize {
        PROCESSES
    }

    /// Takes room for a drawing; `false` if there is none.
    pub(super) fn take_marks(&mut self, count: usize) -> bool {
        take(&mut self.marks, count)
    }

    /// Takes room for the instructions of a proof; `false` if there is none.
    pub(super) fn take_steps(&mut self, count: usize) -> bool {
        take(&mut self.steps, count)
    }

    /// Notes what was left out, if anything was.
    pub(super) fn cut(&mut self, what: &str, count: usize, instead: &str) {
        if count > 0 {
            self.cuts.push(PageCut { what: what.to_owned(), count, instead: instead.to_owned() });
        }
    }

    /// Leaves out findings beyond the limit; the most severe are first.
    pub(super) fn findings(&mut self, findings: &mut Vec<Finding>) {
        let more = findings.len().saturating_sub(FINDINGS);
        findings.truncate(FINDINGS);
        self.cut("findings", more, "gpumap audit lists all");
    }
}

fn take(room: &mut usize, count: usize) -> bool {
    let rest = room.checked_sub(count);
    *room = rest.unwrap_or(*room);
    rest.is_some()
}
