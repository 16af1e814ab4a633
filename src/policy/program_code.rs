//! Programs of one policy, made ready to run.

use super::clobber;
use super::code::Code;
use super::types::Context;
use super::written::Written;
use crate::observation::{Map, Program};

/// A program made ready to run, if its instructions are known.
#[derive(Debug)]
pub(super) struct ProgramCode<'a> {
    pub(super) program: &'a Program,
    pub(super) code: Result<Code<'a>, String>,
    pub(super) maps: &'a [Map],
}

/// What the programs may write at most.
pub(super) fn most_written(codes: &[ProgramCode<'_>]) -> Written {
    let mut written = Written::default();
    codes.iter().for_each(|code| written.add_all(&code.most_written()));
    written
}

impl ProgramCode<'_> {
    /// Whether the program as a whole may outgrow the limits.
    pub(super) fn may_be_complex(&self) -> bool {
        self.code.as_ref().is_ok_and(Code::may_be_complex)
    }

    /// Whether the program may ask in which cgroup it runs.
    pub(super) fn may_read_cgroup_id(&self) -> bool {
        self.code.as_ref().is_ok_and(Code::may_read_cgroup_id)
    }

    /// What the program may write at most.
    pub(super) fn most_written(&self) -> Written {
        match &self.code {
            Ok(code) => code.unfollowed().clone(),
            Err(_) => clobber::unread(self.program, self.maps),
        }
    }
}

/// The programs made ready to run, in their order.
pub(super) fn codes<'a>(programs: &[&'a Program], context: &Context<'a>) -> Vec<ProgramCode<'a>> {
    let ready = |program: &&'a Program| ProgramCode {
        program,
        code: Code::new(program, context),
        maps: context.maps,
    };
    programs.iter().map(ready).collect()
}
