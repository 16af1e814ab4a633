//! One eBPF instruction slot, as the kernel lays it out.

/// One 8-byte slot (`struct bpf_insn` in `linux/bpf.h`). A 64-bit load takes
/// two slots, the second with opcode 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Class, operation and source bit.
    pub code: u8,
    /// Destination register, 0 to 11 (11 is the kernel's own AX).
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
}
