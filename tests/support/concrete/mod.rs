//! A plain interpreter of translated programs: one question at a time, numbers
//! instead of symbols. It is a second opinion beside the kernel: it shows that the
//! bench itself is right, and what an instruction means when the decoder and the
//! kernel disagree.

mod alu;
mod memory;
mod run;

use gpumap::bytecode::Insn;
use gpumap::model::{Device, Request, Verdict};
use gpumap::observation::{Map, Program};

use memory::Memory;

const EPERM: i32 = 1;

/// Programs in run order, ready to be asked.
pub struct Machine<'a> {
    programs: Vec<(Vec<Insn>, &'a Program)>,
    maps: &'a [Map],
    cgroup_id: u64,
}

/// Why a program could not be run.
#[derive(Clone, Debug)]
pub struct Unmodelled(pub String);

impl<'a> Machine<'a> {
    pub fn new(programs: &'a [Program], maps: &'a [Map], cgroup_id: u64) -> Self {
        let parse = |program: &'a Program| {
            let bytes = &program.xlated.known().expect("dumped").0;
            (Insn::parse_all(bytes).expect("whole slots"), program)
        };
        Self { programs: programs.iter().map(parse).collect(), maps, cgroup_id }
    }

    /// What the programs decide together (the rule since Linux 5.18).
    pub fn verdict(&self, device: Device, request: Request) -> Verdict {
        let mut retval = 0;
        for (insns, program) in &self.programs {
            let mut memory = Memory::new(self.maps, device, request);
            let mut run = run::Run::new(insns, program, &mut memory, self.cgroup_id, retval);
            let Ok(result) = run.main() else { return Verdict::Unknown };
            retval = run.retval;
            let is_error = (-4095..0).contains(&retval);
            if result & 1 == 0 && !is_error {
                retval = -EPERM;
            }
        }
        if retval == 0 { Verdict::Allow } else { Verdict::Deny }
    }
}
