//! Sets of devices as bit masks in hexadecimal text, as compact documents have them.

use std::fmt::Write as _;

/// Devices that a mask may have.
pub(super) const DEVICES: usize = 4096;

/// A set as compact documents write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    /// Whether only the owner itself says so.
    pub(super) claimed: bool,
    /// Positions of devices that are in the set, ascending.
    pub(super) certain: Vec<usize>,
    /// Positions of those that may be, ascending.
    pub(super) maybe: Vec<usize>,
}

impl Mask {
    /// Its text: `3`, `~3`, `3?c`.
    pub(super) fn text(&self) -> String {
        let claimed = if self.claimed { "~" } else { "" };
        let maybe = if self.maybe.is_empty() { String::new() } else { format!("?{}", hex(&self.maybe)) };
        format!("{claimed}{}{maybe}", hex(&self.certain))
    }

    /// Whether the device at this position is in the set.
    pub(super) fn has(&self, at: usize) -> bool {
        self.certain.binary_search(&at).is_ok()
    }

    /// Whether it may be.
    pub(super) fn may_have(&self, at: usize) -> bool {
        self.maybe.binary_search(&at).is_ok()
    }

    /// The mask with this text, of at most [`DEVICES`] devices; `None` for any other
    /// text.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (claimed, text) = text.strip_prefix('~').map_or((false, text), |text| (true, text));
        let (certain, maybe) = text.split_once('?').unwrap_or((text, "0"));
        Some(Self { claimed, certain: positions(certain)?, maybe: positions(maybe)? })
    }
}

fn hex(positions: &[usize]) -> String {
    let mut digits = vec![0_u8; positions.iter().max().map_or(0, |last| last / 4) + 1];
    for position in positions {
        if let Some(digit) = digits.get_mut(position / 4) {
            *digit |= 1 << (position % 4);
        }
    }
    let mut text = String::with_capacity(digits.len());
    for digit in digits.iter().rev() {
        let _infallible = write!(text, "{digit:x}");
    }
    text
}

fn positions(hex: &str) -> Option<Vec<usize>> {
    if hex.is_empty() || hex.len() > DEVICES / 4 {
        return None;
    }
    let mut found = Vec::new();
    for (digit, c) in hex.bytes().rev().enumerate() {
        let value = char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase())?;
        found.extend((0..4).filter(|bit| value & (1 << bit) != 0).map(|bit| digit * 4 + bit));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every set comes back from its text, and no other text is one.
    #[test]
    fn texts() {
        let mask = |claimed, certain: &[usize], maybe: &[usize]| Mask {
            claimed,
            certain: certain.to_vec(),
            maybe: maybe.to_vec(),
        };
        for (mask, text) in [
            (mask(false, &[], &[]), "0"),
            (mask(false, &[0, 1, 2, 3], &[]), "f"),
            (mask(true, &[0, 5], &[]), "~21"),
            (mask(false, &[1], &[2, 64]), "2?10000000000000004"),
        ] {
            assert_eq!(mask.text(), text);
            assert_eq!(Mask::read(text), Some(mask));
        }
        for text in ["", "~", "?", "g", "F", "1?", "0x1", "-1", " 1", &"1".repeat(DEVICES)] {
            assert_eq!(Mask::read(text), None, "{text}");
        }
    }
}
