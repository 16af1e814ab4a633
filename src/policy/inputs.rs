//! The variables of a diagram: the 36 bits of the kernel's question, and fresh bits
//! for everything gpumap cannot know.
//!
//! A fresh bit stands for "either value". A verdict that is the same for both
//! values is known; one that differs is unknown, and the bit's reason says why.

use std::collections::BTreeSet;

pub use super::diagram::Variable;
use super::diagram::{Bdd, Diagram};
use super::time_limit::TimeLimit;
use super::word::Word;
use crate::model::{Device, DeviceType, Request};

/// 1 for a character device.
pub const TYPE: Variable = 0;
/// Most significant of the 12 bits of the major number.
pub const MAJOR: Variable = 1;
/// Number of bits of a major number.
pub const MAJOR_BITS: u32 = 12;
/// Most significant of the 20 bits of the minor number.
pub const MINOR: Variable = MAJOR + MAJOR_BITS;
/// Number of bits of a minor number.
pub const MINOR_BITS: u32 = 20;
/// Write, read and mknod bits of the request.
pub const REQUEST: Variable = MINOR + MINOR_BITS;
/// Number of bits of a request.
pub const REQUEST_BITS: u32 = 3;
/// First variable past the question.
pub const QUESTION_END: Variable = REQUEST + REQUEST_BITS;
/// First fresh variable; [`Diagram::evaluate`] answers `None` from here on.
pub const FIRST_FRESH: Variable = 64;

/// Bound on fresh variables of one run.
const MAX_FRESH: u32 = 1 << 16;
/// Most functions that are looked at for a reason.
const MAX_SEEN: usize = 256;
/// Fresh variables kept back for what cannot be followed to its end.
const FRESH_RESERVE: u32 = 1 << 13;

/// The question as an assignment for [`Diagram::evaluate`].
pub fn assignment(device: Device, request: Request) -> u64 {
    let kind = u64::from(device.kind == DeviceType::Char) << TYPE;
    kind | reversed(device.major, MAJOR_BITS) << MAJOR
        | reversed(device.minor, MINOR_BITS) << MINOR
        | request_assignment(request)
}

/// The request's part of an [`assignment`].
pub fn request_assignment(request: Request) -> u64 {
    reversed(request.bits(), REQUEST_BITS) << REQUEST
}

fn reversed(number: u32, width: u32) -> u64 {
    u64::from(number.reverse_bits() >> (u32::BITS - width))
}

/// The 12 bytes of `struct bpf_cgroup_dev_ctx` (`linux/bpf.h`) as three words:
/// `access_type`, `major`, `minor`.
pub fn context_words(diagram: &mut Diagram) -> [Word; 3] {
    let mut access_type = number(diagram, REQUEST, REQUEST_BITS, 16);
    let character = diagram.variable(TYPE);
    access_type[0] = !character;
    access_type[1] = character;
    let major = number(diagram, MAJOR, MAJOR_BITS, 0);
    let minor = number(diagram, MINOR, MINOR_BITS, 0);
    [access_type, major, minor].map(Word::from_bits)
}

/// The same for one question: three numbers.
pub fn context_constants(bits: u64) -> [Word; 3] {
    let number = |first: Variable, width: u32| {
        (0..width).fold(0, |number, place| number << 1 | bits >> (first + place) & 1)
    };
    let kind = if bits >> TYPE & 1 == 1 { DeviceType::Char } else { DeviceType::Block };
    let access_type = number(REQUEST, REQUEST_BITS) << 16 | kind as u64;
    [access_type, number(MAJOR, MAJOR_BITS), number(MINOR, MINOR_BITS)].map(Word::Constant)
}

fn number(diagram: &mut Diagram, first: Variable, width: u32, shift: u32) -> [Bdd; 64] {
    let mut bits = [Bdd::FALSE; 64];
    for place in 0..width {
        bits[(shift + place) as usize] = diagram.variable(first + width - 1 - place);
    }
    bits
}

/// The questions that the kernel asks: mknod never comes with read or write.
pub fn reachable(diagram: &mut Diagram) -> Bdd {
    let [write, read, mknod] = [0, 1, 2].map(|bit| diagram.variable(REQUEST + bit));
    let opens = diagram.or(write, read);
    let both = diagram.and(opens, mknod);
    !both
}

/// The cube of exactly one question.
pub fn only(diagram: &mut Diagram, bits: u64) -> Bdd {
    (0..QUESTION_END).rev().fold(Bdd::TRUE, |cube, variable| match bits >> variable & 1 {
        1 => diagram.node(variable, Bdd::FALSE, cube),
        _ => diagram.node(variable, cube, Bdd::FALSE),
    })
}

