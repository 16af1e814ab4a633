//! Combines the programs of a list: runs them in the kernel's order, each with what the
//! others may have written. Since Linux 5.18 a later program may undo a deny of an earlier
//! one by `bpf_set_retval(0)`; `after_return` has the rule, [`Combination`] says which
//! kernel has which.
//!
//! A node may have many programs that are too complex to be drawn, and every one of them
//! costs all that it may before gpumap gives it up. So they share a total of diagram
//! operations. The shares are equal: what a program gets depends on how many complex
//! programs there are, and not on which of them is decoded first. A program that is drawn
//! with less costs only what it needs, and leaves the others their shares.

use std::collections::{BTreeMap, BTreeSet};

use super::code::ProgramCode;
use super::diagram::Bdd;
use super::inputs::Symbols;
use super::machine::{Decisions, Machine, RETVAL_BITS, Surroundings};
use super::types::{Combination, Context};
use super::word::Word;
use super::written::{self, Written};

/// `-EPERM`, what the kernel sets where a program returns 0.
const DENIED: i32 = -1;

/// Errors are -4095 to -1 (`MAX_ERRNO`, `linux/err.h`).
const MAX_ERRNO: u64 = 4095;

/// The budget of one question: some milliseconds. Known inputs are constants there,
/// which cost nothing; a million questions about unknown inputs must not take a day.
const BUDGET_OF_QUESTION: u64 = 30_000;

/// Runs of several programs that see what the others write.
pub(super) struct Run<'w> {
    surroundings: Surroundings,
    written: &'w mut Written,
    /// How many programs there are: together they may cost what one may.
    programs: usize,
    pub(super) is_new: bool,
    /// Whether one reads at more places than are told apart.
    pub(super) is_wide: bool,
    /// The ids of the programs of which some paths were given up.
    pub(super) cut: BTreeSet<u32>,
}

impl<'w> Run<'w> {
    pub(super) fn new(surroundings: Surroundings, written: &'w mut Written, programs: usize) -> Self {
        Self { surroundings, written, programs, is_new: false, is_wide: false, cut: BTreeSet::new() }
    }

    /// Runs all programs; where the request is allowed.
    pub(super) fn in_sequence(
        &mut self,
        codes: &[ProgramCode<'_>],
        shares: &Shares,
        symbols: &mut Symbols,
    ) -> Bdd {
        let mut retval = Word::ZERO;
        for code in codes {
            let outcome = self.alone(code, &retval, shares, symbols);
            retval = after_return(&outcome, symbols);
        }
        retval.equal_to(&Word::ZERO, &mut symbols.diagram)
    }

    /// Runs one program; a program that cannot be run decides anything and
    /// writes what it may.
    pub(super) fn alone(
        &mut self,
        program: &ProgramCode<'_>,
        retval: &Word,
        shares: &Shares,
        symbols: &mut Symbols,
    ) -> Decisions {
        let surroundings = self.surroundings_of(program, shares);
        let outcome = match &program.code {
            Ok(code) => Machine::new(code, symbols, surroundings, self.written).run(retval),
            Err(why) => Decisions {
                writes: written::unread(program.program, program.maps),
                ..Decisions::lost(symbols, retval, surroundings, why)
            },
        };
        self.is_new |= self.written.add(&outcome.writes);
        self.is_wide |= outcome.is_wide;
        if outcome.is_cut {
            self.cut.insert(program.program.id);
        }
        outcome
    }

    /// The inputs of a program, with what it may cost.
    fn surroundings_of(&self, program: &ProgramCode<'_>, shares: &Shares) -> Surroundings {
        if self.surroundings.question.is_some() {
            return self.surroundings;
        }
        let share = shares.of(program.program.id);
        let all = (BUDGET / self.programs.max(1) as u64).max(LEAST_SHARE);
        let budget = share.min(all) * u64::from(self.surroundings.factor);
        Surroundings { budget, ..self.surroundings }
    }
}

pub(super) fn surroundings(context: &Context<'_>, question: Option<u64>) -> Surroundings {
    Surroundings {
        cgroup_id: context.cgroup_id,
        has_retval: context.combination == Combination::Retval,
        question,
        budget: if question.is_some() { BUDGET_OF_QUESTION } else { BUDGET },
        factor: 1,
    }
}

/// The error in force once the kernel has looked at what a program returned
/// (`bpf_prog_run_array_cg`, `kernel/bpf/cgroup.c`).
pub(super) fn after_return(outcome: &Decisions, symbols: &mut Symbols) -> Word {
    let retval = outcome.retval.sign_extended(RETVAL_BITS);
    let diagram = &mut symbols.diagram;
    let is_error = !retval.less_than(&Word::Constant(0u64.wrapping_sub(MAX_ERRNO)), diagram);
    let keeps = diagram.or(outcome.allows, is_error);
    let denied = Word::Constant(DENIED as i64 as u64).zero_extended(RETVAL_BITS);
    Word::ite(keeps, &outcome.retval, &denied, diagram)
}

/// What one program may cost: about a second. Fuzzing looks for wrong steps, so
/// fewer operations are enough.
pub const BUDGET: u64 = if cfg!(fuzzing) { 400_000 } else { 20_000_000 };

/// What all complex programs of a decoder may cost together, if each is drawn once.
const TOTAL_OF_SHARES: u64 = 3 * BUDGET;

/// What every program may cost, however many there are: enough for some hundred
/// rules.
pub const LEAST_SHARE: u64 = 200_000;

/// The shares of the programs of one decoder.
#[derive(Debug, Default)]
pub struct Shares {
    /// How many complex programs there will be, if somebody has said so.
    expected: usize,
    /// How often each program was given up, by its id.
    given_up: BTreeMap<u32, u32>,
}

impl Shares {
    /// The shares where so many complex programs will be decoded.
    pub fn expecting(complex: usize) -> Self {
        Self { expected: complex, given_up: BTreeMap::new() }
    }

