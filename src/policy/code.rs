//! A program made ready to run: operations, flow, the maps it can reach.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::bytecode::{Insn, Operation};
use crate::observation::{Map, Program};

use super::clobber;
use super::flow::Flow;
use super::helpers::{self, KernelFunction};
use super::hidden;
use super::table::{self, Table};
use super::written::{Places, Written};

/// Longest program the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf.h`).
const MAX_INSNS: usize = 1_000_000;

/// A program ready to run.
#[derive(Debug)]
pub struct Code<'a> {
    /// The operation of each slot.
    pub operations: Vec<Operation>,
    /// Where paths meet, and which registers are still used.
    pub flow: Flow,
    /// Names of the functions that calls lead to.
    calls: Cow<'a, BTreeMap<i32, String>>,
    /// The maps of the program, and after them those inside these.
    pub maps: Vec<Table<'a>>,
    /// The maps that a part of the program may write that could not be followed.
    pub unfollowed: Written,
    /// The maps that a store through an address of unknown origin may write.
    pub own: Written,
    may_touch_retval: bool,
    is_blinded: bool,
}

impl<'a> Code<'a> {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn new(program: &'a Program, maps: &'a [Map]) -> Result<Self, String> {
        let bytes = program.xlated.known().ok_or_else(|| {
            let why = program.xlated.missing().unwrap_or_default();
            format!("the instructions of program {} could not be read: {why}", program.id)
        })?;
        let insns = Insn::parse_all(&bytes.0)
            .filter(|insns| !insns.is_empty() && insns.len() <= MAX_INSNS)
            .ok_or_else(|| {
            format!("program {} has {} bytes, which is no program", program.id, bytes.0.len())
        })?;
        let (insns, calls) = match hidden::named(program, &insns) {
            Some(named) => (named.insns.clone(), Cow::Owned(named.calls.clone())),
            None => (insns, Cow::Borrowed(&program.calls)),
        };
        let operations = Operation::decode_all(&insns);
        let flow = Flow::of(&operations);
        let maps = table::of_program(program, maps);
        let may_touch_retval = each(&operations).any(|operation| may_touch_retval(operation, &calls));
        let own = clobber::own(&maps);
        let unfollowed = clobber::unfollowed(each(&operations), &calls, &maps, &own);
        let names_maps = |operation: &Operation| {
            matches!(operation, Operation::LoadMap { .. } | Operation::LoadMapValue { .. })
        };
        let is_blinded = !maps.is_empty() && !each(&operations).any(names_maps);
        Ok(Self { operations, flow, calls, maps, unfollowed, own, may_touch_retval, is_blinded })
    }

    /// The places in the program's maps that `written` may have changed.
    pub fn spoiled_by(&self, written: &Written) -> Places {
        let spoiled = |table: &Table<'_>| written.of(table.id, table.read_only);
        self.maps.iter().enumerate().filter_map(|(place, table)| Some((place, spoiled(table)?))).collect()
    }

    /// Whether the program has maps but names none of them: the kernel has blinded
    /// its constants, so a map's address looks like a number.
    pub fn is_blinded(&self) -> bool {
        self.is_blinded
    }

    /// The kernel symbol of a helper, if known.
    pub fn symbol(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// The function of the kernel at this distance, if gpumap runs it; else why
    /// a path ends there.
    pub fn kernel_function(&self, distance: i32) -> Result<KernelFunction, String> {
        match self.calls.get(&distance) {
            None => Err("the program calls a kernel function whose name is not known".to_owned()),
            Some(name) => helpers::kernel_function(name)
                .ok_or_else(|| format!("the program calls the kernel function {name}")),
        }
    }

    /// Place of the map with `id` in [`Code::maps`].
    pub fn map(&self, id: u32) -> Option<usize> {
        self.maps.iter().position(|table| table.id == id)
    }

    /// Whether the program may read or change the error that the hook
    /// returns, itself or through code that gpumap cannot follow.
    pub fn may_touch_retval(&self) -> bool {
        self.may_touch_retval
    }

    /// Whether the verdict may depend on the cgroup asked about.
    pub fn may_read_cgroup_id(&self) -> bool {
        self.helpers().any(|symbol| symbol.is_some_and(helpers::reads_cgroup_id))
    }

    fn helpers(&self) -> impl Iterator<Item = Option<&str>> {
        each(&self.operations).filter_map(|operation| match operation {
            Operation::CallHelper { helper } => Some(self.symbol(*helper)),
            _ => None,
        })
    }
}

/// The operations without the second slots of two-slot loads.
fn each(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    let mut pc = 0;
    std::iter::from_fn(move || {
        let operation = operations.get(pc)?;
        pc += operation.slots();
        Some(operation)
    })
}

fn may_touch_retval(operation: &Operation, calls: &BTreeMap<i32, String>) -> bool {
    match operation {
        Operation::CallHelper { helper } => helpers::may_touch_retval(calls.get(helper).map(String::as_str)),
        Operation::CallKernel { function } => !helpers::is_known_function(calls, *function),
        Operation::Unsupported(_) => true,
        _ => false,
    }
}
