//! A program made ready to run: its instructions, prepared, which are the same whatever
//! its maps hold; with operations, flow and the maps it can reach; and the programs of one
//! policy.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::as_loaded::Step;
use super::flow::Flow;
use super::helpers::{self, KernelFunction};
use super::linked::{Linked, Links};
use super::part::{MAX_INSNS, Part, each};
use super::stores::Stores;
use super::table::{self, CheckedMaps, Table, TableKind};
use super::types::Context;
use super::written::{self, SpoiledMaps, Written};
use crate::bytecode::{Arithmetic, Insn, Operand, Operation};
use crate::observation::{Map, Program};

/// A program prepared, with those that it may go on in. Copies are cheap.
#[derive(Clone, Debug)]
pub struct Parsed {
    pub(super) operations: Arc<Vec<Operation>>,
    pub(super) flow: Arc<Flow>,
    pub(super) calls: Arc<BTreeMap<i32, String>>,
    pub(super) lookups: Arc<BTreeMap<usize, Step>>,
    pub(super) plain_moves: Arc<BTreeSet<usize>>,
    pub(super) links: Arc<Links>,
    pub(super) may_touch_retval: bool,
    pub(super) handles_exceptions: bool,
    pub(super) names_maps: bool,
}

impl Parsed {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn of(program: &Program, maps: &[Map]) -> Result<Self, String> {
        let own = Part::of(program)?;
        let (handles_exceptions, names_maps) = (own.handles_exceptions(), own.names_maps());
        let Linked { all, links, is_circular } = Linked::of(own, program, maps);
        let may_touch_retval = each(&all.operations).any(|operation| may_touch_retval(operation, &all.calls));
        let mut flow = Flow::of(&all.operations);
        flow.enter(links.begins(), is_circular);
        Ok(Self {
            flow: Arc::new(flow),
            may_touch_retval,
            handles_exceptions,
            names_maps,
            operations: Arc::new(all.operations),
            calls: Arc::new(all.calls),
            lookups: Arc::new(all.lookups),
            plain_moves: Arc::new(all.plain_moves),
            links: Arc::new(links),
        })
    }
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

/// Additions and exclusive ors of two registers from which on a program may be
/// too complex; one multiplication or variable shift is enough.
const COMPLEX: usize = 16;

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
    /// The programs that it may go on in.
    pub links: Arc<Links>,
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
    handles_exceptions: bool,
    is_blinded: bool,
}

impl<'a> Code<'a> {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn new(program: &Program, context: &Context<'a>) -> Result<Self, String> {
        Ok(Self::with(Parsed::of(program, context.maps)?, program, context.maps, context.path(), None))
    }

    /// The same with the instructions, and perhaps the maps, prepared before.
    pub fn with(
        parsed: Parsed,
        program: &Program,
        maps: &'a [Map],
        path: Vec<u64>,
        checked: Option<&'a CheckedMaps>,
    ) -> Self {
        let Parsed { operations, flow, calls, lookups, plain_moves, links, .. } = parsed;
        let Parsed { may_touch_retval, handles_exceptions, names_maps, .. } = parsed;
        let maps = table::of_program(program, maps, checked);
        let own = written::own(&maps);
        let is_blinded = !maps.is_empty() && !names_maps;
        let unfollowed = OnceCell::new();
        Self {
            operations,
            flow,
            calls,
            lookups,
            plain_moves,
            links,
            maps,
            unfollowed,
            own,
            path,
            may_touch_retval,
            handles_exceptions,
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

    /// Whether a function of the program may handle its exceptions.
    pub fn handles_exceptions(&self) -> bool {
        self.handles_exceptions
    }

    /// A place behind all instructions for paths that go on in a program which is not
    /// followed: the first of many.
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

/// A program made ready to run, if its instructions are known.
#[derive(Debug)]
pub(super) struct ProgramCode<'a> {
    pub(super) program: &'a Program,
    pub(super) code: Result<Code<'a>, String>,
    pub(super) maps: &'a [Map],
}

/// What the programs may write at most.
pub(super) fn most_written(codes: &[ProgramCode<'_>]) -> Written {
    let mut written = Written::default();
    codes.iter().for_each(|code| written.add_all(&code.most_written()));
    written
}

impl ProgramCode<'_> {
    /// Whether the program as a whole may outgrow the limits.
    pub(super) fn may_be_complex(&self) -> bool {
        self.code.as_ref().is_ok_and(Code::may_be_complex)
    }

    /// Whether the program may ask in which cgroup it runs.
    pub(super) fn may_read_cgroup_id(&self) -> bool {
        self.code.as_ref().is_ok_and(Code::may_read_cgroup_id)
    }

    /// What the program may write at most.
    pub(super) fn most_written(&self) -> Written {
        match &self.code {
            Ok(code) => code.unfollowed().clone(),
            Err(_) => written::unread(self.program, self.maps),
        }
    }
}

/// The programs made ready to run, in their order.
pub(super) fn codes<'a>(programs: &[&'a Program], context: &Context<'a>) -> Vec<ProgramCode<'a>> {
    let ready = |program: &&'a Program| ProgramCode {
        program,
        code: Code::new(program, context),
        maps: context.maps,
    };
    programs.iter().map(ready).collect()
}
