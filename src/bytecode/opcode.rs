//! Named numbers of the instruction set.
//!
//! Sources: `linux/bpf_common.h` (classes, sizes, operations shared with
//! classic BPF), `linux/bpf.h` (everything that eBPF added) and, where said,
//! the kernel's own `linux/filter.h`.

/// Mask of the class bits of an opcode (`BPF_CLASS`).
pub const CLASS_MASK: u8 = 0x07;
/// Mask of the operation bits of arithmetic and jumps (`BPF_OP`).
pub const OP_MASK: u8 = 0xf0;
/// Mask of the size bits of loads and stores (`BPF_SIZE`).
pub const SIZE_MASK: u8 = 0x18;
/// Mask of the mode bits of loads and stores (`BPF_MODE`).
pub const MODE_MASK: u8 = 0xe0;

/// Class: 64-bit immediate loads and packet loads (`BPF_LD`).
pub const LD: u8 = 0x00;
/// Class: load from memory into a register (`BPF_LDX`).
pub const LDX: u8 = 0x01;
/// Class: store an immediate (`BPF_ST`).
pub const ST: u8 = 0x02;
/// Class: store a register, and atomics (`BPF_STX`).
pub const STX: u8 = 0x03;
/// Class: 32-bit arithmetic (`BPF_ALU`).
pub const ALU: u8 = 0x04;
/// Class: jumps that compare 64 bits, calls and exit (`BPF_JMP`).
pub const JMP: u8 = 0x05;
/// Class: jumps that compare 32 bits (`BPF_JMP32`).
pub const JMP32: u8 = 0x06;
/// Class: 64-bit arithmetic (`BPF_ALU64`).
pub const ALU64: u8 = 0x07;

/// Source: the immediate (`BPF_K`).
pub const K: u8 = 0x00;
/// Source: a register (`BPF_X`).
pub const X: u8 = 0x08;

/// Size: 4 bytes (`BPF_W`).
pub const W: u8 = 0x00;
/// Size: 2 bytes (`BPF_H`).
pub const H: u8 = 0x08;
/// Size: 1 byte (`BPF_B`).
pub const B: u8 = 0x10;
/// Size: 8 bytes (`BPF_DW`).
pub const DW: u8 = 0x18;

/// Mode: the value is in the instruction (`BPF_IMM`).
pub const IMM: u8 = 0x00;
/// Mode: packet byte at a fixed place (`BPF_ABS`).
pub const ABS: u8 = 0x20;
/// Mode: packet byte at a register plus a fixed offset (`BPF_IND`).
pub const IND: u8 = 0x40;
/// Mode: ordinary memory (`BPF_MEM`).
pub const MEM: u8 = 0x60;
/// Mode: memory, sign-extended (`BPF_MEMSX`).
pub const MEMSX: u8 = 0x80;
/// Mode: atomic operation, named by the immediate (`BPF_ATOMIC`).
pub const ATOMIC: u8 = 0xc0;
/// Mode in class [`LDX`]: as [`MEM`], 0 where the address is bad
/// (`BPF_PROBE_MEM`, `linux/filter.h`).
pub const PROBE_MEM: u8 = 0x20;
/// Mode in class [`LDX`]: as [`MEMSX`], 0 where the address is bad
/// (`BPF_PROBE_MEMSX`, `linux/filter.h`).
pub const PROBE_MEMSX: u8 = 0x40;
/// A load or store in an arena, memory shared with user space
/// (`BPF_PROBE_MEM32`, `linux/filter.h`).
pub const PROBE_MEM32: u8 = 0xa0;
/// Mode in class [`LDX`]: as [`PROBE_MEM32`], sign-extended
/// (`BPF_PROBE_MEM32SX`, `linux/filter.h`).
pub const PROBE_MEM32SX: u8 = 0xc0;
/// An atomic access in an arena (`BPF_PROBE_ATOMIC`, `linux/filter.h`).
pub const PROBE_ATOMIC: u8 = 0xe0;
/// Mode in class [`ST`]: speculation barrier (`BPF_NOSPEC`, `linux/filter.h`).
pub const NOSPEC: u8 = 0xc0;

/// `+=` (`BPF_ADD`).
pub const ADD: u8 = 0x00;
/// `-=` (`BPF_SUB`).
pub const SUB: u8 = 0x10;
/// `*=` (`BPF_MUL`).
pub const MUL: u8 = 0x20;
/// `/=`, signed if the offset is 1 (`BPF_DIV`).
pub const DIV: u8 = 0x30;
/// `|=` (`BPF_OR`).
pub const OR: u8 = 0x40;
/// `&=` (`BPF_AND`).
pub const AND: u8 = 0x50;
/// `<<=` (`BPF_LSH`).
pub const LSH: u8 = 0x60;
/// `>>=`, zero-filling (`BPF_RSH`).
pub const RSH: u8 = 0x70;
/// Negation (`BPF_NEG`).
pub const NEG: u8 = 0x80;
/// `%=`, signed if the offset is 1 (`BPF_MOD`).
pub const MOD: u8 = 0x90;
/// `^=` (`BPF_XOR`).
pub const XOR: u8 = 0xa0;
/// `=`, sign-extending if the offset is 8, 16 or 32 (`BPF_MOV`).
pub const MOV: u8 = 0xb0;
/// `>>=`, sign-filling (`BPF_ARSH`).
pub const ARSH: u8 = 0xc0;
/// Byte order (`BPF_END`); in class [`ALU64`] an unconditional swap.
pub const END: u8 = 0xd0;

