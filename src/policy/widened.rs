//! Calculations with numbers that cannot be known.
//!
//! The quotient of an unknown number of 64 bits outgrows every diagram, and nobody
//! wants to see it: it is as unknown as the number. So a calculation that would cost
//! too much gets an unknown result for the questions for which one of its operands is
//! unknown, and the exact result for the others. The unknown result may be anything
//! (that it is the same whenever it is calculated again is lost), so no verdict that
//! depends on it is known.

use super::diagram::{Bdd, Diagram};
use super::inputs::{FIRST_FRESH, Symbols};
use super::word::Word;

/// Most unknown bits of a number that is calculated with bit by bit where that is
/// known to be costly.
const MOST_UNKNOWN: usize = 8;

impl Symbols {
    /// The result of `operation` on two words, of which no bit from `width` on is set;
    /// unknown where an operand is, if it would cost too much to say more.
    pub fn widened(
        &mut self,
        a: &Word,
        b: &Word,
        width: usize,
        operation: impl Fn(&Word, &Word, &mut Diagram) -> Word,
    ) -> Word {
        if let Some(result) = self.diagram.attempt(|diagram| operation(a, b, diagram)) {
            return result;
        }
        let (region, why) = self.where_unknown(&[a, b]);
        let known = |word: &Word, diagram: &mut Diagram| Word::ite(region, &Word::ZERO, word, diagram);
        let (a, b) = (known(a, &mut self.diagram), known(b, &mut self.diagram));
        let exact = operation(&a, &b, &mut self.diagram);
        match region {
            Bdd::FALSE => exact,
            region => {
                let unknown = self.unknown_word(width as u32, &why);
                Word::ite(region, &unknown, &exact, &mut self.diagram)
            }
        }
    }

    /// The questions for which one of `words` depends on something unknown, and why.
    fn where_unknown(&mut self, words: &[&Word]) -> (Bdd, String) {
        let bits = words.iter().flat_map(|word| word.bits());
        let (region, why) = self.diagram.depends_from(bits, FIRST_FRESH);
        (region, why.and_then(|variable| self.reason(variable)).unwrap_or_default().to_owned())
    }

    /// Why a number is unknown for all questions, if many of its bits are.
    pub fn why_plainly_unknown(&self, word: &Word) -> Option<String> {
        let Word::Bits(bits) = word else { return None };
        let is_fresh = |bit: &&Bdd| self.diagram.top(**bit).is_some_and(|variable| variable >= FIRST_FRESH);
        let fresh = || bits.iter().filter(is_fresh);
        let first = fresh().next().filter(|_| fresh().count() > MOST_UNKNOWN)?;
        self.diagram.top(*first).and_then(|variable| self.reason(variable)).map(str::to_owned)
    }

    /// The same of two numbers that are not one: what is calculated from both would
    /// grow with all pairs of their values.
    pub fn why_both_unknown(&self, a: &Word, b: &Word) -> Option<String> {
        let why = self.why_plainly_unknown(a).filter(|_| a != b)?;
        self.why_plainly_unknown(b).map(|_| why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that of a costly calculation with a number that is unknown for some
    /// questions the others keep their exact results.
    #[test]
    fn only_what_depends_is_unknown() {
        let symbols = &mut Symbols::default();
        let (number, device) = (symbols.unknown_word(64, "the time"), symbols.diagram.variable(1));
        let sometimes = Word::ite(device, &number, &Word::Constant(1_000), &mut symbols.diagram);
        let tenth = |a: &Word, b: &Word, diagram: &mut Diagram| a.div_rem(b, diagram).0;
        let quotient = symbols.widened(&sometimes, &Word::Constant(10), 61, tenth);
        let bits = quotient.bits();
        for (place, bit) in bits.iter().enumerate() {
            assert_eq!(symbols.diagram.evaluate(*bit, 0), Some(100_u64 >> place & 1 == 1));
            let unknown = symbols.diagram.evaluate(*bit, 2);
            assert_eq!(unknown, if place < 61 { None } else { Some(false) });
        }
        assert_eq!(symbols.why_open(bits[0], 2), "the time");
    }
}
