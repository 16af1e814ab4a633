//! Turns the disassembler's text back into instructions.
//!
//! Every line of a listing begins with the opcode. The opcode says which form the
//! text has (`form`), and the text gives the fields of that form.
//! Fields that the text does not show become zero.

use std::collections::BTreeMap;

use super::form::{Piece, form};
use super::{Insn, disasm, opcode};

/// The content of one line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assembled {
    /// One slot, or two for a 64-bit load.
    pub(super) slots: Vec<Insn>,
    /// The immediate and name of a called function, where the text knows it.
    pub(super) call: Option<(i32, String)>,
}

/// Reads one instruction such as `(55) if r2 != 0x2 goto pc+4`. Nothing if it
/// is not spelled exactly as [`disasm::text`] spells it.
pub(super) fn assemble(line: &str) -> Option<Assembled> {
    let line = normalise(line);
    if line == disasm::NOT_SHOWN {
        let hidden = Insn { code: opcode::NOT_SHOWN, ..Insn::default() };
        return Some(Assembled { slots: vec![hidden], call: None });
    }
    let (code, rest) = split_opcode(&line)?;
    starting_points(code).into_iter().find_map(|start| {
        let found = fill(start, rest)?;
        (found.spelling() == line).then_some(found)
    })
}

/// The spelling that this version of the disassembler would have used: single
/// spaces, and 32-bit registers as `w1` where bpftool of Linux 5.0 and older
/// has `(u32) r1`. The symbol of a call inside the program is left out, since
/// it says nothing about the instruction.
pub(super) fn normalise(line: &str) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("(u32) r", "w").replace("(u32) ", "");
    match line.split_once('#') {
        Some((call, _)) if call.contains(" call pc") => call.to_owned(),
        _ => line,
    }
}

fn split_opcode(line: &str) -> Option<(u8, &str)> {
    let (code, rest) = line.strip_prefix('(')?.split_once(") ")?;
    Some((u8::from_str_radix(code, 16).ok()?, rest))
}

/// One instruction for every form that an opcode can take: those fields are
/// set that choose the form.
fn starting_points(code: u8) -> Vec<Insn> {
    let bare = Insn { code, ..Insn::default() };
    let with_src =
        |sources: &[u8]| -> Vec<Insn> { sources.iter().map(|&src| Insn { src, ..bare }).collect() };
    let with_off = |offsets: &[i16]| offsets.iter().map(|&off| Insn { off, ..bare }).collect();
    match (bare.class(), bare.op()) {
        (opcode::LD, _) if bare.is_wide() => {
            let hidden = Insn { off: opcode::NOT_SHOWN_OFFSET, ..bare };
            [with_src(&[1, 2, 4, 6, 0]), vec![hidden]].concat()
        }
        (opcode::JMP, opcode::CALL) => with_src(&[0, opcode::PSEUDO_CALL]),
        (opcode::ALU | opcode::ALU64, opcode::DIV | opcode::MOD) => with_off(&[0, 1]),
        (opcode::ALU | opcode::ALU64, opcode::MOV) => with_off(&[0, 8, 16, 32, 1, -1]),
        (opcode::STX, _) if bare.mode() == opcode::ATOMIC => {
            ATOMICS.iter().map(|&imm| Insn { imm, ..bare }).collect()
        }
        _ => vec![bare],
    }
}

/// Every atomic operation: add, or, and, xor with and without fetch, then the
/// named ones.
const ATOMICS: [i32; 12] = [
    0x00,
    0x40,
    0x50,
    0xa0,
    0x01,
    0x41,
    0x51,
    0xa1,
    opcode::XCHG,
    opcode::CMPXCHG,
    opcode::LOAD_ACQ,
    opcode::STORE_REL,
];

fn fill(start: Insn, text: &str) -> Option<Assembled> {
    let mut filler = Filler { insn: start, next: Insn::default(), call: None, rest: text };
    for piece in form(start)? {
        filler.take(piece)?;
    }
    if !filler.rest.is_empty() {
        return None;
    }
    let slots = if start.is_wide() { vec![filler.insn, filler.next] } else { vec![filler.insn] };
    Some(Assembled { slots, call: filler.call })
}

impl Assembled {
    fn spelling(&self) -> String {
        let calls: BTreeMap<i32, String> = self.call.iter().cloned().collect();
        disasm::text(&self.slots, 0, &calls)
    }
}

/// An instruction whose fields are read from a text, piece by piece.
struct Filler<'a> {
    insn: Insn,
    next: Insn,
    call: Option<(i32, String)>,
    rest: &'a str,
}