/// `goto` (`BPF_JA`).
pub const JA: u8 = 0x00;
/// `==` (`BPF_JEQ`).
pub const JEQ: u8 = 0x10;
/// `>` (`BPF_JGT`).
pub const JGT: u8 = 0x20;
/// `>=` (`BPF_JGE`).
pub const JGE: u8 = 0x30;
/// `&`, any common bit (`BPF_JSET`).
pub const JSET: u8 = 0x40;
/// `!=` (`BPF_JNE`).
pub const JNE: u8 = 0x50;
/// `s>` (`BPF_JSGT`).
pub const JSGT: u8 = 0x60;
/// `s>=` (`BPF_JSGE`).
pub const JSGE: u8 = 0x70;
/// Function call (`BPF_CALL`).
pub const CALL: u8 = 0x80;
/// Return (`BPF_EXIT`).
pub const EXIT: u8 = 0x90;
/// `<` (`BPF_JLT`).
pub const JLT: u8 = 0xa0;
/// `<=` (`BPF_JLE`).
pub const JLE: u8 = 0xb0;
/// `s<` (`BPF_JSLT`).
pub const JSLT: u8 = 0xc0;
/// `s<=` (`BPF_JSLE`).
pub const JSLE: u8 = 0xd0;
/// Conditional pseudo jump, named by its source (`BPF_JCOND`).
pub const JCOND: u8 = 0xe0;
/// Source of [`JCOND`]: a jump that is taken when a loop has run long enough
/// (`BPF_MAY_GOTO`).
pub const MAY_GOTO: u8 = 0;

/// First slot of a 64-bit immediate load (`BPF_LD | BPF_IMM | BPF_DW`).
pub const LD_IMM64: u8 = LD | IMM | DW;

/// Source of a 64-bit load: the immediate is a map id (`BPF_PSEUDO_MAP_FD`).
pub const PSEUDO_MAP: u8 = 1;
/// Source of a 64-bit load: a place inside the value of a map, offset in the
/// second slot (`BPF_PSEUDO_MAP_VALUE`).
pub const PSEUDO_MAP_VALUE: u8 = 2;
/// Source of a 64-bit load: a variable of the kernel (`BPF_PSEUDO_BTF_ID`).
pub const PSEUDO_BTF_ID: u8 = 3;
/// Source of a 64-bit load: a function of this program (`BPF_PSEUDO_FUNC`).
pub const PSEUDO_FUNC: u8 = 4;
/// Source of a 64-bit load: as [`PSEUDO_MAP`] with an index into the loader's list
/// (`BPF_PSEUDO_MAP_IDX`).
pub const PSEUDO_MAP_IDX: u8 = 5;
/// Source of a 64-bit load: as [`PSEUDO_MAP_VALUE`] with an index into the
/// loader's list (`BPF_PSEUDO_MAP_IDX_VALUE`).
pub const PSEUDO_MAP_IDX_VALUE: u8 = 6;
/// Source of a call: a function of this program (`BPF_PSEUDO_CALL`).
pub const PSEUDO_CALL: u8 = 1;
/// Source of a call: a kernel function (`BPF_PSEUDO_KFUNC_CALL`).
pub const PSEUDO_KFUNC: u8 = 2;

/// Atomic immediate bit: also return the old value (`BPF_FETCH`).
pub const FETCH: i32 = 0x01;
/// Atomic immediate: exchange (`BPF_XCHG`).
pub const XCHG: i32 = 0xe1;
/// Atomic immediate: compare and exchange (`BPF_CMPXCHG`).
pub const CMPXCHG: i32 = 0xf1;
/// Atomic immediate: load with acquire order (`BPF_LOAD_ACQ`).
pub const LOAD_ACQ: i32 = 0x100;
/// Atomic immediate: store with release order (`BPF_STORE_REL`).
pub const STORE_REL: i32 = 0x110;

/// Offset of a register move that changes the address space
/// (`BPF_ADDR_SPACE_CAST`).
pub const ADDR_SPACE_CAST: i16 = 1;
/// Offset of a register move that adds the per-CPU base (`BPF_ADDR_PERCPU`,
/// `linux/filter.h`).
pub const ADDR_PERCPU: i16 = -1;
/// Immediate of such a move: from the address space of an arena to the kernel's.
pub const TO_KERNEL: i32 = 1;
/// Immediate of such a move: from the kernel's to the address space of an arena.
pub const TO_USER: i32 = 1 << 16;

/// No opcode of the kernel: an instruction that the log or listing does not show which
/// a program was read from.
pub const NOT_SHOWN: u8 = 0xff;
/// No offset of the kernel's: one that a listing does not show, and that says what the
/// instruction does. Moves and divisions have it, and 64-bit loads of a verifier's log.
pub const NOT_SHOWN_OFFSET: i16 = i16::MIN;
