//! A program made ready to run: operations, flow, the maps it can reach.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bytecode::{Arithmetic, Insn, Operand, Operation};
use crate::observation::{Map, Program};

use super::as_loaded::{self, Step};
use super::clobber;
use super::flow::Flow;
use super::helpers::{self, KernelFunction};
use super::hidden;
use super::plain_moves::plain_moves;
use super::replaced::replaced;
use super::stores::Stores;
use super::table::{self, CheckedMaps, Table, TableKind};
use super::types::Context;
use super::written::{SpoiledMaps, Written};

/// Longest program the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf.h`).
const MAX_INSNS: usize = 1_000_000;
/// Additions and exclusive ors of two registers from which on a program may be
/// too complex; one multiplication or variable shift is enough.
const COMPLEX: usize = 16;

/// The instructions of a program, prepared: what is the same whatever its maps
/// hold. Copies are cheap.
#[derive(Clone, Debug)]
pub struct Parsed {
    operations: Arc<Vec<Operation>>,
    flow: Arc<Flow>,
    calls: Arc<BTreeMap<i32, String>>,
    lookups: Arc<BTreeMap<usize, Step>>,
    plain_moves: Arc<BTreeSet<usize>>,
    may_touch_retval: bool,
    names_maps: bool,
}

impl Parsed {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn of(program: &Program) -> Result<Self, String> {
        if let Some(why) = replaced(program) {
            return Err(why);
        }
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
            Some(named) => (named.insns.clone(), named.calls.clone()),
            None => (insns, program.calls.clone()),
        };
        let operations = Operation::decode_all(&insns);
        let lookups = nameless_lookups(&operations, &insns, &calls);
        let names_maps = |operation: &Operation| {
            matches!(operation, Operation::LoadMap { .. } | Operation::LoadMapValue { .. })
        };
        let name = |helper| calls.get(&helper).map(String::as_str);
        let plain_moves = plain_moves(&operations, name, |call| helpers::known_function(&calls, call));
        let may_touch_retval = each(&operations).any(|operation| may_touch_retval(operation, &calls));
        let names_maps = each(&operations).any(names_maps);
        Ok(Self {
            flow: Arc::new(Flow::of(&operations)),
            may_touch_retval,
            names_maps,
            operations: Arc::new(operations),
            calls: Arc::new(calls),
            lookups: Arc::new(lookups),
            plain_moves: Arc::new(plain_moves),
        })
    }
}

/// A program ready to run.
#[derive(Debug)]
pub struct Code<'a> {
    /// What each slot does.
    pub operations: Arc<Vec<Operation>>,
    /// Where paths meet and what stays live.
    pub flow: Arc<Flow>,
    /// Symbols behind helper calls.
    calls: Arc<BTreeMap<i32, String>>,
    /// The calls without a name that can only be lookups.
    lookups: Arc<BTreeMap<usize, Step>>,
    /// The moves that are not clear, but plain where they move an address.
    plain_moves: Arc<BTreeSet<usize>>,
    /// The maps of the program, and after them those inside these.
    pub maps: Vec<Table<'a>>,
    /// What a part of the program that could not be followed may write, once
    /// somebody has asked.
    unfollowed: OnceCell<Written>,
    /// What a store through an address of unknown origin may write.
    pub own: Written,
    /// The ids of the cgroups from the root down to the one asked about, if they are
    /// known.
    pub path: Vec<u64>,
    may_touch_retval: bool,
    is_blinded: bool,
}

impl<'a> Code<'a> {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn new(program: &Program, context: &Context<'a>) -> Result<Self, String> {
        Ok(Self::with(Parsed::of(program)?, program, context.maps, context.path(), None))
    }

    /// The same with the instructions, and perhaps the maps, prepared before.
    pub fn with(
        parsed: Parsed,
        program: &Program,
        maps: &'a [Map],
        path: Vec<u64>,
        checked: Option<&'a CheckedMaps>,
    ) -> Self {
        let Parsed { operations, flow, calls, lookups, plain_moves, may_touch_retval, names_maps } = parsed;
        let maps = table::of_program(program, maps, checked);
        let own = clobber::own(&maps);
        let is_blinded = !maps.is_empty() && !names_maps;
        let unfollowed = OnceCell::new();
        Self {
            operations,
            flow,
            calls,
            lookups,
            plain_moves,
            maps,
            unfollowed,
            own,
            path,
            may_touch_retval,
            is_blinded,
        }
    }

    /// Whether the program calculates in a way that may outgrow a diagram of
    /// all questions: a policy of comparisons does not.
    pub fn may_be_complex(&self) -> bool {
        are_complex(&self.operations)
    }

    /// The places in the program's maps that `written` may have changed.
    pub fn spoiled_by(&self, written: &Written) -> SpoiledMaps {
        let spoiled = |table: &Table<'_>| written.of(table.id, table.read_only);
        self.maps.iter().enumerate().filter_map(|(place, table)| Some((place, spoiled(table)?))).collect()
    }

