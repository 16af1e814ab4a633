//! Programs of which a function may have been replaced by another program
//! (freplace, `BPF_PROG_TYPE_EXT`): their instructions are not those that run.

use crate::observation::{Answer, Program};

/// The reason if something else may run in place of the instructions; `None` if
/// nothing does.
pub fn replaced(program: &Program) -> Option<String> {
    let id = program.id;
    match &program.replaced_by {
        Answer::Known(by) => {
            let first = by.first()?;
            Some(format!("program {first} runs in the place of a function of program {id} (freplace)"))
        }
        Answer::Missing(why) => Some(format!(
            "it is not known whether another program runs in the place of a function of program {id} (freplace): {why}"
        )),
    }
}
