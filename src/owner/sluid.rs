//! Slurm's SLUIDs, the names of jobs since 26.05: `s` and 13 digits of
//! Crockford's base 32, which hold 12 bits of the cluster, 42 bits of
//! milliseconds since 1970 and 10 bits of a counter.

use jiff::Timestamp;

/// Crockford's digits: no I, L, O and U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits of a SLUID; the first holds 4 bits, so it is at most `F`.
const LENGTH: usize = 13;
const MILLISECOND_BITS: u32 = 42;
const COUNTER_BITS: u32 = 10;

/// When a job was submitted, RFC 3339, as its SLUID says; `None` if the name is no
/// SLUID.
pub(super) fn submitted_at(name: &[u8]) -> Option<String> {
    let value = value(name)?;
    let milliseconds = value >> COUNTER_BITS & ((1 << MILLISECOND_BITS) - 1);
    Some(Timestamp::from_millisecond(i64::try_from(milliseconds).ok()?).ok()?.to_string())
}

fn value(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(b"s").filter(|digits| digits.len() == LENGTH)?;
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = DIGITS.iter().position(|known| known == digit)?;
        value.checked_mul(32)?.checked_add(u64::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the three parts are cut at the right bits.
    #[test]
    fn parts() {
        assert_eq!(submitted_at(b"sEKNKTV3WPV500").as_deref(), Some("2026-06-11T10:33:20.485Z"));
        assert_eq!(value(b"sEKNKTV3WPV500").map(|value| (value >> 52, value & 1023)), Some((3741, 0)));
        assert_eq!(value(b"sFZZZZZZZZZZZZ"), Some(u64::MAX));
        assert_eq!(submitted_at(b"s0000000000000").as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(submitted_at(b"sFZZZZZZZZZZZZ").as_deref(), Some("2109-05-15T07:35:11.103Z"));
    }

    /// Make sure that what does not fit 64 bits, or is written otherwise, is no
    /// SLUID.
    #[test]
    fn others() {
        for bad in [
            "sG000000000000",
            "sZZZZZZZZZZZZZ",
            "sEKNKTV3WPV50",
            "sEKNKTV3WPV5000",
            "SEKNKTV3WPV500",
            "seknktv3wpv500",
            "sEKNKTV3WPV50I",
            "sEKNKTV3WPV50U",
            "",
            "s",
        ] {
            assert_eq!(value(bad.as_bytes()), None, "{bad}");
        }
    }
}
