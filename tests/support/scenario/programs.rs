//! Device programs as their writers emit them, instruction by instruction.

use gpumap::bytecode::Insn;

/// One device file that the writer has a rule for: major, minor, whether it may
/// be opened.
pub type Rule = (u32, u32, bool);

const LOAD: u8 = 0x61;
const EXIT: Insn = Insn { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 };

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: u32) -> Insn {
    Insn { code, dst, src, off, imm: imm as i32 }
}

fn bytes(insns: &[Insn]) -> Vec<u8> {
    insns.iter().flat_map(|insn| insn.bytes()).collect()
}

/// Slurm's `Slurm_Cgroup_v2`: for each file the type, major and minor, never
/// the access; what no rule names is allowed (`fixtures/programs/slurm`).
pub fn slurm(rules: &[Rule]) -> Vec<u8> {
    let mut insns = vec![
        insn(LOAD, 2, 1, 0, 0),
        insn(0x54, 2, 0, 0, 0xffff),
        insn(LOAD, 3, 1, 0, 0),
        insn(0x74, 3, 0, 0, 16),
        insn(LOAD, 4, 1, 4, 0),
        insn(LOAD, 5, 1, 8, 0),
    ];
    for (major, minor, allowed) in rules {
        insns.extend([
            insn(0x55, 2, 0, 4, 2),
            insn(0x55, 4, 0, 3, *major),
            insn(0x55, 5, 0, 2, *minor),
            insn(0xb7, 0, 0, 0, u32::from(*allowed)),
            EXIT,
        ]);
    }
    insns.extend([insn(0xb7, 0, 0, 0, 1), EXIT]);
    bytes(&insns)
}

/// HTCondor's deny-list: major and minor alone, 32-bit jumps
/// (`proc_family_direct_cgroup_v2.cpp`).
pub fn htcondor(denied: &[(u32, u32)]) -> Vec<u8> {
    let mut insns = vec![insn(0xb4, 0, 0, 0, 1), insn(LOAD, 2, 1, 4, 0), insn(LOAD, 3, 1, 8, 0)];
    for (major, minor) in denied {
        insns.extend([
            insn(0x56, 2, 0, 3, *major),
            insn(0x56, 3, 0, 2, *minor),
            insn(0xb4, 0, 0, 0, 0),
            EXIT,
        ]);
    }
    insns.push(EXIT);
    bytes(&insns)
}
