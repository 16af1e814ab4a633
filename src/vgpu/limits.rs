//! Limits as the libraries read them, from the environment or from the file
//! that SoftMig's prolog writes for a job.
//!
//! Both use strtoul(3) with base 0 and then look at the last byte of the text
//! for a unit, so `1gb` is one byte and `1.5g` one gigabyte. Every spelling in
//! `fixtures/vgpu/*-env-*` was read by five builds alike.

use super::offsets::DEVICES;

/// Variables with a limit for all devices; `_0` to `_15` name one of them.
const MEMORY: &str = "CUDA_DEVICE_MEMORY_LIMIT";
const SM: &str = "CUDA_DEVICE_SM_LIMIT";
/// The SM limit in percent where none is set.
const NO_SM_LIMIT: u64 = 100;

/// The limits that a process is meant to have, by the library's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes; 0 is no limit.
    pub memory: [u64; DEVICES],
    /// Percent; 100 and more is no limit.
    pub sm: [u64; DEVICES],
}

impl Limits {
    /// The limits that variables set; `value` gives a variable's value, if it
    /// is set. A device's own limit comes before the one for all, unless it is
    /// 0 or no number.
    pub fn from_variables<'a>(value: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let number = |name: &str| value(name).map_or(0, number);
        let of_each = |name: &str, all: u64| {
            std::array::from_fn(|device| match number(&format!("{name}_{device}")) {
                0 => all,
                own => own,
            })
        };
        let sm = match number(SM) {
            0 => NO_SM_LIMIT,
            percent => percent,
        };
        Self { memory: of_each(MEMORY, number(MEMORY)), sm: of_each(SM, sm) }
    }

    /// The limits in a job's file of SoftMig. The first line that begins with
    /// `NAME=` counts; one with a blank before the name or the sign does not.
    pub fn from_job_file(text: &[u8]) -> Self {
        Self::from_variables(|name| {
            text.split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        })
    }
}

/// The number that a limit's text is read as; 0 if it is none or too large for
/// its unit.
pub fn number(text: &[u8]) -> u64 {
    let unit = match text.last() {
        Some(b'g' | b'G') => 1 << 30,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'k' | b'K') => 1 << 10,
        _ => 1,
    };
    strtoul(text).checked_mul(unit).unwrap_or(0)
}

/// strtoul(3) with base 0: blanks, a sign, then hexadecimal after `0x`, octal
/// after `0`, else decimal digits. What does not fit becomes the largest
/// number, a minus sign wraps around.
fn strtoul(text: &[u8]) -> u64 {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let text = text.get(start..).unwrap_or_default();
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    };
    let mut digits = digits.iter().map_while(|byte| char::from(*byte).to_digit(base));
    let number = digits
        .try_fold(0_u64, |number, digit| number.checked_mul(u64::from(base))?.checked_add(u64::from(digit)));
    match number {
        // Too large: the sign is not looked at.
        None => u64::MAX,
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
    }
}
