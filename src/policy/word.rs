//! 64-bit machine words whose bits are functions of the question: what a
//! register holds for all devices and requests at once.

use std::rc::Rc;

use super::diagram::{Bdd, Diagram};

/// A 64-bit word. Constants stay numbers, so straight-line code costs no
/// diagram work.
#[derive(Clone, Debug)]
pub enum Word {
    /// The same for every question.
    Constant(u64),
    /// Bit by bit, least significant first.
    Bits(Rc<[Bdd; 64]>),
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => a == b,
            (Self::Bits(a), Self::Bits(b)) => Rc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl Word {
    /// All zero.
    pub const ZERO: Self = Self::Constant(0);

    /// A word of the given bits, as a constant if it is one.
    pub fn from_bits(bits: [Bdd; 64]) -> Self {
        let constant = bits.iter().enumerate().try_fold(0u64, |word, (place, bit)| {
            bit.as_constant().map(|value| word | u64::from(value) << place)
        });
        constant.map_or_else(|| Self::Bits(Rc::new(bits)), Self::Constant)
    }

    /// A word of 0 or 1.
    pub fn from_bool(bit: Bdd) -> Self {
        let mut bits = [Bdd::FALSE; 64];
        bits[0] = bit;
        Self::from_bits(bits)
    }

    /// The value, if it is the same for every question.
    pub fn as_constant(&self) -> Option<u64> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Bits(_) => None,
        }
    }

    /// The number of bits up to the highest that may be set.
    pub fn length(&self) -> usize {
        match self {
            Self::Constant(value) => 64 - value.leading_zeros() as usize,
            Self::Bits(bits) => bits.iter().rposition(|bit| *bit != Bdd::FALSE).map_or(0, |place| place + 1),
        }
    }

    /// All 64 bits, least significant first.
    pub fn bits(&self) -> [Bdd; 64] {
        match self {
            Self::Constant(value) => std::array::from_fn(|place| Bdd::constant(value >> place & 1 == 1)),
            Self::Bits(bits) => **bits,
        }
    }

    pub fn bit(&self, place: usize) -> Bdd {
        match self {
            Self::Constant(value) => Bdd::constant(value >> place & 1 == 1),
            Self::Bits(bits) => bits[place],
        }
    }

    fn map2(&self, other: &Self, mut bit: impl FnMut(Bdd, Bdd) -> Bdd) -> Self {
        Self::from_bits(std::array::from_fn(|place| bit(self.bit(place), other.bit(place))))
    }

    /// Whether a number may be an address in the kernel. A number that fits into 32
    /// bits is never one. Which other numbers are addresses differs between
    /// machines: with five-level page tables, maps are at `0xff11…`.
    pub fn may_be_address(&self) -> bool {
        match self {
            Self::Constant(constant) => constant >> 32 != 0,
            Self::Bits(bits) => bits[32..].iter().any(|bit| *bit != Bdd::FALSE),
        }
    }

    /// The low `width` bits, the others zero.
    #[must_use]
    pub fn zero_extended(&self, width: usize) -> Self {
        match self {
            Self::Constant(value) if width < 64 => Self::Constant(value & ((1 << width) - 1)),
            Self::Constant(_) => self.clone(),
            Self::Bits(bits) if bits[width.min(64)..].iter().all(|bit| *bit == Bdd::FALSE) => self.clone(),
            Self::Bits(bits) => {
                Self::from_bits(std::array::from_fn(
                    |place| if place < width { bits[place] } else { Bdd::FALSE },
                ))
            }
        }
    }

    /// The low `width` bits, the others copies of the highest of them.
    #[must_use]
    pub fn sign_extended(&self, width: usize) -> Self {
        let bits = self.bits();
        Self::from_bits(std::array::from_fn(|place| bits[place.min(width - 1)]))
    }

    /// Bitwise and.
    #[must_use]
    pub fn and(&self, other: &Self, diagram: &mut Diagram) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a & b),
            _ => self.map2(other, |a, b| diagram.and(a, b)),
        }
    }

    /// Bitwise or.
    #[must_use]
    pub fn or(&self, other: &Self, diagram: &mut Diagram) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a | b),
            _ => self.map2(other, |a, b| diagram.or(a, b)),
        }
    }

    /// Bitwise exclusive or.
    #[must_use]
    pub fn xor(&self, other: &Self, diagram: &mut Diagram) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a ^ b),
            _ => self.map2(other, |a, b| diagram.xor(a, b)),
        }
    }

    /// Every bit flipped.
    #[must_use]
    pub fn not(&self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(!value),
            Self::Bits(bits) => Self::Bits(Rc::new(bits.map(|bit| !bit))),
        }
    }

    /// Sum modulo 2^64.
    #[must_use]
    pub fn add(&self, other: &Self, diagram: &mut Diagram) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a.wrapping_add(*b)),
            (word, Self::Constant(0)) | (Self::Constant(0), word) => word.clone(),
            _ => self.sum(other, Bdd::FALSE, diagram).0,
        }
    }

    /// Difference modulo 2^64.
    #[must_use]
    pub fn sub(&self, other: &Self, diagram: &mut Diagram) -> Self {
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(a.wrapping_sub(*b)),
            (word, Self::Constant(0)) => word.clone(),
            _ => self.sum(&other.not(), Bdd::TRUE, diagram).0,
        }
    }

    /// The sum and the carry out of the top bit.
    fn sum(&self, other: &Self, carry_in: Bdd, diagram: &mut Diagram) -> (Self, Bdd) {
        let mut carry = carry_in;
        let bits = std::array::from_fn(|place| {
            let (a, b) = (self.bit(place), other.bit(place));
            let either = diagram.xor(a, b);
            let bit = diagram.xor(either, carry);
            carry = diagram.ite(either, carry, a);
            bit
        });
        (Self::from_bits(bits), carry)
    }

    /// Product modulo 2^64.
    #[must_use]
    pub fn mul(&self, other: &Self, diagram: &mut Diagram) -> Self {
        if let (Self::Constant(a), Self::Constant(b)) = (self, other) {
            return Self::Constant(a.wrapping_mul(*b));
        }
        let (factor, word) = if other.as_constant().is_some() { (other, self) } else { (self, other) };
        (0..64).fold(Self::ZERO, |sum, place| {
            let bit = factor.bit(place);
            if bit == Bdd::FALSE || diagram.exhausted() {
                return sum;
            }
            let term = word.shifted_left(place).map2(&Self::ZERO, |a, _| diagram.and(a, bit));
            sum.add(&term, diagram)
        })
    }

    /// Quotient and remainder, unsigned; dividing by 0 gives 0 and the
    /// dividend, as the kernel defines it.
    #[must_use]
    pub fn div_rem(&self, divisor: &Self, diagram: &mut Diagram) -> (Self, Self) {
        if let (Self::Constant(a), Self::Constant(b)) = (self, divisor) {
            let (quotient, remainder) = (a.checked_div(*b), a.checked_rem(*b));
            return (Self::Constant(quotient.unwrap_or(0)), Self::Constant(remainder.unwrap_or(*a)));
        }
        if let Some(by) = divisor.as_constant().filter(|by| by.is_power_of_two()) {
            let places = by.trailing_zeros() as usize;
            return (self.shifted_right(places, Bdd::FALSE), self.zero_extended(places));
        }
        let (mut quotient, mut remainder) = ([Bdd::FALSE; 64], Self::ZERO);
        for place in (0..64).rev() {
            let shifted_out = remainder.bit(63);
            remainder = remainder.shifted_left(1).or(&Self::from_bool(self.bit(place)), diagram);
            let (difference, carry) = remainder.sum(&divisor.not(), Bdd::TRUE, diagram);
            // No borrow, or a 65th bit before the subtraction: the divisor fits.
            let fits = diagram.or(carry, shifted_out);
            remainder = Self::ite(fits, &difference, &remainder, diagram);
            quotient[place] = fits;
            if diagram.exhausted() {
                break;
            }
        }
        let by_zero = divisor.equal_to(&Self::ZERO, diagram);
        let quotient = Self::ite(by_zero, &Self::ZERO, &Self::from_bits(quotient), diagram);
        (quotient, Self::ite(by_zero, self, &remainder, diagram))
    }

    /// Quotient and remainder, signed, rounding towards zero; the remainder
    /// has the sign of the dividend.
    #[must_use]
    pub fn signed_div_rem(&self, divisor: &Self, diagram: &mut Diagram) -> (Self, Self) {
        let (sign, divisor_sign) = (self.bit(63), divisor.bit(63));
        let (dividend, divisor) = (self.negated_if(sign, diagram), divisor.negated_if(divisor_sign, diagram));
        let (quotient, remainder) = dividend.div_rem(&divisor, diagram);
        let signs_differ = diagram.xor(sign, divisor_sign);
        (quotient.negated_if(signs_differ, diagram), remainder.negated_if(sign, diagram))
    }

    fn negated_if(&self, condition: Bdd, diagram: &mut Diagram) -> Self {
        let negated = Self::ZERO.sub(self, diagram);
        Self::ite(condition, &negated, self, diagram)
    }

    /// Shifted left by a constant below 64.
    #[must_use]
    pub fn shl_by(&self, by: usize) -> Self {
        self.shifted_left(by)
    }

    fn shifted_left(&self, by: usize) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value << by),
            Self::Bits(bits) => Self::from_bits(std::array::from_fn(|place| {
                place.checked_sub(by).map_or(Bdd::FALSE, |from| bits[from])
            })),
        }
    }

    fn shifted_right(&self, by: usize, fill: Bdd) -> Self {
        let bits = self.bits();
        Self::from_bits(std::array::from_fn(|place| bits.get(place + by).copied().unwrap_or(fill)))
    }

    /// Shifted left by the low `log_width` bits of `by`.
    #[must_use]
    pub fn shl(&self, by: &Self, log_width: usize, diagram: &mut Diagram) -> Self {
        self.barrel(by, log_width, diagram, Self::shifted_left)
    }

    /// Shifted right by the low `log_width` bits of `by`, zeros coming in.
    #[must_use]
    pub fn shr(&self, by: &Self, log_width: usize, diagram: &mut Diagram) -> Self {
        self.barrel(by, log_width, diagram, |word, by| word.shifted_right(by, Bdd::FALSE))
    }

    /// Shifted right by the low `log_width` bits of `by`, the sign coming in.
    #[must_use]
    pub fn sar(&self, by: &Self, log_width: usize, diagram: &mut Diagram) -> Self {
        self.barrel(by, log_width, diagram, |word, by| word.shifted_right(by, word.bit(63)))
    }

    fn barrel(
        &self,
        by: &Self,
        log_width: usize,
        diagram: &mut Diagram,
        shifted: impl Fn(&Self, usize) -> Self,
    ) -> Self {
        (0..log_width).fold(self.clone(), |word, stage| match by.bit(stage) {
            Bdd::FALSE => word,
            bit => Self::ite(bit, &shifted(&word, 1 << stage), &word, diagram),
        })
    }

    /// The low `width` bits with their bytes in reverse order, the others zero.
    #[must_use]
    pub fn bytes_swapped(&self, width: usize) -> Self {
        let bits = self.bits();
        Self::from_bits(std::array::from_fn(|place| {
            if place < width { bits[width - 8 - place / 8 * 8 + place % 8] } else { Bdd::FALSE }
        }))
    }

    /// `then` where `condition` holds, else `otherwise`.
    #[must_use]
    pub fn ite(condition: Bdd, then: &Self, otherwise: &Self, diagram: &mut Diagram) -> Self {
        match condition.as_constant() {
            Some(true) => then.clone(),
            Some(false) => otherwise.clone(),
            None if then == otherwise => then.clone(),
            None => then.map2(otherwise, |a, b| diagram.ite(condition, a, b)),
        }
    }

    /// The questions for which the two words are equal.
    pub fn equal_to(&self, other: &Self, diagram: &mut Diagram) -> Bdd {
        if let (Self::Constant(a), Self::Constant(b)) = (self, other) {
            return Bdd::constant(a == b);
        }
        // From the least significant bit, which is tested last: each step adds
        // one node on top.
        let mut equal = Bdd::TRUE;
        for place in 0..64 {
            let (a, b) = (self.bit(place), other.bit(place));
            if a == b {
                continue;
            }
            let differ = diagram.xor(a, b);
            equal = diagram.and_above(!differ, equal);
            if equal == Bdd::FALSE {
                break;
            }
        }
        equal
    }

    /// The questions for which `self` is less than `other`, unsigned.
    pub fn less_than(&self, other: &Self, diagram: &mut Diagram) -> Bdd {
        (0..64).fold(Bdd::FALSE, |less, place| {
            let (a, b) = (self.bit(place), other.bit(place));
            let differ = diagram.xor(a, b);
            diagram.ite(differ, b, less)
        })
    }

    /// The questions for which `self` is less than `other`, both signed.
    pub fn signed_less_than(&self, other: &Self, diagram: &mut Diagram) -> Bdd {
        let flip = |word: &Self| {
            let mut bits = word.bits();
            bits[63] = !bits[63];
            Self::from_bits(bits)
        };
        flip(self).less_than(&flip(other), diagram)
    }

    /// The values the word can take where `guard` holds, each with where it
    /// takes it; `None` if there are more than `limit`.
    pub fn cases(&self, guard: Bdd, limit: usize, diagram: &mut Diagram) -> Option<Vec<(Bdd, u64)>> {
        let mut cases = vec![(guard, 0u64)];
        for place in (0..64).rev() {
            let bit = self.bit(place);
            let mut split = Vec::with_capacity(cases.len());
            for (guard, value) in cases {
                let (set, clear) = (diagram.and(guard, bit), diagram.and(guard, !bit));
                split.extend((set != Bdd::FALSE).then_some((set, value | 1 << place)));
                split.extend((clear != Bdd::FALSE).then_some((clear, value)));
            }
            if split.len() > limit || diagram.exhausted() {
                return None;
            }
            cases = split;
        }
        Some(cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(word: &Word, bits: u64, diagram: &Diagram) -> u64 {
        (0..64).map(|place| u64::from(diagram.evaluate(word.bit(place), bits).unwrap()) << place).sum()
    }

    /// Make sure that every operation computes what the machine computes, for
    /// words that depend on the question and constants mixed.
    #[test]
    fn operations_match_the_machine() {
        let diagram = &mut Diagram::default();
        let mut variables = [Bdd::FALSE; 64];
        for (place, bit) in variables.iter_mut().enumerate().take(6) {
            *bit = diagram.variable(place as u32);
        }
        let mut high = [Bdd::TRUE; 64];
        high[..58].fill(Bdd::FALSE);
        for place in 0..4 {
            high[60 + place] = diagram.variable(3 - place as u32);
            high[place] = !diagram.variable(2 + place as u32);
        }
        let words = [
            Word::from_bits(variables),
            Word::from_bits(high),
            Word::Constant(11),
            Word::Constant(u64::MAX - 4),
        ];
        for a in &words {
            for b in &words {
                let (quotient, remainder) = a.div_rem(b, diagram);
                let (sq, sr) = a.signed_div_rem(b, diagram);
                let results = [
                    a.add(b, diagram),
                    a.sub(b, diagram),
                    a.mul(b, diagram),
                    quotient,
                    remainder,
                    sq,
                    sr,
                    a.shl(b, 6, diagram),
                    a.shr(b, 6, diagram),
                    a.sar(b, 6, diagram),
                    Word::from_bool(a.less_than(b, diagram)),
                    Word::from_bool(a.signed_less_than(b, diagram)),
                    Word::from_bool(a.equal_to(b, diagram)),
                    a.bytes_swapped(32),
                    a.sign_extended(8),
                ];
                for bits in 0..64 {
                    let (x, y) = (at(a, bits, diagram), at(b, bits, diagram));
                    let (sx, sy) = (x as i64, y as i64);
                    let want = [
                        x.wrapping_add(y),
                        x.wrapping_sub(y),
                        x.wrapping_mul(y),
                        x.checked_div(y).unwrap_or(0),
                        x.checked_rem(y).unwrap_or(x),
                        if y == 0 { 0 } else { sx.wrapping_div(sy) as u64 },
                        if y == 0 { x } else { sx.wrapping_rem(sy) as u64 },
                        x << (y & 63),
                        x >> (y & 63),
                        (sx >> (y & 63)) as u64,
                        u64::from(x < y),
                        u64::from(sx < sy),
                        u64::from(x == y),
                        u64::from((x as u32).swap_bytes()),
                        x as i8 as u64,
                    ];
                    for (index, (got, want)) in results.iter().zip(want).enumerate() {
                        assert_eq!(at(got, bits, diagram), want, "operation {index} of {x:#x} and {y:#x}");
                    }
                }
            }
        }
    }
}
