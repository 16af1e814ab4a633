//! Whether a function of aarch64 (A64) begins here, and whether the kernel can put a probe
//! at its first instruction.
//!
//! The kernel looks at the instruction only when it sets the probe in a process, and leaves
//! the probe out, without a word, where it cannot run the instruction elsewhere. So the same
//! is asked before: the rules are those of `arm_probe_decode_insn` of
//! `arch/arm64/kernel/probes/decode-insn.c`, since Linux 5.10.

/// `nop`, `xpaclri`, `pacia1716`, `pacib1716`, `paciaz`, `paciasp`, `pacibz`, `pacibsp` and
/// `bti`: the hints that may stand under a probe.
const HINTS: [u32; 12] = [0, 7, 8, 10, 24, 25, 26, 27, 32, 34, 36, 38];

/// Whether these bytes are instructions one after the other, up to the end or to one after
/// which the function does not go on, and a probe can be at the first. `is_cut` says that the
/// function goes on behind them.
pub(super) fn begins(bytes: &[u8], is_cut: bool) -> bool {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
    words.next().is_some_and(|first| goes_on(first, words, rest.is_empty() || is_cut))
}

fn goes_on(first: u32, others: impl Iterator<Item = u32>, is_whole: bool) -> bool {
    if !is_allocated(first) || !is_probed(first) {
        return false;
    }
    if is_last(first) {
        return true;
    }
    for word in others {
        // Padding and traps end a function too, but none begins with them.
        if is_last(word) || is_trap(word) {
            return true;
        }
        if !is_allocated(word) {
            return false;
        }
    }
    is_whole
}

/// Whether the architecture has instructions in this group (bits 25 to 28). Group 0 has those
/// of matrices (SME), with bit 31, and what is undefined for good.
fn is_allocated(word: u32) -> bool {
    match word >> 25 & 0xf {
        0 => word >> 31 == 1,
        1 | 3 => false,
        _ => true,
    }
}

/// `udf`, `brk`, `hlt`.
fn is_trap(word: u32) -> bool {
    word >> 16 == 0 || word & 0xffe0_001f == 0xd420_0000 || word & 0xffe0_001f == 0xd440_0000
}

/// `b`, `br` and `ret`, also those that check a pointer's signature.
fn is_last(word: u32) -> bool {
    word >> 26 == 0b00_0101 || matches!(word & 0xfeff_0000, 0xd61f_0000 | 0xd65f_0000)
}

/// Whether the kernel can run the instruction elsewhere, or does what it does by itself.
fn is_probed(word: u32) -> bool {
    match word {
        // Loads from a place that is given by the instruction's own.
        _ if word & 0x3b00_0000 == 0x1800_0000 => false,
        // Exclusive loads and stores, and what is encoded with them.
        _ if word & 0x3f00_0000 == 0x0800_0000 => false,
        // svc, brk and other exceptions.
        _ if word >> 24 == 0xd4 => false,
        // Hints.
        _ if word & 0xffff_f01f == 0xd503_201f => HINTS.contains(&(word >> 5 & 0x7f)),
        // Writes to system registers.
        _ if word & 0xfff8_f01f == 0xd500_401f || word >> 20 == 0xd51 => false,
        // Branches that check a signature, and eret. br, blr and ret the kernel does itself.
        _ if word >> 25 == 0b110_1011 => word & 0xff9f_fc1f == 0xd61f_0000,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BTI_C: u32 = 0xd503_245f;
    const PACIASP: u32 = 0xd503_233f;
    const STP: u32 = 0xa9be_7bfd;
    const RET: u32 = 0xd65f_03c0;
    const MOV: u32 = 0x5280_0000;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Make sure that functions are taken as compilers begin them.
    #[test]
    fn functions() {
        for (words, what) in [
            (&[PACIASP, STP][..], "paciasp"),
            (&[0xd503_237f, STP], "pacibsp"),
            (&[BTI_C, MOV, RET], "bti c"),
            (&[STP, MOV], "stp"),
            (&[0xd503_201f, STP], "nop"),
            (&[RET, 1], "ret, then data"),
            (&[0x1400_0010, 1], "b, then data"),
            (&[MOV, 0xd61f_0220, 1], "br x17, then data"),
            (&[MOV, 0xd65f_0bff, 1], "retaa, then data"),
            (&[0x9000_0010, 0xf947_2a11, 0x9139_4210, 0xd61f_0220], "a stub of the linker"),
            (&[0xb400_0080, RET], "cbz"),
            (&[STP, 0xd420_7d00, 1], "brk behind it"),
            (&[STP, 0, 1], "padding behind it"),
            (&[0x04bf_5001, RET], "an instruction of SVE"),
        ] {
            assert!(begins(&code(words), false), "{what}");
        }
    }

    /// Make sure that text, padding, traps, and what the kernel sets no probe at are not.
    #[test]
    fn others() {
        for (words, what) in [
            (&[0, STP][..], "udf"),
            (&[0xd420_0000, STP], "brk"),
            (&[0xd400_0001, RET], "svc"),
            (&[0x5800_0040, RET], "ldr of a literal"),
            (&[0x1c00_0040, RET], "ldr of a literal into a vector"),
            (&[0xc85f_7c00, RET], "ldxr"),
            (&[0xd65f_0bff], "retaa"),
            (&[0xd503_203f, STP], "yield"),
            (&[0xd503_23bf, STP], "autiasp"),
            (&[0xd51b_d040, RET], "msr"),
            (&[STP, 0x6362_6160], "text behind it"),
            (&[], "nothing"),
        ] {
            assert!(!begins(&code(words), false), "{what}");
        }
        for text in [&b"/usr/lib/libcuda.so.1 and some more"[..], b"CUDA_VISIBLE_DEVICES=0,1,2,3\0\0\0\0"] {
            assert!(!begins(text, true), "{}", text.escape_ascii());
        }
    }

    /// Make sure that a function ends with an instruction, unless only its beginning is known.
    #[test]
    fn cut() {
        let bytes = code(&[STP, MOV]);
        assert!(begins(&bytes, false) && !begins(&bytes[..7], false) && begins(&bytes[..7], true));
        assert!(!begins(&bytes[..3], true));
    }
}
