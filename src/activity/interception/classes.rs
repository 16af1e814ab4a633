//! Classes of times, as the kernel side sorts them (`bpf/interception.h`): 16 ns each up to
//! two microseconds, then four for each power of two.

use crate::observation::{DURATION_CLASSES, TIME_CLASSES};

/// The first classes, their length, and where the others begin.
const LINEAR: usize = 128;
const STEP: u64 = 16;
const FIRST_BITS: usize = 11;
/// Powers of two that are split in four.
const OCTAVES: usize = 9;
/// The first power of two of the classes of durations that other sums have.
const COARSE_BITS: u32 = 7;

/// Where a class begins, in nanoseconds.
fn begin(class: usize) -> u64 {
    let Some(after) = class.checked_sub(LINEAR) else { return STEP.saturating_mul(class as u64) };
    let octave = (after / 4).min(OCTAVES);
    let start = 1_u64 << (FIRST_BITS + octave);
    match after.checked_sub(4 * OCTAVES) {
        None => start + (start >> 2) * (after % 4) as u64,
        Some(last) => start << last,
    }
}

/// The time below which a tenth of the calls took: what they take where nothing comes
/// between. A thread that loses the CPU, or a page that is not there, is in none of these.
pub(super) fn quick(classes: &[u64; TIME_CLASSES]) -> Option<u64> {
    let all = classes.iter().fold(0_u64, |all, calls| all.saturating_add(*calls));
    let tenth = all.div_ceil(10);
    let mut below = 0_u64;
    for (class, calls) in classes.iter().enumerate() {
        if tenth > 0 && below.saturating_add(*calls) >= tenth {
            let length = begin(class + 1).saturating_sub(begin(class));
            let share = u128::from(tenth - below) * u128::from(length) / u128::from((*calls).max(1));
            return Some(begin(class).saturating_add(u64::try_from(share).unwrap_or(length)));
        }
        below = below.saturating_add(*calls);
    }
    None
}

/// The same in classes of powers of two.
pub(super) fn coarse(classes: &[u64; TIME_CLASSES]) -> [u64; DURATION_CLASSES] {
    let mut all = [0_u64; DURATION_CLASSES];
    for (class, calls) in classes.iter().enumerate() {
        let power = begin(class).checked_ilog2().unwrap_or(0);
        let place = (power + 1).saturating_sub(COARSE_BITS) as usize;
        if let Some(sum) = all.get_mut(place) {
            *sum = sum.saturating_add(*calls);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that classes follow each other without a gap, and that quick calls are told
    /// to 16 ns.
    #[test]
    fn scale() {
        assert_eq!(
            [0, 1, 8, 127, 128, 129, 132, 164, 165].map(begin),
            [0, 16, 128, 2032, 2048, 2560, 4096, 1 << 20, 1 << 21]
        );
        assert!((0..TIME_CLASSES).all(|class| begin(class) < begin(class + 1)));
        let mut classes = [0; TIME_CLASSES];
        assert_eq!(quick(&classes), None);
        (classes[36], classes[144]) = (100, 800);
        // The class from 576 to 592 ns.
        let found = quick(&classes).unwrap();
        assert!((576..592).contains(&found), "{found}");
        assert_eq!(coarse(&classes).iter().sum::<u64>(), 900);
        assert_eq!((coarse(&classes)[3], coarse(&classes)[9]), (100, 800));
        let mut last = [0; TIME_CLASSES];
        (last[7], last[164], last[165]) = (3, 1, 2);
        assert_eq!((coarse(&last)[0], coarse(&last)[14], coarse(&last)[15]), (3, 1, 2));
    }
}
