//! Consecutive device numbers.

/// Consecutive major or minor numbers: one, a range, or all there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first number.
    pub first: u32,
    /// The last one; not below the first.
    pub last: u32,
}

impl Span {
    /// One number.
    pub const fn one(number: u32) -> Self {
        Self { first: number, last: number }
    }

    /// All numbers up to this one.
    pub const fn up_to(last: u32) -> Self {
        Self { first: 0, last }
    }

    /// The number, if it is one.
    pub fn single(self) -> Option<u32> {
        (self.first == self.last).then_some(self.first)
    }

    /// The same numbers as blocks, each of them all numbers with the same high bits: the
    /// first number, and how many low bits differ in it.
    pub fn blocks(self) -> impl Iterator<Item = (u32, u32)> {
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let first = next.filter(|first| *first <= self.last)?;
            let left = u64::from(self.last) - u64::from(first) + 1;
            let bits = first.trailing_zeros().min(left.ilog2());
            next = u32::try_from(u64::from(first) + (1 << bits)).ok();
            Some((first, bits))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that blocks are the numbers of the span, each once.
    #[test]
    fn blocks_are_the_span() {
        for span in [
            Span::one(0),
            Span::one(7),
            Span::up_to(4095),
            Span { first: 3, last: 12 },
            Span { first: 5, last: 6 },
        ] {
            let numbers: Vec<u32> =
                span.blocks().flat_map(|(first, bits)| first..first + (1 << bits)).collect();
            assert_eq!(numbers, (span.first..=span.last).collect::<Vec<_>>());
        }
        assert_eq!(Span::up_to(u32::MAX).blocks().collect::<Vec<_>>(), [(0, 32)]);
        assert_eq!(Span::up_to(1_048_575).blocks().collect::<Vec<_>>(), [(0, 20)]);
    }
}