    /// What a part of the program that could not be followed may write.
    pub fn unfollowed(&self) -> &Written {
        self.unfollowed.get_or_init(|| {
            let Self { operations, flow, calls, maps, own, is_blinded, .. } = self;
            Stores { operations, flow, calls, maps, own, is_blinded: *is_blinded }.written()
        })
    }

    /// Whether the program has maps and names none of them: the kernel has
    /// blinded its constants, and a map's address looks like a number.
    pub fn is_blinded(&self) -> bool {
        self.is_blinded
    }

    /// The kernel symbol of a helper, if known.
    pub fn symbol(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Whether the call at `pc`, which has no name, can only be a lookup in this map
    /// (see [`as_loaded::element_step`]).
    pub fn can_only_be_lookup(&self, pc: usize, map: &Table<'_>) -> bool {
        let fits = |Step { step, read }: &Step| map.value_size <= *step && *read <= map.value_size;
        map.kind == TableKind::Hash && self.lookups.get(&pc).is_some_and(fits)
    }

    /// Whether the move at `pc`, which is not clear, is plain where it moves an address.
    pub fn moves_addresses(&self, pc: usize) -> bool {
        self.plain_moves.contains(&pc)
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

    /// Whether a function of the program may handle its exceptions. Where none does, the
    /// kernel adds one that returns what was thrown, behind all others, which nothing
    /// leads to (`do_misc_fixups`, `kernel/bpf/verifier.c`). Code of the program that
    /// nothing leads to is removed.
    pub fn handles_exceptions(&self) -> bool {
        let Some(start) = self.operations.len().checked_sub(2) else { return true };
        let returns = matches!(
            self.operations[start..],
            [
                Operation::Arithmetic {
                    kind: Arithmetic::Move,
                    width: 64,
                    dst: 0,
                    source: Operand::Register(1)
                },
                Operation::Exit
            ]
        );
        let leads_here = |(pc, operation): (usize, &Operation)| match operation {
            Operation::Jump { target } | Operation::CallLocal { target } => *target == start,
            Operation::LoadSubprogram { target, .. } => *target == start,
            Operation::Branch { target, .. } => *target == start || pc + 1 == start,
            Operation::Exit => false,
            _ => pc + operation.slots() == start,
        };
        !returns || self.operations.iter().enumerate().any(leads_here)
    }

    /// A place behind all instructions for paths that go on in another program.
    pub fn elsewhere(&self) -> usize {
        self.operations.len() + MAX_INSNS
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

/// The same of a program that is not prepared yet; one whose instructions are not
/// known is not complex.
pub fn may_be_complex(program: &Program) -> bool {
    let insns = program.xlated.known().and_then(|bytes| Insn::parse_all(&bytes.0));
    insns.is_some_and(|insns| are_complex(&Operation::decode_all(&insns)))
}

fn are_complex(operations: &[Operation]) -> bool {
    let mixes = |operation: &&Operation| {
        let (Operation::Arithmetic { kind, source, .. } | Operation::Unclear { kind, source, .. }) =
            operation
        else {
            return false;
        };
        let is_register = matches!(source, Operand::Register(_));
        match kind {
            Arithmetic::Mul | Arithmetic::Div | Arithmetic::Mod => true,
            Arithmetic::SignedDiv | Arithmetic::SignedMod => true,
            Arithmetic::Move | Arithmetic::MoveSigned(_) | Arithmetic::And | Arithmetic::Or => false,
            // The address of something else.
            Arithmetic::MovePerCpu | Arithmetic::MoveSpace => false,
            _ => is_register,
        }
    };
    let weight = |operation: &Operation| match operation {
        Operation::Arithmetic { kind: Arithmetic::Add | Arithmetic::Sub, .. } => 1,
        Operation::Arithmetic { kind: Arithmetic::Xor, .. } => 1,
        _ => COMPLEX,
    };
    each(operations).filter(mixes).map(weight).sum::<usize>() >= COMPLEX
}

fn nameless_lookups(
    operations: &[Operation],
    insns: &[Insn],
    calls: &BTreeMap<i32, String>,
) -> BTreeMap<usize, Step> {
    let is_nameless = |operation: &Operation| match operation {
        Operation::CallHelper { helper } => !calls.contains_key(helper),
        _ => false,
    };
    let calls = operations.iter().enumerate().filter(|(_, operation)| is_nameless(operation));
    calls.filter_map(|(pc, _)| Some((pc, as_loaded::element_step(insns, pc)?))).collect()
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
        Operation::CallKernel { function } => helpers::known_function(calls, *function).is_none(),
        Operation::Unsupported { .. } => true,
        Operation::Arithmetic { .. }
        | Operation::Unclear { .. }
        | Operation::SwapBytes { .. }
        | Operation::LoadConstant { .. }
        | Operation::LoadMap { .. }
        | Operation::LoadMapValue { .. }
        | Operation::LoadSubprogram { .. }
        | Operation::LoadUnknown { .. }
        | Operation::Load { .. }
        | Operation::Store { .. }
        | Operation::Atomic { .. }
        | Operation::Jump { .. }
        | Operation::Branch { .. }
        | Operation::CallLocal { .. }
        | Operation::Exit
        | Operation::Nothing => false,
    }
}
