//! What a program may write, found without running it: every store of the program,
//! with all that its address can lead to ([`address`](super::address)). It is the bound
//! for paths that `machine` gives up.
//!
//! The search goes through all instructions that can be reached, again and again
//! until it finds nothing new. It does not tell places on the stacks apart: one set
//! has the addresses that are kept on any stack, one those that any function returns,
//! and one those that any function called by a helper is handed. An instruction that
//! the search does not reach (for example in a function that handles exceptions) counts
//! as a store to anywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytecode::{Arithmetic, Comparison, Operand, Operation};

use super::address::{AddressSet, Number, Pointee};
use super::clobber;
use super::flow::Flow;
use super::helpers::{self, Effect, KernelFunction, LookupResult};
use super::state::REGISTERS;
use super::table::{Table, TableKind};
use super::written::{Bytes, Spoil, Written};

/// Instructions gone through before every store counts as one to anywhere.
const MAX_STEPS: usize = 1 << 20;
/// Times that the program is gone through because more is kept on the stack.
const MAX_ROUNDS: usize = 16;
/// The registers in which functions get what they are handed, r1 to r5.
const ARGUMENTS: usize = 5;
/// The frame pointer.
const R10: usize = 10;

type AddressRegisters = [AddressSet; REGISTERS];

/// A program to go through.
pub struct Stores<'a> {
    pub operations: &'a [Operation],
    pub flow: &'a Flow,
    pub calls: &'a BTreeMap<i32, String>,
    pub maps: &'a [Table<'a>],
    /// What a store to anywhere may write.
    pub own: &'a Written,
    /// Whether the kernel blinded the program: addresses of maps look like
    /// numbers.
    pub is_blinded: bool,
}

impl Stores<'_> {
    /// All that the program may write.
    pub fn written(&self) -> Written {
        let tail_call = |operation: &Operation| matches!(operation, Operation::CallHelper { helper } if helpers::is_tail_call(*helper, self.name(*helper)));
        if self.operations.iter().any(tail_call) {
            // The program goes on in another one, with other maps.
            return Written::everything();
        }
        let search = (!self.is_blinded).then(|| Search::of(self)).flatten();
        match search {
            Some(search) => search.with_unseen(),
            None => self.anywhere((0..self.operations.len()).filter(|pc| self.is_operation(*pc))),
        }
    }

    fn name(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Whether a function of the kernel writes at most to the stack, where iterators are,
    /// and to what was counted before.
    fn writes_no_map(&self, function: i32) -> bool {
        let known = helpers::known_function(self.calls, function);
        known.is_some_and(|known| known != KernelFunction::Slice)
    }

    /// Whether an instruction begins here, not its second slot.
    fn is_operation(&self, pc: usize) -> bool {
        pc.checked_sub(1).is_none_or(|before| self.operations[before].slots() == 1)
    }

    /// What these instructions write if their addresses are not known.
    fn anywhere(&self, operations: impl Iterator<Item = usize>) -> Written {
        let mut written = Written::default();
        for pc in operations {
            match &self.operations[pc] {
                Operation::Store { base, .. } | Operation::Atomic { base, .. } if *base == R10 => {}
                Operation::Store { .. } | Operation::Atomic { .. } => written.add_all(self.own),
                Operation::CallHelper { helper } => match self.name(*helper) {
                    Some(name) if helpers::is_harmless(name) => {}
                    _ => written.add_all(&clobber::handed(self.maps, self.own)),
                },
                Operation::CallKernel { function } if self.writes_no_map(*function) => {}
                Operation::CallKernel { .. }
                | Operation::Unsupported { .. }
                | Operation::LoadSubprogram { .. } => {
                    written.add_all(&clobber::handed(self.maps, self.own));
                }
                Operation::Arithmetic { .. }
                | Operation::Unclear { .. }
                | Operation::SwapBytes { .. }
                | Operation::LoadConstant { .. }
                | Operation::LoadMap { .. }
                | Operation::LoadMapValue { .. }
                | Operation::LoadUnknown { .. }
                | Operation::Load { .. }
                | Operation::Jump { .. }
                | Operation::Branch { .. }
                | Operation::CallLocal { .. }
                | Operation::Exit
                | Operation::Nothing => {}
            }
        }
        written
    }
}

