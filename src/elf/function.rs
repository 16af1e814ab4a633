//! Where a function begins in a file, and whether code stands there.

use std::io;

use super::ElfError;
#[cfg(target_arch = "aarch64")]
use super::a64::begins as decodes;
use super::header::ElfHeader;
use super::reader::ElfReader;
use super::symbol_table::Symbol;

/// Bytes of a function that are read at most.
pub const LONGEST_BEGINNING: usize = 64;

/// A function in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where its first instruction is in the file, in bytes: what uprobes want.
    pub offset: u64,
    /// Its first bytes: at most [`LONGEST_BEGINNING`], fewer if its symbol or its
    /// segment ends before that.
    pub beginning: Vec<u8>,
}

/// As [`super::ElfFile::function`].
pub(super) fn read<R>(
    reader: &mut ElfReader<R>,
    header: &ElfHeader,
    symbol: &Symbol,
) -> Result<Function, ElfError>
where
    R: FnMut(&mut [u8], u64) -> io::Result<()>,
{
    header.check_native()?;
    let mut code = header.segments.iter().filter(|segment| segment.executable);
    let found = code.find_map(|segment| Some((segment.place(symbol.address)?, segment)));
    let (offset, segment) = found.ok_or(ElfError::NotCode)?;
    let rest = segment.rest(offset);
    let whole = if symbol.size == 0 { rest } else { symbol.size.min(rest) };
    let length = whole.min(LONGEST_BEGINNING as u64);
    let mut beginning = vec![0; usize::try_from(length).unwrap_or(0)];
    reader.fill(&mut beginning, offset)?;
    // A function whose end is known must not end inside of an instruction; one
    // of which only the beginning was read may.
    let is_cut = symbol.size == 0 || symbol.size > length;
    let is_aligned = cfg!(target_arch = "x86_64") || offset.is_multiple_of(4);
    if is_aligned && decodes(&beginning, is_cut) {
        Ok(Function { offset, beginning })
    } else {
        Err(ElfError::NotInstructions)
    }
}

/// Whether these bytes are instructions one after the other, up to the end or
/// to one after which the function does not go on.
#[cfg(target_arch = "x86_64")]
fn decodes(bytes: &[u8], is_cut: bool) -> bool {
    use iced_x86::{Decoder, DecoderError, DecoderOptions, Mnemonic};

    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut any = false;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        match decoder.last_error() {
            DecoderError::None => {}
            DecoderError::NoMoreBytes => return any && is_cut,
            _ => return false,
        }
        match instruction.mnemonic() {
            // Padding and traps: no function begins with them.
            Mnemonic::Int3 | Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 | Mnemonic::Hlt => return any,
            Mnemonic::Ret | Mnemonic::Jmp => return true,
            _ => any = true,
        }
    }
    any
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn decodes(_bytes: &[u8], _is_cut: bool) -> bool {
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
