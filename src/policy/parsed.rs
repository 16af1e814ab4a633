//! A program prepared to run, with those that it goes on in: what is the same whatever
//! the other maps hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bytecode::Operation;
use crate::observation::{Map, Program};

use super::as_loaded::Step;
use super::flow::Flow;
use super::helpers;
use super::linked::Linked;
use super::links::Links;
use super::part::{Part, each};

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