/// A program being gone through.
struct Search<'a> {
    code: &'a Stores<'a>,
    written: Written,
    /// What is kept on any stack.
    kept: AddressSet,
    /// What any function returns.
    returned: AddressSet,
    /// What a function is handed that a helper calls, by register.
    handed: [AddressSet; ARGUMENTS],
    /// What was found where paths meet.
    meetings: BTreeMap<usize, AddressRegisters>,
    waiting: Vec<(usize, AddressRegisters)>,
    seen: Vec<bool>,
    steps: usize,
    /// Whether one of the sets for the whole program grew.
    has_grown: bool,
    /// Whether all sets are complete, so that what a store reaches is noted.
    is_complete: bool,
}

impl<'a> Search<'a> {
    /// Goes through the program; `None` if that takes too long.
    fn of(code: &'a Stores<'a>) -> Option<Self> {
        let mut search = Self {
            code,
            written: Written::default(),
            kept: AddressSet::any_number(),
            returned: AddressSet::any_number(),
            handed: std::array::from_fn(|_| AddressSet::any_number()),
            meetings: BTreeMap::new(),
            waiting: Vec::new(),
            seen: vec![false; code.operations.len()],
            steps: 0,
            has_grown: true,
            is_complete: false,
        };
        for _ in 0..MAX_ROUNDS {
            if !std::mem::take(&mut search.has_grown) {
                search.is_complete = true;
                search.go_through(search.meetings.clone())?;
                return Some(search);
            }
            search.meetings.clear();
            search.go_through(BTreeMap::new())?;
        }
        None
    }

    /// Goes through the program from its start and from these meeting points.
    fn go_through(&mut self, meetings: BTreeMap<usize, AddressRegisters>) -> Option<()> {
        self.waiting.extend(meetings);
        self.enter(0, &[(1, Pointee::Argument.into())]);
        while let Some((pc, registers)) = self.waiting.pop() {
            self.go_on(pc, registers)?;
        }
        Some(())
    }

    /// Notes what may be written.
    fn note(&mut self, written: &Written) {
        if self.is_complete {
            self.written.add_all(written);
        }
    }

    /// What is written, with the instructions that were never reached.
    fn with_unseen(self) -> Written {
        let is_unseen = |pc: &usize| !self.seen[*pc] && self.code.is_operation(*pc);
        let mut written = self.code.anywhere((0..self.code.operations.len()).filter(is_unseen));
        written.add_all(&self.written);
        written
    }

    /// A function begins with these arguments.
    fn enter(&mut self, pc: usize, arguments: &[(usize, AddressSet)]) {
        let mut registers: AddressRegisters = std::array::from_fn(|_| AddressSet::any_number());
        registers[R10] = Pointee::Stack.into();
        for (register, argument) in arguments {
            registers[*register] = argument.clone();
        }
        self.arrive(pc, registers);
    }

    /// Goes on at `pc`, if anything new comes of it.
    fn arrive(&mut self, pc: usize, registers: AddressRegisters) {
        if !self.code.flow.joins.get(pc).copied().unwrap_or(false) {
            return self.waiting.push((pc, registers));
        }
        let is_new = match self.meetings.get_mut(&pc) {
            None => {
                self.meetings.insert(pc, registers);
                true
            }
            Some(known) => {
                let joined = known.iter_mut().zip(&registers);
                joined.fold(false, |is_new, (known, register)| known.join(register) | is_new)
            }
        };
        if is_new && let Some(known) = self.meetings.get(&pc) {
            self.waiting.push((pc, known.clone()));
        }
    }

