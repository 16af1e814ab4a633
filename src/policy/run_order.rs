//! Runs several programs in the kernel's order, each with what the others may have written.

use std::collections::BTreeSet;

use super::clobber;
use super::diagram::Bdd;
use super::inputs::Symbols;
use super::machine::{Decisions, Machine, RETVAL_BITS, Surroundings};
use super::program_code::ProgramCode;
use super::shares::{self, BUDGET, Shares};
use super::types::{Combination, Context};
use super::word::Word;
use super::written::Written;

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
                writes: clobber::unread(program.program, program.maps),
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
        let all = (BUDGET / self.programs.max(1) as u64).max(shares::LEAST);
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
