//! Programs that a program goes on in (tail calls), behind its own instructions.
//!
//! A map for tail calls names programs, and no program can write to it. So what is in it
//! at the time of the observation is what is called, as with every map that user space
//! may write to. Each program is there once, and only a tail call leads from one into
//! another.

use std::collections::{BTreeMap, VecDeque};

use super::part::{MAX_INSNS, Part, each};
use crate::bytecode::Operation;
use crate::model::MapType;
use crate::observation::{Map, Program};

/// Why a path is not followed that goes on in another program.
pub const ELSEWHERE: &str = "the program continues in another one (tail call)";

/// The most tail calls that the kernel makes one after the other
/// (`MAX_TAIL_CALL_CNT`, `linux/bpf.h`). The next one does nothing.
pub const MOST_TAIL_CALLS: usize = 33;

/// Where a tail call leads.
#[derive(Clone, Debug)]
pub enum Called {
    /// To this slot.
    At(usize),
    /// To a program that is not followed, for the reason with this number.
    Lost(usize),
}

/// The programs behind a program, and those that cannot be there.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// By their ids.
    pub(super) called: BTreeMap<u32, Called>,
    /// Where the programs behind the first begin, in order.
    pub(super) begins: Vec<(usize, u32)>,
    /// Why programs are not followed.
    pub(super) lost: Vec<String>,
}

impl Links {
    /// Where a call of the program with this id leads; `None` if it is not known.
    pub fn called(&self, id: u32) -> Option<&Called> {
        self.called.get(&id)
    }

    /// The reason with this number.
    pub fn why(&self, number: usize) -> Option<&str> {
        self.lost.get(number).map(String::as_str)
    }

    /// The slots that tail calls lead to.
    pub fn begins(&self) -> impl Iterator<Item = usize> {
        self.called.values().filter_map(|called| match called {
            Called::At(begin) => Some(*begin),
            Called::Lost(_) => None,
        })
    }

    /// The program whose instruction is at `pc`, if it is not the first, and its slot
    /// there.
    pub fn place(&self, pc: usize) -> (Option<u32>, usize) {
        let behind = self.begins.partition_point(|(begin, _)| *begin <= pc);
        let program = behind.checked_sub(1).and_then(|last| self.begins.get(last));
        program.map_or((None, pc), |(begin, id)| (Some(*id), pc - begin))
    }
}

/// What stands between two programs: no instruction of a program that was loaded leads
/// there.
const BETWEEN: Operation = Operation::Unsupported { code: 0, why: "behind the end of a program" };

/// A program with those behind it that it may go on in.
pub struct Linked {
    /// The instructions of all of them.
    pub all: Part,
    /// Where each begins.
    pub links: Links,
    /// Whether a program may lead to one that is before it.
    pub is_circular: bool,
}

impl Linked {
    /// Puts the programs together; `own` are the instructions of `program`.
    pub fn of(own: Part, program: &Program, maps: &[Map]) -> Self {
        let is_alone = why_alone(&own, program);
        let mut linked = Self { all: own, links: Links::default(), is_circular: false };
        let mut left = VecDeque::from([program]);
        while let Some(caller) = left.pop_front() {
            for called in called_by(caller, maps) {
                if linked.links.called.contains_key(&called.id) {
                    linked.is_circular = true;
                    continue;
                }
                let refused = |why: &String| Err(format!("called by a program {why}"));
                let place = is_alone.as_ref().map_or_else(|| linked.add(called, maps), refused);
                if place.is_ok() {
                    left.push_back(called);
                }
                let place = place.map_or_else(|why| linked.lose(called, &why), Called::At);
                linked.links.called.insert(called.id, place);
            }
        }
        linked
    }

    fn lose(&mut self, called: &Program, why: &str) -> Called {
        self.links.lost.push(format!("{}: program {}, {why}", ELSEWHERE, called.id));
        Called::Lost(self.links.lost.len() - 1)
    }

    /// Puts a program behind the others; where it begins, or why it cannot be followed.
    fn add(&mut self, program: &Program, maps: &[Map]) -> Result<usize, String> {
        let part = Part::of(program).map_err(|why| format!("of which nothing is known: {why}"))?;
        if let Some(why) = why_alone(&part, program) {
            return Err(why);
        }
        let is_storage = |id: &u32| {
            let map = maps.iter().find(|map| map.id == *id);
            map.is_some_and(|map| matches!(map.kind, MapType::CgroupStorage | MapType::PercpuCgroupStorage))
        };
        if program.map_ids.iter().any(is_storage) {
            return Err("which reads what is kept for the program that is attached".to_owned());
        }
        let all = self.all.operations.len() + part.operations.len() + 2;
        if self.links.begins.len() == MOST_TAIL_CALLS || all > MAX_INSNS {
            return Err(format!(
                "and there are more than {MOST_TAIL_CALLS} programs or {MAX_INSNS} instructions"
            ));
        }
        self.all.operations.extend([BETWEEN; 2]);
        let begin = self.all.operations.len();
        self.links.begins.push((begin, program.id));
        self.append(part, begin);
        Ok(begin)
    }

