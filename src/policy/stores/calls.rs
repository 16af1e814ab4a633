//! What functions of the kernel write, return, and hand to functions of the program.

use super::super::address::{AddressSet, Pointee};
use super::super::helpers::{self, Effect, LookupResult};
use super::super::table::TableKind;
use super::super::written::Spoil;
use super::search::{ARGUMENTS, AddressRegisters, Search};
use crate::policy::written;

impl Search<'_> {
    /// A helper: what it writes, and what it returns.
    pub(super) fn helper(&mut self, name: Option<&str>, registers: &AddressRegisters) -> AddressSet {
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
    pub(super) fn fill(&mut self, address: &AddressSet, spoil: &Spoil) {
        for place in &address.places {
            match *place {
                Pointee::Value(map, _) | Pointee::Element(map) | Pointee::Slot(map) => self.spoil(map, spoil),
                Pointee::Map(map) => self.spoil(map, &Spoil::ALL),
                Pointee::Anywhere => self.note(&written::handed(self.code.maps, self.code.own)),
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
    pub(super) fn unmodelled(&mut self, registers: &AddressRegisters) -> AddressSet {
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