/// The diagram of one run, and the reasons of its fresh bits.
#[derive(Debug)]
pub struct Symbols {
    /// The functions.
    pub diagram: Diagram,
    /// First variable and reason of each batch of fresh bits, ascending.
    reasons: Vec<(Variable, String)>,
    next: Variable,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::within(&TimeLimit::default())
    }
}

impl Symbols {
    /// No inputs yet, and an empty diagram that gives up when the time is over.
    pub fn within(limit: &TimeLimit) -> Self {
        Self::with_room(limit, 1)
    }

    /// The same with room for so many times as much.
    pub fn with_room(limit: &TimeLimit, factor: u32) -> Self {
        Self { diagram: Diagram::with_room(limit, factor), reasons: Vec::new(), next: FIRST_FRESH }
    }

    /// A word whose low `width` bits are unknown, because of `why`. Too many such
    /// bits end the diagram's budget.
    pub fn unknown_word(&mut self, width: u32, why: &str) -> Word {
        if self.next + width > FIRST_FRESH + MAX_FRESH {
            self.diagram.exhaust();
            return Word::ZERO;
        }
        self.fresh_word(width, why)
    }

    /// A word for the result of a path that is given up. It works even if there are
    /// too many such bits.
    pub fn lost_word(&mut self, width: u32, why: &str) -> Word {
        if self.next + width > FIRST_FRESH + MAX_FRESH + FRESH_RESERVE {
            self.diagram.give_up();
            return Word::ZERO;
        }
        self.fresh_word(width, why)
    }

    fn fresh_word(&mut self, width: u32, why: &str) -> Word {
        let mut bits = [Bdd::FALSE; 64];
        if self.reasons.last().is_none_or(|(_, last)| last != why) {
            self.reasons.push((self.next, why.to_owned()));
        }
        for bit in bits.iter_mut().take(width as usize) {
            *bit = self.diagram.variable(self.next);
            self.next += 1;
        }
        Word::from_bits(bits)
    }

    /// A bit gpumap knows nothing about.
    pub fn unknown_bit(&mut self, why: &str) -> Bdd {
        self.unknown_word(1, why).bits()[0]
    }

    /// Why `function` has no value for the question `bits`.
    pub fn why_open(&self, function: Bdd, bits: u64) -> String {
        let mut at = function;
        while let Some(variable) = self.diagram.top(at) {
            if let Some(why) = self.reason(variable) {
                return why.to_owned();
            }
            let (low, high) = self.diagram.cofactors(at, variable);
            at = if bits >> variable & 1 == 1 { high } else { low };
        }
        String::new()
    }

    /// Why a number is not known; `None` if it follows from the question.
    pub fn why_unknown(&self, word: &Word) -> Option<&str> {
        let Word::Bits(bits) = word else { return None };
        let (mut seen, mut left) = (BTreeSet::new(), bits.to_vec());
        while let Some(at) = left.pop() {
            let Some(variable) = self.diagram.top(at).filter(|_| seen.insert(at)) else { continue };
            if let Some(why) = self.reason(variable) {
                return Some(why);
            }
            if seen.len() > MAX_SEEN {
                return None;
            }
            let (low, high) = self.diagram.cofactors(at, variable);
            left.extend([low, high]);
        }
        None
    }

    /// The reason behind a fresh variable.
    pub fn reason(&self, variable: Variable) -> Option<&str> {
        let after = self.reasons.partition_point(|(first, _)| *first <= variable);
        self.reasons.get(after.checked_sub(1)?).map(|(_, why)| why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MAX_MINOR;

    /// Make sure that the words of the context hold the kernel's numbers for
    /// every question.
    #[test]
    fn context_holds_the_question() {
        let diagram = &mut Diagram::default();
        let words = context_words(diagram);
        for kind in [DeviceType::Block, DeviceType::Char] {
            for (major, minor) in [(195, 3), (0, 0), (4095, MAX_MINOR), (226, 128)] {
                for request in Request::ALL {
                    let bits = assignment(Device { kind, major, minor }, request);
                    let [access, got_major, got_minor] = words.clone().map(|word| {
                        let bit = |f| u32::from(diagram.evaluate(f, bits).unwrap());
                        word.bits()[..32].iter().rev().fold(0, |number, f| number << 1 | bit(*f))
                    });
                    assert_eq!(access, request.bits() << 16 | kind as u32);
                    assert_eq!((got_major, got_minor), (major, minor));
                    let constants = context_constants(bits).map(|word| word.as_constant().unwrap());
                    assert_eq!(constants, [access, major, minor].map(u64::from));
                    let cube = only(diagram, bits);
                    assert_eq!(diagram.evaluate(cube, bits), Some(true));
                    assert_eq!(diagram.evaluate(cube, bits ^ 1 << MINOR), Some(false));
                }
            }
        }
    }
}