    fn append(&mut self, part: Part, begin: usize) {
        let numbers = self.numbers(&part);
        let renamed = |call: i32| numbers.get(&call).copied().unwrap_or(call);
        let shifted = part.operations.iter().map(|operation| match *operation {
            Operation::CallHelper { helper } => Operation::CallHelper { helper: renamed(helper) },
            Operation::CallKernel { function } => Operation::CallKernel { function: renamed(function) },
            other => shifted(other, begin),
        });
        self.all.operations.extend(shifted);
        self.all.calls.extend(part.calls.into_iter().map(|(call, name)| (renamed(call), name)));
        self.all.lookups.extend(part.lookups.into_iter().map(|(pc, step)| (pc + begin, step)));
        self.all.plain_moves.extend(part.plain_moves.into_iter().map(|pc| pc + begin));
    }

    /// Other numbers for the calls of a part, which mean something else there than in
    /// those before it: both are the kernel's distances, unless one was proven by its tag.
    fn numbers(&self, part: &Part) -> BTreeMap<i32, i32> {
        let known = calls(&self.all);
        let free =
            (i32::MIN..).filter(|number| !known.contains_key(number) && !part.calls.contains_key(number));
        let differs =
            calls(part).into_iter().filter(|(call, name)| known.get(call).is_some_and(|it| it != name));
        differs.map(|(call, _)| call).zip(free).collect()
    }
}

/// The numbers by which a part calls functions of the kernel, and their names.
fn calls(part: &Part) -> BTreeMap<i32, Option<&str>> {
    let call = |operation: &Operation| match *operation {
        Operation::CallHelper { helper } if !super::helpers::is_tail_call(helper, None) => Some(helper),
        Operation::CallKernel { function } => Some(function),
        _ => None,
    };
    let numbers = each(&part.operations).filter_map(call);
    numbers.map(|number| (number, part.calls.get(&number).map(String::as_str))).collect()
}

/// The programs in the maps of a program.
fn called_by<'m>(caller: &Program, maps: &'m [Map]) -> impl Iterator<Item = &'m Program> {
    let own = caller.map_ids.iter().filter_map(|id| maps.iter().find(|map| map.id == *id));
    own.filter(|map| map.kind == MapType::ProgArray).flat_map(|map| &map.programs)
}

/// Why a program cannot stand beside others.
fn why_alone(part: &Part, program: &Program) -> Option<String> {
    let end = part.operations.len();
    let leads_out = |operation: &Operation| match *operation {
        Operation::Jump { target }
        | Operation::Branch { target, .. }
        | Operation::CallLocal { target }
        | Operation::LoadSubprogram { target, .. } => target >= end,
        _ => false,
    };
    match () {
        () if !program.map_ids.is_empty() && !part.names_maps() => Some("which is blinded".to_owned()),
        () if part.throws() => Some("which calls functions of the kernel that may end it".to_owned()),
        () if part.operations.iter().any(leads_out) => Some("which leads out of itself".to_owned()),
        () => None,
    }
}

/// An operation `by` slots further on.
fn shifted(operation: Operation, by: usize) -> Operation {
    match operation {
        Operation::Jump { target } => Operation::Jump { target: target + by },
        Operation::Branch { comparison, width, dst, source, target } => {
            Operation::Branch { comparison, width, dst, source, target: target + by }
        }
        Operation::CallLocal { target } => Operation::CallLocal { target: target + by },
        Operation::LoadSubprogram { dst, target } => Operation::LoadSubprogram { dst, target: target + by },
        Operation::Arithmetic { .. }
        | Operation::Unclear { .. }
        | Operation::SwapBytes { .. }
        | Operation::LoadConstant { .. }
        | Operation::LoadMap { .. }
        | Operation::LoadMapValue { .. }
        | Operation::LoadUnknown { .. }
        | Operation::Load { .. }
        | Operation::Store { .. }
        | Operation::Atomic { .. }
        | Operation::CallHelper { .. }
        | Operation::CallKernel { .. }
        | Operation::Exit
        | Operation::Nothing
        | Operation::Unsupported { .. } => operation,
    }
}