    /// The diagram operations that the program with this id may cost now. Each time
    /// that it was given up halves them.
    pub fn of(&self, program: u32) -> u64 {
        let known = self.given_up.len() + usize::from(!self.given_up.contains_key(&program));
        let share = TOTAL_OF_SHARES / self.expected.max(known).max(1) as u64;
        let times = self.given_up.get(&program).copied().unwrap_or_default();
        (share.min(BUDGET) >> times.min(63)).max(LEAST_SHARE)
    }

    /// The program with this id was given up: it had cost its share.
    pub fn give_up(&mut self, program: u32) {
        let times = self.given_up.entry(program).or_default();
        *times = times.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives up all programs in this order; returns what each was allowed to cost.
    fn costs(mut shares: Shares, order: impl Iterator<Item = u32>) -> Vec<u64> {
        order
            .map(|program| {
                let share = shares.of(program);
                shares.give_up(program);
                share
            })
            .collect()
    }

    /// Make sure that expected programs get equal shares in any order, that few get
    /// all they may, and that many cost little more than a few.
    #[test]
    fn shares_are_equal() {
        let forwards = costs(Shares::expecting(64), 0..64);
        assert_eq!(forwards, costs(Shares::expecting(64), (0..64).rev()));
        assert!(forwards.iter().all(|share| *share == forwards[0]), "{forwards:?}");
        assert!(forwards.iter().sum::<u64>() <= TOTAL_OF_SHARES);
        assert_eq!(costs(Shares::expecting(2), 0..2), [BUDGET; 2]);
        assert!(costs(Shares::expecting(5000), 0..5000).iter().all(|share| *share == LEAST_SHARE));
    }

    /// Make sure that the bound holds where nobody said how many programs there are,
    /// and for a program that is given up again and again.
    #[test]
    fn unexpected_programs_are_bounded() {
        let cost: u64 = costs(Shares::default(), 0..64).iter().sum();
        assert!(cost <= 6 * TOTAL_OF_SHARES, "{cost}");
        let again = costs(Shares::default(), std::iter::repeat_n(7, 64));
        assert_eq!(again[0], BUDGET);
        assert!(again.iter().sum::<u64>() <= 2 * BUDGET + 64 * LEAST_SHARE);
    }
}
