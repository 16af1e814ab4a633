//! Numbers in the byte order of this machine, at a place in bytes. What lies
//! outside is 0, which no table takes for anything.

/// 2 bytes.
pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    part(bytes, at).map_or(0, u16::from_ne_bytes)
}

/// 4 bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    part(bytes, at).map_or(0, u32::from_ne_bytes)
}

/// 8 bytes.
pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    part(bytes, at).map_or(0, u64::from_ne_bytes)
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
