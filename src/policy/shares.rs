//! How many diagram operations each program may cost: its share.
//!
//! A node may have many programs that are too complex to be drawn, and every one
//! of them costs all that it may before gpumap gives it up. So they share a total.
//! The shares are equal: what a program gets depends on how many complex programs
//! there are, and not on which of them is decoded first. A program that is drawn
//! with less costs only what it needs, and leaves the others their shares.

use std::collections::BTreeMap;

/// What one program may cost: about a second. Fuzzing looks for wrong steps, so
/// fewer operations are enough.
pub const BUDGET: u64 = if cfg!(fuzzing) { 400_000 } else { 20_000_000 };
/// What all complex programs of a decoder may cost together, if each is drawn once.
const TOTAL: u64 = 3 * BUDGET;
/// What every program may cost, however many there are: enough for some hundred
/// rules.
pub const LEAST: u64 = 200_000;

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
        let share = TOTAL / self.expected.max(known).max(1) as u64;
        let times = self.given_up.get(&program).copied().unwrap_or_default();
        (share.min(BUDGET) >> times.min(63)).max(LEAST)
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
        assert!(forwards.iter().sum::<u64>() <= TOTAL);
        assert_eq!(costs(Shares::expecting(2), 0..2), [BUDGET; 2]);
        assert!(costs(Shares::expecting(5000), 0..5000).iter().all(|share| *share == LEAST));
    }

    /// Make sure that the bound holds where nobody said how many programs there are,
    /// and for a program that is given up again and again.
    #[test]
    fn unexpected_programs_are_bounded() {
        let cost: u64 = costs(Shares::default(), 0..64).iter().sum();
        assert!(cost <= 6 * TOTAL, "{cost}");
        let again = costs(Shares::default(), std::iter::repeat_n(7, 64));
        assert_eq!(again[0], BUDGET);
        assert!(again.iter().sum::<u64>() <= 2 * BUDGET + 64 * LEAST);
    }
}
