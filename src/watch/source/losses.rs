//! Where events were lost among those that were not.

/// Counts what was lost. Each record tells how many were lost before it, the
/// kernel side how many all in all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    known: u64,
    told: u64,
}

impl Losses {
    /// Takes what a record tells: the low half of the number. Whether some
    /// were lost since the record before it.
    pub(super) fn before(&mut self, stamp: u32) -> bool {
        let low = u32::try_from(self.known & u64::from(u32::MAX)).unwrap_or(0);
        let more = stamp.wrapping_sub(low);
        // Records of several CPUs may be a little out of order.
        let is_more = more != 0 && more.cast_signed() > 0;
        self.known += if is_more { u64::from(more) } else { 0 };
        is_more
    }

    /// Takes the whole number, as it was before the ring was read to its end.
    /// Whether some were lost since the last record.
    pub(super) fn all(&mut self, number: u64) -> bool {
        let is_more = number > self.known;
        self.known = self.known.max(number);
        is_more
    }

    /// How many were not told yet; they are now.
    pub(super) fn untold(&mut self) -> u64 {
        let untold = self.known - self.told;
        self.told = self.known;
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every loss is counted once, and is where it was.
    #[test]
    fn places() {
        let mut losses = Losses::default();
        assert!(!losses.before(0) && losses.before(3) && !losses.before(2) && !losses.before(3));
        assert_eq!((losses.untold(), losses.untold()), (3, 0));
        assert!(!losses.all(3) && losses.all(5));
        assert_eq!(losses.untold(), 2);
    }

    /// Make sure that a number that outgrows 32 bits is no harm.
    #[test]
    fn many() {
        let mut losses = Losses::default();
        let whole = u64::from(u32::MAX);
        assert!(losses.all(whole));
        assert!(losses.before(4) && !losses.before(4));
        assert_eq!(losses.untold(), whole + 5);
    }
}
