//! Bytes that a shared region counts: a counter that went below zero is a number near 2^64.

use bytesize::ByteSize;

/// More than any GPU has.
const IMPOSSIBLE: u64 = 1 << 50;

/// `2.0 GiB`; `-1.8 MiB` of a counter below zero, `? (more than any GPU has)` of another one
/// that cannot be.
pub(super) fn counted(bytes: u64) -> String {
    match bytes {
        bytes if bytes < IMPOSSIBLE => ByteSize(bytes).to_string(),
        bytes if bytes > i64::MAX.unsigned_abs() => {
            format!("-{} (below zero)", ByteSize(bytes.wrapping_neg()))
        }
        _ => "? (more than any GPU has)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no counter below zero is shown as memory.
    #[test]
    fn below_zero() {
        assert_eq!(counted(2 << 30), "2.0 GiB");
        assert_eq!(counted(0_u64.wrapping_sub(1_843_956)), "-1.8 MiB (below zero)");
        assert_eq!(counted(1 << 60), "? (more than any GPU has)");
    }
}
