//! Fetch, execute, repeat.

use gpumap::bytecode::Insn;
use gpumap::observation::Program;

use super::memory::{CTX, Memory};
use super::{Unmodelled, alu};

const MOST_STEPS: u32 = 1_000_000;

/// One run of one program.
pub struct Run<'r, 'm> {
    insns: &'r [Insn],
    program: &'r Program,
    memory: &'r mut Memory<'m>,
    cgroup_id: u64,
    /// What `bpf_get_retval` returns.
    pub retval: i32,
    regs: [u64; 13],
    /// Return address and r6 to r10 of the callers.
    frames: Vec<(usize, [u64; 5])>,
}

impl<'r, 'm> Run<'r, 'm> {
    pub fn new(
        insns: &'r [Insn],
        program: &'r Program,
        memory: &'r mut Memory<'m>,
        cgroup_id: u64,
        retval: i32,
    ) -> Self {
        let mut regs = [0xdead_beef_dead_beef; 13];
        regs[1] = CTX;
        regs[10] = memory.push_frame(0);
        Self { insns, program, memory, cgroup_id, retval, regs, frames: Vec::new() }
    }

    /// r0 at the exit of the main program.
    pub fn main(&mut self) -> Result<u64, Unmodelled> {
        let mut pc = 0;
        for _ in 0..MOST_STEPS {
            let insn = *self.insns.get(pc).ok_or_else(|| Unmodelled(format!("end of program at {pc}")))?;
            if insn.code == 0x95 {
                let Some((back, saved)) = self.frames.pop() else { return Ok(self.regs[0]) };
                self.regs[6..11].copy_from_slice(&saved);
                pc = back;
                continue;
            }
            pc = self.step(pc, insn)?;
        }
        Err(Unmodelled("too many steps".into()))
    }

    /// Executes one instruction; the next program counter.
    fn step(&mut self, pc: usize, insn: Insn) -> Result<usize, Unmodelled> {
        match insn.code & 7 {
            0 => return self.load_constant(pc, insn),
            1 => self.load(insn)?,
            2 => self.store(insn, insn.imm as i64 as u64)?,
            3 if insn.code & 0xe0 == 0xc0 => self.atomic(insn)?,
            3 => self.store(insn, self.regs[usize::from(insn.src)])?,
            4 | 7 => {
                let value = alu::compute(insn, self.regs[usize::from(insn.dst)], self.operand(insn))?;
                self.regs[usize::from(insn.dst)] = value;
            }
            _ => return self.jump(pc, insn),
        }
        Ok(pc + 1)
    }

    fn operand(&self, insn: Insn) -> u64 {
        if insn.code & 8 == 0 { insn.imm as i64 as u64 } else { self.regs[usize::from(insn.src)] }
    }

    fn load_constant(&mut self, pc: usize, insn: Insn) -> Result<usize, Unmodelled> {
        let high = self.insns.get(pc + 1).map_or(0, |next| next.imm as u32);
        self.regs[usize::from(insn.dst)] = match insn.src {
            0 => u64::from(insn.imm as u32) | u64::from(high) << 32,
            1 => self.memory.map(insn.imm as u32, false)?,
            2 => self.memory.map(insn.imm as u32, true)? + u64::from(high),
            other => return Err(Unmodelled(format!("a load of kind {other}"))),
        };
        Ok(pc + 2)
    }

    fn load(&mut self, insn: Insn) -> Result<(), Unmodelled> {
        let address = self.regs[usize::from(insn.src)].wrapping_add(insn.off as u64);
        let size = access_size(insn.code);
        let value = self.memory.load(address, size)?;
        self.regs[usize::from(insn.dst)] = match (insn.code & 0xe0, size) {
            (0x60, _) => value,
            (0x80, 1) => value as i8 as u64,
            (0x80, 2) => value as i16 as u64,
            (0x80, 4) => value as i32 as u64,
            (mode, _) => return Err(Unmodelled(format!("a load of mode {mode:#x}"))),
        };
        Ok(())
    }

    fn store(&mut self, insn: Insn, value: u64) -> Result<(), Unmodelled> {
        let address = self.regs[usize::from(insn.dst)].wrapping_add(insn.off as u64);
        self.memory.store(address, access_size(insn.code), value)
    }

    fn atomic(&mut self, insn: Insn) -> Result<(), Unmodelled> {
        let size = access_size(insn.code);
        let address = self.regs[usize::from(insn.dst)].wrapping_add(insn.off as u64);
        let old = self.memory.load(address, size)?;
        let operand = self.regs[usize::from(insn.src)];
        let mask = if size == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let new = match insn.imm & !1 {
            0x00 => old.wrapping_add(operand),
            0x40 => old | operand,
            0x50 => old & operand,
            0xa0 => old ^ operand,
            0xe0 => operand,
            0xf0 if old == self.regs[0] & mask => operand,
            0xf0 => old,
            other => return Err(Unmodelled(format!("atomic {other:#x}"))),
        };
        self.memory.store(address, size, new & mask)?;
        if insn.imm & !1 == 0xf0 {
            self.regs[0] = old;
        } else if insn.imm & 1 == 1 {
            self.regs[usize::from(insn.src)] = old;
        }
        Ok(())
    }

    fn jump(&mut self, pc: usize, insn: Insn) -> Result<usize, Unmodelled> {
        let to = |distance: i32| (pc as i64 + 1 + i64::from(distance)) as usize;
        match insn.code {
            0x05 => Ok(to(i32::from(insn.off))),
            0x06 => Ok(to(insn.imm)),
            0x85 if insn.src == 1 => self.enter(pc, to(i32::from(insn.off))),
            0x85 => self.helper(insn.imm).map(|()| pc + 1),
            _ => {
                let taken = alu::taken(insn.code, self.regs[usize::from(insn.dst)], self.operand(insn));
                Ok(if taken { to(i32::from(insn.off)) } else { pc + 1 })
            }
        }
    }

    fn enter(&mut self, pc: usize, target: usize) -> Result<usize, Unmodelled> {
        let mut saved = [0; 5];
        saved.copy_from_slice(&self.regs[6..11]);
        self.frames.push((pc + 1, saved));
        self.regs[10] = self.memory.push_frame(self.frames.len() as u64);
        Ok(target)
    }

    fn helper(&mut self, imm: i32) -> Result<(), Unmodelled> {
        let name = self.program.calls.get(&imm).map_or("", String::as_str);
        let [r1, r2, r3] = [self.regs[1], self.regs[2], self.regs[3]];
        self.regs[0] = match name {
            "__htab_map_lookup_elem" => self.memory.look_up(r1, r2)?,
            "bpf_get_current_cgroup_id" => self.cgroup_id,
            "bpf_get_retval" => self.retval as u64,
            "bpf_set_retval" => {
                self.retval = r1 as i32;
                0
            }
            "bpf_trace_printk" => 0,
            "bpf_probe_read_kernel" => {
                for at in 0..r2 & 0xffff_ffff {
                    let byte = self.memory.load(r3 + at, 1)?;
                    self.memory.store(r1 + at, 1, byte)?;
                }
                0
            }
            other => return Err(Unmodelled(format!("helper {other} ({imm})"))),
        };
        self.regs[1..6].fill(0xdead_beef_dead_beef);
        Ok(())
    }
}

fn access_size(code: u8) -> usize {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}