impl<'a> Filler<'a> {
    fn take(&mut self, piece: Piece) -> Option<()> {
        match piece {
            Piece::Word(word) => self.rest = self.rest.strip_prefix(word)?,
            Piece::Dst(letter) => self.insn.dst = self.register(letter)?,
            Piece::Src(letter) => self.insn.src = self.register(letter)?,
            Piece::Off => self.insn.off = self.number()?.parse().ok()?,
            Piece::SignedImm | Piece::Imm => self.insn.imm = self.number()?.parse().ok()?,
            Piece::UnsignedImm => self.insn.imm = self.unsigned()?,
            Piece::NextImm => self.next.imm = self.unsigned()?,
            Piece::HexImm => self.insn.imm = u32::try_from(self.hex()?).ok()?.cast_signed(),
            Piece::HalvesImm => self.take_halves()?,
            Piece::WideImm => self.take_wide()?,
            Piece::HiddenImm => self.rest = self.rest.strip_prefix(disasm::NOT_SHOWN)?,
            Piece::Callee => self.take_callee()?,
        }
        Some(())
    }

    fn take_halves(&mut self) -> Option<()> {
        let high: u16 = self.number()?.parse().ok()?;
        self.rest = self.rest.strip_prefix(", ")?;
        let low: u16 = self.number()?.parse().ok()?;
        self.insn.imm = (u32::from(high) << 16 | u32::from(low)).cast_signed();
        Some(())
    }

    fn take_wide(&mut self) -> Option<()> {
        let value = self.hex()?;
        let [low, high] = [value & u64::from(u32::MAX), value >> 32].map(u32::try_from);
        self.insn.imm = low.ok()?.cast_signed();
        self.next.imm = high.ok()?.cast_signed();
        Some(())
    }

    fn take_callee(&mut self) -> Option<()> {
        let (name, imm) = self.rest.rsplit_once('#')?;
        if name == disasm::KFUNC {
            self.insn.src = opcode::PSEUDO_KFUNC;
        }
        self.insn.imm = imm.parse().ok()?;
        self.call = Some((self.insn.imm, name.to_owned()));
        self.rest = "";
        Some(())
    }

    fn register(&mut self, letter: char) -> Option<u8> {
        self.rest = self.rest.strip_prefix(letter)?;
        self.number()?.parse().ok().filter(|number| *number < 16)
    }

    fn unsigned(&mut self) -> Option<i32> {
        self.number()?.parse().ok().map(u32::cast_signed)
    }