    /// Goes from `pc` to the next meeting point or end. `None` if it has taken
    /// too long.
    fn go_on(&mut self, mut pc: usize, mut registers: AddressRegisters) -> Option<()> {
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            let Some(operation) = self.code.operations.get(pc) else { return Some(()) };
            self.seen[pc] = true;
            let next = match *operation {
                Operation::Jump { target } => target,
                Operation::Branch { comparison, width, dst, source, target } => {
                    let mut taken = registers.clone();
                    // Null is not the address that it was on the other side.
                    match (comparison, width, source) {
                        (Comparison::Equal, 64, Operand::Immediate(0)) => {
                            taken[dst] = Number::Exact(0).into()
                        }
                        (Comparison::NotEqual, 64, Operand::Immediate(0)) => {
                            registers[dst] = Number::Exact(0).into();
                        }
                        _ => {}
                    }
                    self.arrive(target, taken);
                    pc + 1
                }
                Operation::Exit => {
                    self.has_grown |= self.returned.join(&registers[0]);
                    return Some(());
                }
                Operation::Unsupported { .. } => {
                    self.note(&clobber::handed(self.code.maps, self.code.own));
                    return Some(());
                }
                Operation::CallLocal { target } => {
                    let arguments: Vec<(usize, AddressSet)> =
                        (1..6).map(|register| (register, registers[register].clone())).collect();
                    self.enter(target, &arguments);
                    self.end_call(&mut registers, self.returned.clone());
                    pc + 1
                }
                straight => {
                    self.step(straight, &mut registers);
                    pc + straight.slots()
                }
            };
            if self.code.flow.joins.get(next).copied().unwrap_or(false) {
                self.arrive(next, registers);
                return Some(());
            }
            pc = next;
        }
    }

    fn end_call(&self, registers: &mut AddressRegisters, result: AddressSet) {
        registers[0] = result;
        registers[1..6].fill(AddressSet::any_number());
    }

    /// What an instruction leaves after which the next one follows.
    fn step(&mut self, operation: Operation, registers: &mut AddressRegisters) {
        match operation {
            Operation::Arithmetic { kind, width, dst, source, .. } => {
                let right = match source {
                    Operand::Register(register) => registers[register].clone(),
                    Operand::Immediate(number) => Number::Exact(number).into(),
                };
                registers[dst] = self.arithmetic(kind, width, &registers[dst], &right);
            }
            Operation::Unclear { dst, source, .. } => {
                let mut result = AddressSet::from(Pointee::Anywhere);
                if let Operand::Register(source) = source {
                    result.join(&registers[source]);
                }
                result.number = Number::ANY;
                registers[dst] = result;
            }
            Operation::LoadConstant { dst, value } => registers[dst] = Number::Exact(value).into(),
            Operation::LoadMap { dst, map } => registers[dst] = self.map(map, Pointee::Map).into(),
            Operation::LoadMapValue { dst, map, offset } => {
                let value = |place| Pointee::Value(place, Some(offset.into()));
                registers[dst] = self.map(map, value).into();
            }
            Operation::LoadSubprogram { dst, target } => {
                registers[dst] = Pointee::Function.into();
                let arguments: Vec<(usize, AddressSet)> = (1..).zip(self.handed.iter().cloned()).collect();
                self.enter(target, &arguments);
            }
            Operation::LoadUnknown { dst } => registers[dst] = Pointee::Anywhere.into(),
            Operation::SwapBytes { dst, .. } => registers[dst] = AddressSet::any_number(),
            Operation::Load { dst, base, size, signed, .. } => {
                registers[dst] =
                    if signed { AddressSet::any_number() } else { self.loaded(&registers[base], size) };
            }
            Operation::Store { base, offset, size, source } => {
                if let Operand::Register(source) = source {
                    self.keep(&registers[source]);
                }
                self.store(&registers[base], offset.into(), size);
            }
            Operation::Atomic { base, offset, size, source, fetches, .. } => {
                self.keep(&registers[source]);
                self.store(&registers[base], offset.into(), size);
                if let Some(register) = fetches {
                    registers[register] = self.loaded(&registers[base], size);
                }
            }
            Operation::CallHelper { helper } => {
                let result = self.helper(self.code.name(helper), registers);
                self.end_call(registers, result);
            }
            Operation::CallKernel { function } => {
                let known = helpers::known_function(self.code.calls, function);
                if known == Some(KernelFunction::Slice) {
                    self.fill(&registers[3], &Spoil::VALUES);
                }
                // An iterator is on the stack, and so is its number. Objects count as
                // the stack here: a store to either writes to no map.
                let result = match known {
                    Some(_) => AddressSet { number: Number::ANY, ..AddressSet::of([Pointee::Stack]) },
                    None => self.unmodelled(registers),
                };
                self.end_call(registers, result);
            }
            Operation::Nothing
            | Operation::Jump { .. }
            | Operation::Branch { .. }
            | Operation::CallLocal { .. }
            | Operation::Exit
            | Operation::Unsupported { .. } => {}
        }
    }

    fn map(&self, id: u32, place: impl Fn(usize) -> Pointee) -> Pointee {
        let known = self.code.maps.iter().position(|table| table.id == id);
        known.map_or(Pointee::Anywhere, place)
    }

    fn arithmetic(
        &self,
        kind: Arithmetic,
        width: usize,
        left: &AddressSet,
        right: &AddressSet,
    ) -> AddressSet {
        let (a, b) = (left.number, right.number);
        let number = match kind {
            Arithmetic::Move => b,
            Arithmetic::Add => a.plus(b),
            Arithmetic::Mul => a.times(b),
            Arithmetic::And => a.masked(b),
            Arithmetic::ShiftLeft => match b {
                Number::Exact(by @ 0..32) => a.times(Number::Exact(1 << by)),
                _ => Number::ANY,
            },
            _ => Number::ANY,
        };
        let number = if width == 64 { number } else { number.low_half() };
        let places = match (kind, width) {
            (Arithmetic::Move | Arithmetic::MovePerCpu, 64) => right.places.iter().copied().collect(),
            (Arithmetic::MoveSpace, _) => vec![Pointee::Anywhere],
            (Arithmetic::Move | Arithmetic::MoveSigned(_) | Arithmetic::MovePerCpu, _) => {
                right.moved(Number::ANY, self.code.maps)
            }
            // One of the two is a number: the verifier adds no addresses.
            (Arithmetic::Add, 64) => {
                let mut places = left.moved(b, self.code.maps);
                places.extend(right.moved(a, self.code.maps));
                places
            }
            (Arithmetic::Sub, 64) => {
                let by = match b {
                    Number::Exact(by) => Number::Exact(by.wrapping_neg()),
                    other => other,
                };
                let mut places = left.moved(by, self.code.maps);
                places.extend(right.moved(Number::ANY, self.code.maps));
                places
            }
            _ => left
                .moved(Number::ANY, self.code.maps)
                .into_iter()
                .chain(right.moved(Number::ANY, self.code.maps))
                .collect(),
        };
        let mut result = AddressSet::of(places);
        result.number = number;
        result
    }

    /// What is read at `address`. No value of a map and no memory of the
    /// kernel holds the address of a map's value that a program may write to.
    fn loaded(&self, address: &AddressSet, size: usize) -> AddressSet {
        let mut loaded = AddressSet::from(Number::of_bytes(size));
        if size != 8 {
            return loaded;
        }
        for place in &address.places {
            match *place {
                Pointee::Stack | Pointee::Anywhere => drop(loaded.join(&self.kept)),
                Pointee::Slot(map) if self.code.maps[map].kind.holds_maps() => {
                    loaded.join(&AddressSet::of(self.inside(map)));
                }
                Pointee::Slot(map) => drop(loaded.join(&Pointee::Value(map, Some(0)).into())),
                Pointee::Argument
                | Pointee::Record
                | Pointee::Function
                | Pointee::Map(_)
                | Pointee::Element(_)
                | Pointee::Value(..) => {}
            }
        }
        loaded
    }

    /// The maps inside a map.
    fn inside(&self, map: usize) -> Vec<Pointee> {
        let table = &self.code.maps[map];
        let Ok(entries) = &table.entries else { return vec![Pointee::Anywhere] };
        let inner = entries
            .iter()
            .map(|entry| entry.map_id().map_or(Pointee::Anywhere, |id| self.map(id, Pointee::Map)));
        inner.collect()
    }

    fn keep(&mut self, value: &AddressSet) {
        self.has_grown |= self.kept.join(value);
    }

    fn store(&mut self, address: &AddressSet, offset: i64, size: usize) {
        let is_writable = |place: &Pointee| !matches!(place, Pointee::Argument | Pointee::Function);
        if !address.places.iter().any(is_writable) {
            self.note(self.code.own);
        }
        for place in &address.places {
            match *place {
                Pointee::Stack | Pointee::Record | Pointee::Argument | Pointee::Function => {}
                // The inlined lookup in an LRU map marks the element as used.
                Pointee::Element(_) if size == 1 => {}
                Pointee::Value(map, Some(at)) => {
                    self.spoil(map, &self.bytes(map, at.saturating_add(offset), size))
                }
                Pointee::Value(map, None) => self.spoil(map, &Spoil::VALUES),
                Pointee::Element(map) | Pointee::Slot(map) | Pointee::Map(map) => {
                    self.spoil(map, &Spoil::ALL)
                }
                Pointee::Anywhere => self.note(self.code.own),
            }
        }
    }

    fn bytes(&self, map: usize, at: i64, size: usize) -> Spoil {
        let table = &self.code.maps[map];
        let stride = table.stride();
        let is_array = table.kind == TableKind::Array && !table.per_cpu;
        let at = if is_array { at.rem_euclid(stride as i64) } else { at };
        match usize::try_from(at) {
            Ok(at) if at + size <= stride => {
                Spoil { keys: false, bytes: Bytes::Only((at..at + size).collect::<BTreeSet<usize>>()) }
            }
            _ => Spoil::VALUES,
        }
    }

    fn spoil(&mut self, map: usize, spoil: &Spoil) {
        if let Some(table) = self.code.maps.get(map).filter(|_| self.is_complete) {
            self.written.spoil(table.id, spoil);
        }
    }

    /// A helper: what it writes, and what it returns.
    fn helper(&mut self, name: Option<&str>, registers: &AddressRegisters) -> AddressSet {
        let Some(name) = name else { return self.unmodelled(registers) };
        if let Some(found) = helpers::lookup(name) {
            return AddressSet::of(self.found(found, &registers[1]));
        }
        if helpers::is_harmless(name) {
            return AddressSet::any_number();
        }
        if helpers::only_calls_back(name) {
            self.hand_rounds(name, registers);
            return AddressSet::any_number();
        }
        match helpers::effect(name) {
            None => return self.unmodelled(registers),
            Some(Effect::Nothing) => {}
            Some(Effect::Fills(to, _)) => self.fill(&registers[to], &Spoil::VALUES),
            Some(Effect::FillsBytes(to, size)) => self.fill_bytes(&registers[to], size as usize),
            Some(Effect::CallsBackLater) => {
                self.fill_bytes(&registers[1], helpers::TIMER as usize);
                self.hand_entries(&registers[1]);
            }
            // What is written through the new one is memory that is handed here.
            Some(Effect::MakesDynptr { to }) => {
                self.fill(&registers[1], &Spoil::VALUES);
                self.fill(&registers[to], &Spoil::VALUES);
                self.hand(&registers[1..6]);
                self.keep_handed();
            }
            Some(Effect::Changes) => self.change(&registers[1]),
            Some(Effect::Takes) => {
                self.change(&registers[1]);
                self.fill(&registers[2], &Spoil::VALUES);
            }
            Some(Effect::Record) => return AddressSet::of([Pointee::Record]),
            Some(Effect::Storage { .. }) => {
                return AddressSet::of(self.found(LookupResult::Value, &registers[1]));
            }
        }
        AddressSet::any_number()
    }

    /// What a lookup in the maps at `address` may find.
    fn found(&self, found: LookupResult, address: &AddressSet) -> Vec<Pointee> {
        let places = address.places.iter().flat_map(|place| match *place {
            Pointee::Map(map) if found == LookupResult::Element => vec![Pointee::Element(map)],
            Pointee::Map(map) if self.code.maps[map].kind.holds_maps() => self.inside(map),
            Pointee::Map(map) if self.code.maps[map].kind != TableKind::Absent => {
                vec![Pointee::Value(map, Some(0))]
            }
            _ => vec![Pointee::Anywhere],
        });
        let places: Vec<Pointee> = places.collect();
        if places.is_empty() { vec![Pointee::Anywhere] } else { places }
    }

    /// The map at `address` gets or loses entries.
    fn change(&mut self, address: &AddressSet) {
        if address.places.is_empty() {
            self.fill(&Pointee::Anywhere.into(), &Spoil::ALL);
        }
        self.fill(address, &Spoil::ALL);
    }

    /// The memory at `address` is written by a helper.
    fn fill(&mut self, address: &AddressSet, spoil: &Spoil) {
        for place in &address.places {
            match *place {
                Pointee::Value(map, _) | Pointee::Element(map) | Pointee::Slot(map) => self.spoil(map, spoil),
                Pointee::Map(map) => self.spoil(map, &Spoil::ALL),
                Pointee::Anywhere => self.note(&clobber::handed(self.code.maps, self.code.own)),
                Pointee::Stack | Pointee::Argument | Pointee::Record | Pointee::Function => {}
            }
        }
    }

    /// A helper writes so many bytes at `address`.
    fn fill_bytes(&mut self, address: &AddressSet, size: usize) {
        for place in &address.places {
            match *place {
                Pointee::Value(map, Some(at)) => self.spoil(map, &self.bytes(map, at, size)),
                other => self.fill(&other.into(), &Spoil::VALUES),
            }
        }
    }

    /// A function of the kernel that gpumap does not know: it may write to all
    /// that it is handed, keep it, give it back, and call back.
    fn unmodelled(&mut self, registers: &AddressRegisters) -> AddressSet {
        self.hand(&registers[1..6]);
        for register in &registers[1..6] {
            self.fill(register, &Spoil::ALL);
            if register.places.contains(&Pointee::Stack) {
                let kept = self.kept.clone();
                self.fill(&kept, &Spoil::ALL);
            }
        }
        self.keep_handed();
        Pointee::Anywhere.into()
    }

    fn keep_handed(&mut self) {
        self.handed.clone().iter().for_each(|handed| self.keep(handed));
    }

    /// What helpers that only call back hand over: `bpf_loop` a number and its third
    /// argument, the others the map, a key and a value of it, and the third argument.
    fn hand_rounds(&mut self, name: &str, registers: &AddressRegisters) {
        let last = if name == "bpf_loop" { 2 } else { 4 };
        if name != "bpf_loop" {
            self.hand_entries(&registers[1]);
        }
        self.hand_in(last, &registers[3]);
    }

    /// A function is handed a map, and the key and the start of a value of it: the map
    /// that `address` is, or that has it in a value.
    fn hand_entries(&mut self, address: &AddressSet) {
        for place in &address.places {
            match *place {
                Pointee::Map(map) | Pointee::Value(map, _) => {
                    self.hand_in(1, &Pointee::Map(map).into());
                    self.hand_in(3, &Pointee::Value(map, Some(0)).into());
                }
                other => self.hand(&[other.into()]),
            }
        }
    }

    fn hand_in(&mut self, register: usize, address: &AddressSet) {
        if let Some(handed) = self.handed.get_mut(register - 1) {
            self.has_grown |= handed.join(address);
        }
    }

    /// A function that is called back may get any of these.
    fn hand(&mut self, arguments: &[AddressSet]) {
        for register in arguments {
            let mut handed = AddressSet::any_number();
            for place in &register.places {
                match *place {
                    // The map itself, a key in it, a value of it.
                    Pointee::Map(map) => handed.places.extend([Pointee::Map(map), Pointee::Value(map, None)]),
                    Pointee::Value(map, _) => {
                        handed.places.extend([Pointee::Map(map), Pointee::Value(map, None)])
                    }
                    other => drop(handed.places.insert(other)),
                }
            }
            (1..=ARGUMENTS).for_each(|register| self.hand_in(register, &handed));
        }
    }
}
