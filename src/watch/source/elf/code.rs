//! Whether a place in a file is the first instruction of a function.

use super::Reason;
use super::reader::Reader;

/// Bytes of a function that are decoded.
const LOOKED_AT: u64 = 64;

/// Looks at the beginning of a function: `size` bytes by its symbol (0 if that
/// is not said), of which `room` are in the file.
pub(super) fn check(reader: &mut Reader, offset: u64, size: u64, room: u64) -> Result<(), Reason> {
    let whole = if size == 0 { room } else { size };
    let mut buffer = [0; LOOKED_AT as usize];
    let length = whole.min(room).min(LOOKED_AT);
    let bytes = usize::try_from(length).ok().and_then(|length| buffer.get_mut(..length));
    let bytes = bytes.unwrap_or_default();
    reader.into(offset, bytes)?;
    // What was said to be the whole function must not end inside of an
    // instruction; what was cut off may.
    let cut = size == 0 || size > length;
    let aligned = cfg!(target_arch = "x86_64") || offset.is_multiple_of(4);
    if aligned && decodes(bytes, cut) {
        Ok(())
    } else {
        Err("a function in it does not begin with instructions".to_owned())
    }
}

/// Whether these bytes are instructions one after the other, up to the end or
/// to one that does not go on.
#[cfg(target_arch = "x86_64")]
fn decodes(bytes: &[u8], cut: bool) -> bool {
    use iced_x86::{Decoder, DecoderError, DecoderOptions, Mnemonic};

    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut any = false;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        match decoder.last_error() {
            DecoderError::None => {}
            DecoderError::NoMoreBytes => return any && cut,
            _ => return false,
        }
        match instruction.mnemonic() {
            // Padding and traps: nothing that a function begins with.
            Mnemonic::Int3 | Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 | Mnemonic::Hlt => return any,
            Mnemonic::Ret | Mnemonic::Jmp => return true,
            _ => any = true,
        }
    }
    any
}

/// Instructions have four bytes. Those whose upper half is 0 are undefined for
/// good (`UDF`).
#[cfg(target_arch = "aarch64")]
fn decodes(bytes: &[u8], _cut: bool) -> bool {
    use super::fields::word;

    let first = bytes.first_chunk::<4>();
    first.is_some_and(|first| word(first, 0) >> 16 != 0)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn decodes(_bytes: &[u8], _cut: bool) -> bool {
    false
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Make sure that functions are taken, and text, padding, traps, and what
    /// ends inside of an instruction are not.
    #[test]
    fn beginnings() {
        for code in [
            &b"\xf3\x0f\x1e\xfa\x31\xc0\xc3"[..],
            b"\x55\x48\x89\xe5",
            b"\xc3\x06",
            b"\xeb\xfe\x06",
            b"\x48\x83\xec\x08\xcc",
        ] {
            assert!(decodes(code, false), "{code:x?}");
        }
        for other in [&b"\xcc\xc3"[..], b"\x06", b"\x0f\x0b", b"\x55\x06", b"\xf4", b"\x48\x8b", b""] {
            assert!(!decodes(other, false), "{other:x?}");
        }
        assert!(decodes(b"\x55\x48\x8b", true) && !decodes(b"\x55\x48\x8b", false));
        assert!(!decodes(b"\x48\x8b", true));
    }
}