    fn number(&mut self) -> Option<&'a str> {
        let signs = self.rest.len() - self.rest.trim_start_matches(['+', '-']).len();
        let digits = self.rest[signs..].find(|c: char| !c.is_ascii_digit());
        Some(self.split(digits.map_or(self.rest.len(), |digits| signs + digits)))
    }

    fn hex(&mut self) -> Option<u64> {
        self.rest = self.rest.strip_prefix("0x")?;
        let end = self.rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(self.rest.len());
        u64::from_str_radix(self.split(end), 16).ok()
    }

    fn split(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every kind of spelling once: opcode, dst, src, off, imm, text.
    const SPELLINGS: &[(u8, u8, u8, i16, i32, &str)] = &[
        (0xb7, 0, 0, 0, -1, "(b7) r0 = -1"),
        (0xb4, 0, 0, 0, 0, "(b4) w0 = 0"),
        (0xbf, 0, 11, 0, 0, "(bf) r0 = r11"),
        (0xbc, 3, 3, 0, 0, "(bc) w3 = w3"),
        (0x0f, 1, 2, 0, 0, "(0f) r1 += r2"),
        (0x17, 1, 0, 0, 5, "(17) r1 -= 5"),
        (0x2c, 1, 2, 0, 0, "(2c) w1 *= w2"),
        (0x37, 1, 0, 0, 7, "(37) r1 /= 7"),
        (0x37, 1, 0, 1, -7, "(37) r1 s/= -7"),
        (0x9c, 1, 2, 1, 0, "(9c) w1 s%= w2"),
        (0x97, 1, 0, 0, 7, "(97) r1 %= 7"),
        (0x54, 2, 0, 0, 65535, "(54) w2 &= 65535"),
        (0x4f, 2, 3, 0, 0, "(4f) r2 |= r3"),
        (0xaf, 2, 2, 0, 0, "(af) r2 ^= r2"),
        (0x6f, 2, 1, 0, 0, "(6f) r2 <<= r1"),
        (0x74, 3, 0, 0, 16, "(74) w3 >>= 16"),
        (0xc7, 3, 0, 0, 32, "(c7) r3 s>>= 32"),
        (0x87, 3, 0, 0, 0, "(87) r3 = -r3"),
        (0x84, 3, 0, 0, 0, "(84) w3 = -w3"),
        (0xbf, 1, 2, 8, 0, "(bf) r1 = (s8)r2"),
        (0xbc, 1, 2, 16, 0, "(bc) w1 = (s16)w2"),
        (0xbf, 1, 2, 32, 0, "(bf) r1 = (s32)r2"),
        (0xbf, 1, 2, 1, 1, "(bf) r1 = addr_space_cast(r2, 0, 1)"),
        (0xbf, 1, 2, -1, 0, "(bf) r1 = &(void __percpu *)(r2)"),
        (0xdc, 1, 0, 0, 16, "(dc) r1 = be16 r1"),
        (0xd4, 1, 0, 0, 64, "(d4) r1 = le64 r1"),
        (0xd7, 1, 0, 0, 32, "(d7) r1 = bswap32 r1"),
        (0x61, 2, 1, 0, 0, "(61) r2 = *(u32 *)(r1 +0)"),
        (0x69, 2, 1, 2, 0, "(69) r2 = *(u16 *)(r1 +2)"),
        (0x71, 2, 10, -1, 0, "(71) r2 = *(u8 *)(r10 -1)"),
        (0x79, 2, 10, -8, 0, "(79) r2 = *(u64 *)(r10 -8)"),
        (0x81, 2, 1, 4, 0, "(81) r2 = *(s32 *)(r1 +4)"),
        (0x91, 2, 1, 4, 0, "(91) r2 = *(s8 *)(r1 +4)"),
        (0x7a, 10, 0, -8, -3, "(7a) *(u64 *)(r10 -8) = -3"),
        (0xc2, 0, 0, 0, 0, "(c2) nospec"),
        (0x7b, 10, 2, -8, 0, "(7b) *(u64 *)(r10 -8) = r2"),
        (0xdb, 1, 2, 8, 0, "(db) lock *(u64 *)(r1 +8) += r2"),
        (0xc3, 1, 2, 8, 0xa0, "(c3) lock *(u32 *)(r1 +8) ^= r2"),
        (0xdb, 1, 2, 8, 0x41, "(db) r2 = atomic64_fetch_or((u64 *)(r1 +8), r2)"),
        (0xc3, 1, 2, 8, 0xe1, "(c3) r2 = atomic_xchg((u32 *)(r1 +8), r2)"),
        (0xdb, 1, 2, 8, 0xf1, "(db) r0 = atomic64_cmpxchg((u64 *)(r1 +8), r0, r2)"),
        (0xd3, 1, 2, 8, 0x100, "(d3) r1 = load_acquire((u8 *)(r2 +8))"),
        (0xcb, 1, 2, 8, 0x110, "(cb) store_release((u16 *)(r1 +8), r2)"),
        (0x20, 0, 0, 0, 12, "(20) r0 = *(u32 *)skb[12]"),
        (0x48, 0, 3, 0, 12, "(48) r0 = *(u16 *)skb[r3 + 12]"),
        (0x05, 0, 0, -1, 0, "(05) goto pc-1"),
        (0x06, 0, 0, 0, 70000, "(06) gotol pc+70000"),
        (0x0d, 4, 0, 0, 0, "(0d) gotox r4"),
        (0xe5, 0, 0, 3, 0, "(e5) may_goto pc+3"),
        (0x55, 2, 0, 4, 2, "(55) if r2 != 0x2 goto pc+4"),
        (0x56, 2, 0, 4, -1, "(56) if w2 != 0xffffffff goto pc+4"),
        (0x2d, 1, 2, 4, 0, "(2d) if r1 > r2 goto pc+4"),
        (0x45, 1, 0, 4, 1, "(45) if r1 & 0x1 goto pc+4"),
        (0xc6, 1, 0, -4, 1, "(c6) if w1 s< 0x1 goto pc-4"),
        (0x7d, 1, 2, 0, 0, "(7d) if r1 s>= r2 goto pc+0"),
        (0x85, 0, 1, 5, 0, "(85) call pc+5"),
        (0x85, 0, 0, 0, 330_864, "(85) call __htab_map_lookup_elem#330864"),
        (0x85, 0, 0, 0, 12, "(85) call bpf_tail_call#12"),
        (0x85, 0, 0, 0, -99, "(85) call unknown#-99"),
        (0x85, 0, 2, 0, 7, "(85) call kernel-function#7"),
        (0x95, 0, 0, 0, 0, "(95) exit"),
    ];

    /// Make sure that every spelling means exactly one instruction.
    #[test]
    fn every_spelling_both_ways() {
        let calls = BTreeMap::from([(330_864, "__htab_map_lookup_elem".to_owned())]);
        for &(code, dst, src, off, imm, text) in SPELLINGS {
            let insn = Insn { code, dst, src, off, imm };
            assert_eq!(disasm::text(&[insn], 0, &calls), text);
            assert_eq!(assemble(text).map(|read| read.slots), Some(vec![insn]), "{text}");
        }
    }

    /// Make sure that 64-bit loads fill both slots.
    #[test]
    fn wide_loads_both_ways() {
        let cases = [
            (0, 0x5678, 0x1234, "(18) r1 = 0x123400005678"),
            (0, -1, -1, "(18) r1 = 0xffffffffffffffff"),
            (1, 343, 0, "(18) r1 = map[id:343]"),
            (2, 343, 16, "(18) r1 = map[id:343][0]+16"),
            (4, -47, 0, "(18) r1 = subprog[-47]"),
            (6, 2, 8, "(18) r1 = map[idx:2]+8"),
        ];
        for (src, imm, high, text) in cases {
            let first = Insn { code: 0x18, dst: 1, src, off: 0, imm };
            let slots = vec![first, Insn { imm: high, ..Insn::default() }];
            assert_eq!(disasm::text(&slots, 0, &BTreeMap::new()), text);
            assert_eq!(assemble(text).map(|read| read.slots), Some(slots), "{text}");
        }
        assert_eq!(disasm::text(&[Insn { code: 0x18, ..Insn::default() }], 0, &BTreeMap::new()), "BUG_18");
    }

    /// Make sure that what a log did not show is not shown, and reads back as that.
    #[test]
    fn what_is_not_shown() {
        let hidden = Insn { code: opcode::NOT_SHOWN, ..Insn::default() };
        let load = Insn { code: 0x18, dst: 1, off: opcode::NOT_SHOWN_OFFSET, ..Insn::default() };
        for (slots, text) in
            [(vec![hidden], "(not shown)"), (vec![load, Insn::default()], "(18) r1 = (not shown)")]
        {
            assert_eq!(disasm::text(&slots, 0, &BTreeMap::new()), text);
            assert_eq!(assemble(text).map(|read| read.slots), Some(slots), "{text}");
        }
    }

    /// Make sure that listings of other bpftool versions are understood.
    #[test]
    fn other_versions() {
        let same = [
            ("(54) (u32) r2 &= (u32) 65535", "(54) w2 &= 65535"),
            ("(bc) (u32) r2 = (u32) r3", "(bc) w2 = w3"),
            ("(85) call pc+5#bpf_prog_0123456789abcdef_F", "(85) call pc+5"),
            ("(85)  call   pc+5#0xffffffffc0000000", "(85) call pc+5"),
        ];
        for (other, ours) in same {
            assert_eq!(assemble(other), assemble(ours), "{other}");
            assert!(assemble(ours).is_some(), "{ours}");
        }
    }

    /// Make sure that a spelling that is not exact is refused.
    #[test]
    fn near_misses_are_refused() {
        let misses = [
            "(55) if r2 != 2 goto pc+4",
            "(55) if r2 != 0x02 goto pc+4",
            "(55) if r2 != 0x2 goto pc4",
            "(55) if w2 != 0x2 goto pc+4",
            "(55) if r2 != 0x100000000 goto pc+4",
            "(55) if r16 != 0x2 goto pc+4",
            "(5) goto pc+4",
            "(b7) r0 = 1 r",
            "(dc) r1 = be16 r2",
            "(84) w1 = -w2",
            "(ff) r1 = r2",
            "exit",
        ];
        for miss in misses {
            assert_eq!(assemble(miss), None, "{miss}");
        }
    }

    fn any_insn() -> impl Strategy<Value = Insn> {
        let imm = prop_oneof![any::<i32>(), 0..0x120];
        let off = prop_oneof![any::<i16>(), -2..40_i16];
        let fields = (any::<u8>(), 0..16_u8, prop_oneof![0..7_u8, 0..16_u8], off, imm);
        fields.prop_map(|(code, dst, src, off, imm)| Insn { code, dst, src, off, imm })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 20_000, ..Default::default() })]

        /// Make sure that every text the disassembler prints reads back as an
        /// instruction with the same text.
        #[test]
        fn whatever_prints_reads_back(first in any_insn(), second in any::<i32>()) {
            let slots = [first, Insn { imm: second, ..Insn::default() }];
            let text = disasm::text(&slots, 0, &BTreeMap::new());
            if let Some(read) = assemble(&text) {
                prop_assert_eq!(read.spelling(), text);
                prop_assert_eq!(read.slots[0].code, first.code);
            } else {
                prop_assert!(text.starts_with("BUG_"), "{}", text);
            }
        }

        /// Make sure that no text makes the assembler panic.
        #[test]
        fn any_text_is_survived(text in "\\([0-9a-f]{2}\\) [a-z0-9+#*()\\[\\]. -]{0,40}") {
            assemble(&text);
        }
    }
}
