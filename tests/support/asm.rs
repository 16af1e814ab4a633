//! A tiny assembler: instructions by name, forward labels.

use gpumap::bytecode::Insn;

use super::source::{MapSpec, Source};

/// ALU operations (high nibble of the opcode).
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const MUL: u8 = 0x20;
    pub const DIV: u8 = 0x30;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const MOD: u8 = 0x90;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// Jump conditions (high nibble of the opcode).
pub mod cond {
    pub const EQ: u8 = 0x10;
    pub const GT: u8 = 0x20;
    pub const GE: u8 = 0x30;
    pub const SET: u8 = 0x40;
    pub const NE: u8 = 0x50;
    pub const SGT: u8 = 0x60;
    pub const SGE: u8 = 0x70;
    pub const LT: u8 = 0xa0;
    pub const LE: u8 = 0xb0;
    pub const SLT: u8 = 0xc0;
    pub const SLE: u8 = 0xd0;
    pub const ALL: [u8; 11] = [EQ, GT, GE, SET, NE, SGT, SGE, LT, LE, SLT, SLE];
}

/// Access sizes (bits 3 and 4 of the opcode).
pub mod size {
    pub const W: u8 = 0x00;
    pub const H: u8 = 0x08;
    pub const B: u8 = 0x10;
    pub const DW: u8 = 0x18;

    /// Bytes of a size.
    pub fn bytes(size: u8) -> i16 {
        match size {
            B => 1,
            H => 2,
            W => 4,
            _ => 8,
        }
    }
}

/// Helper numbers (`enum bpf_func_id`).
pub mod helper {
    pub const MAP_LOOKUP: i32 = 1;
    pub const MAP_UPDATE: i32 = 2;
    pub const MAP_DELETE: i32 = 3;
    pub const TAIL_CALL: i32 = 12;
    pub const RINGBUF_OUTPUT: i32 = 130;
    pub const TASK_BTF: i32 = 158;
    pub const FOR_EACH: i32 = 164;
    pub const LOOP: i32 = 181;
    pub const KTIME: i32 = 5;
    pub const TRACE_PRINTK: i32 = 6;
    pub const PRANDOM: i32 = 7;
    pub const UID_GID: i32 = 15;
    pub const CGROUP_ID: i32 = 80;
    pub const PROBE_READ_KERNEL: i32 = 113;
    pub const GET_RETVAL: i32 = 186;
    pub const SET_RETVAL: i32 = 187;
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

#[derive(Clone, Copy, Debug)]
enum Fixup {
    Jump,
    LongJump,
    Call,
}

/// A program being written.
#[derive(Clone, Debug, Default)]
pub struct Asm {
    insns: Vec<Insn>,
    maps: Vec<MapSpec>,
    fixups: Vec<(usize, Label, Fixup)>,
    labels: Vec<Option<usize>>,
}

impl Asm {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn raw(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) {
        self.insns.push(Insn { code, dst, src, off, imm });
    }

    pub fn len(&self) -> usize {
        self.insns.len()
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    /// A label here, for jumps back.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    pub fn op64(&mut self, op: u8, dst: u8, imm: i32) {
        self.raw(op | 0x07, dst, 0, 0, imm);
    }

    pub fn op64r(&mut self, op: u8, dst: u8, src: u8) {
        self.raw(op | 0x0f, dst, src, 0, 0);
    }

    pub fn op32(&mut self, op: u8, dst: u8, imm: i32) {
        self.raw(op | 0x04, dst, 0, 0, imm);
    }

    pub fn op32r(&mut self, op: u8, dst: u8, src: u8) {
        self.raw(op | 0x0c, dst, src, 0, 0);
    }

    pub fn mov(&mut self, dst: u8, imm: i32) {
        self.op64(alu::MOV, dst, imm);
    }

    pub fn movr(&mut self, dst: u8, src: u8) {
        self.op64r(alu::MOV, dst, src);
    }

    /// `dst = *(size *)(src + off)`
    pub fn ldx(&mut self, size: u8, dst: u8, src: u8, off: i16) {
        self.raw(0x61 | size, dst, src, off, 0);
    }

