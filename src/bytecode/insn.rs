//! One eBPF instruction slot, as the kernel lays it out.

use super::opcode;

/// One 8-byte slot (`struct bpf_insn` in `linux/bpf.h`). A 64-bit load takes
/// two slots, the second with opcode 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Class, operation and source bit.
    pub code: u8,
    /// Destination register, 0 to 12 (the last two are the kernel's own).
    pub dst: u8,
    /// Source register, or a pseudo number in loads and calls.
    pub src: u8,
    /// Signed offset of memory accesses and jumps.
    pub off: i16,
    /// Signed immediate.
    pub imm: i32,
}

impl Insn {
    /// Splits raw bytes into slots (little endian, as on every host with GPUs
    /// that gpumap supports). Returns `None` if the length is not a multiple
    /// of 8.
    pub fn parse_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let chunks = bytes.chunks_exact(8);
        chunks.remainder().is_empty().then(|| chunks.map(Self::parse).collect())
    }

    fn parse(slot: &[u8]) -> Self {
        Self {
            code: slot[0],
            dst: slot[1] & 15,
            src: slot[1] >> 4,
            off: i16::from_le_bytes([slot[2], slot[3]]),
            imm: i32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]),
        }
    }

    /// The slot's bytes.
    pub fn bytes(self) -> [u8; 8] {
        let [off0, off1] = self.off.to_le_bytes();
        let [imm0, imm1, imm2, imm3] = self.imm.to_le_bytes();
        [self.code, self.src << 4 | self.dst & 15, off0, off1, imm0, imm1, imm2, imm3]
    }

    /// The class bits of the opcode, such as [`opcode::ALU64`].
    pub fn class(self) -> u8 {
        self.code & opcode::CLASS_MASK
    }

    /// The operation bits of arithmetic and jumps, such as [`opcode::ADD`].
    pub fn op(self) -> u8 {
        self.code & opcode::OP_MASK
    }

    /// The size bits of loads and stores, such as [`opcode::DW`].
    pub fn size(self) -> u8 {
        self.code & opcode::SIZE_MASK
    }

    /// The mode bits of loads and stores, such as [`opcode::MEM`].
    pub fn mode(self) -> u8 {
        self.code & opcode::MODE_MASK
    }

    /// Whether the source is a register ([`opcode::X`]), not the immediate.
    pub fn uses_register(self) -> bool {
        self.code & opcode::X != 0
    }

    /// Whether this is the first slot of a 64-bit load, which has two.
    pub fn is_wide(self) -> bool {
        self.code == opcode::LD_IMM64
    }

    /// Whether control never reaches the next slot: an exit or an
    /// unconditional jump.
    pub fn ends_path(self) -> bool {
        use opcode::{EXIT, JA, JMP, JMP32, X};
        const ENDS: [u8; 4] = [JMP | EXIT, JMP | JA, JMP32 | JA, JMP | JA | X];
        ENDS.contains(&self.code)
    }
}
