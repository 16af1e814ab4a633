//! The kernel's tag of a program: a hash of its instructions as they were
//! loaded, before the verifier rewrote any (`bpf_prog_calc_tag`,
//! `kernel/bpf/core.c`).

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Insn, opcode};

/// Length of a tag in bytes (`BPF_TAG_SIZE`, `linux/bpf.h`).
pub const TAG_SIZE: usize = 8;

/// Whether `tag` is the kernel's tag of `insns`. The kernel takes the first
/// bytes of SHA-256 since Linux 6.18, of SHA-1 before.
pub fn is_tag_of(tag: &[u8; TAG_SIZE], insns: &[Insn]) -> bool {
    let bytes = hashed(insns);
    Sha256::digest(&bytes).starts_with(tag) || Sha1::digest(&bytes).starts_with(tag)
}

/// The bytes that the kernel hashes: the instructions without the numbers of maps,
/// which differ from load to load.
fn hashed(insns: &[Insn]) -> Vec<u8> {
    let mut names_map = false;
    let mut bytes = Vec::with_capacity(insns.len() * 8);
    for insn in insns {
        let is_second = names_map && Insn { imm: 0, ..*insn } == Insn::default();
        let is_map = matches!(insn.src, opcode::PSEUDO_MAP | opcode::PSEUDO_MAP_VALUE);
        names_map = !names_map && insn.is_wide() && is_map;
        let imm = if names_map || is_second { 0 } else { insn.imm };
        bytes.extend(Insn { imm, ..*insn }.bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r1 = map; r0 = 1; exit`, the map by this number.
    fn program(map: i32) -> [Insn; 4] {
        let load = Insn { code: opcode::LD_IMM64, dst: 1, src: opcode::PSEUDO_MAP, imm: map, off: 0 };
        let one = Insn { code: 0xb7, imm: 1, ..Insn::default() };
        [load, Insn::default(), one, Insn { code: 0x95, ..Insn::default() }]
    }

    /// Make sure that the tag depends on the code and not on the map's number.
    #[test]
    fn maps_do_not_count() {
        let bytes = hashed(&program(0));
        assert_eq!(bytes, hashed(&program(77)));
        for digest in [Sha256::digest(&bytes).to_vec(), Sha1::digest(&bytes).to_vec()] {
            let tag = *digest.first_chunk().unwrap();
            assert!(is_tag_of(&tag, &program(5)));
            let mut other = program(5);
            other[2].imm = 0;
            assert!(!is_tag_of(&tag, &other));
        }
    }
}