    /// `*(size *)(dst + off) = src`
    pub fn stx(&mut self, size: u8, dst: u8, off: i16, src: u8) {
        self.raw(0x63 | size, dst, src, off, 0);
    }

    /// `*(size *)(dst + off) = imm`
    pub fn st(&mut self, size: u8, dst: u8, off: i16, imm: i32) {
        self.raw(0x62 | size, dst, 0, off, imm);
    }

    /// A 64-bit constant, two slots.
    pub fn ld64(&mut self, dst: u8, value: u64) {
        self.raw(0x18, dst, 0, 0, value as u32 as i32);
        self.raw(0, 0, 0, 0, (value >> 32) as u32 as i32);
    }

    /// Registers a map and returns its index.
    pub fn map(&mut self, spec: MapSpec) -> usize {
        self.maps.push(spec);
        self.maps.len() - 1
    }

    /// The address of a map.
    pub fn ld_map(&mut self, dst: u8, map: usize) {
        self.raw(0x18, dst, 1, 0, map as i32);
        self.raw(0, 0, 0, 0, 0);
    }

    /// The address of a byte in an array map's values.
    pub fn ld_map_value(&mut self, dst: u8, map: usize, offset: u32) {
        self.raw(0x18, dst, 2, 0, map as i32);
        self.raw(0, 0, 0, 0, offset as i32);
    }

    pub fn call(&mut self, helper: i32) {
        self.raw(0x85, 0, 0, 0, helper);
    }

    /// The address of a subprogram, two slots.
    pub fn ld_function(&mut self, dst: u8, target: Label) {
        self.fixups.push((self.insns.len(), target, Fixup::Call));
        self.raw(0x18, dst, 4, 0, 0);
        self.raw(0, 0, 0, 0, 0);
    }

    /// Calls a kernel function by its number in the kernel's types.
    pub fn call_kernel(&mut self, function: i32) {
        self.raw(0x85, 0, 2, 0, function);
    }

    /// Calls a subprogram.
    pub fn call_local(&mut self, target: Label) {
        self.fixups.push((self.insns.len(), target, Fixup::Call));
        self.raw(0x85, 0, 1, 0, 0);
    }

    pub fn exit(&mut self) {
        self.raw(0x95, 0, 0, 0, 0);
    }

    /// `r0 = verdict; exit` with a 64-bit move.
    pub fn verdict(&mut self, verdict: i32) {
        self.mov(0, verdict);
        self.exit();
    }

    /// `w0 = verdict; exit`.
    pub fn verdict32(&mut self, verdict: i32) {
        self.op32(alu::MOV, 0, verdict);
        self.exit();
    }

    pub fn jump(&mut self, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::Jump));
        self.raw(0x05, 0, 0, 0, 0);
    }

    /// `gotol`: the distance is in the immediate.
    pub fn jump_long(&mut self, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::LongJump));
        self.raw(0x06, 0, 0, 0, 0);
    }

    pub fn jump_if(&mut self, cond: u8, dst: u8, imm: i32, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::Jump));
        self.raw(cond | 0x05, dst, 0, 0, imm);
    }

    pub fn jump_ifr(&mut self, cond: u8, dst: u8, src: u8, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::Jump));
        self.raw(cond | 0x0d, dst, src, 0, 0);
    }

    pub fn jump_if32(&mut self, cond: u8, dst: u8, imm: i32, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::Jump));
        self.raw(cond | 0x06, dst, 0, 0, imm);
    }

    pub fn jump_if32r(&mut self, cond: u8, dst: u8, src: u8, to: Label) {
        self.fixups.push((self.insns.len(), to, Fixup::Jump));
        self.raw(cond | 0x0e, dst, src, 0, 0);
    }

    /// Resolves the labels.
    pub fn finish(mut self, shape: &str) -> Source {
        for (at, label, kind) in self.fixups {
            let target = self.labels[label.0].expect("a label that is bound");
            let distance = i32::try_from(target).unwrap() - i32::try_from(at).unwrap() - 1;
            match kind {
                Fixup::Jump => self.insns[at].off = i16::try_from(distance).expect("a short jump"),
                Fixup::LongJump | Fixup::Call => self.insns[at].imm = distance,
            }
        }
        Source { shape: shape.into(), insns: self.insns, maps: self.maps, ..Source::default() }
    }
}
