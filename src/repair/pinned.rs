//! Programs that systemd attaches to a unit because somebody pinned them and the unit
//! names them (`BPFProgram=device:PATH`, which crun writes since 1.23).
//!
//! At each daemon-reload systemd takes away what it attached for the setting and attaches
//! what is pinned at that moment; where nothing is, it says so in the journal and goes on
//! without (seen with 252).

use crate::analyse::Stack;
use crate::observation::{Answer, Unit};

/// Whether the reload leaves these programs as they are, or takes them away, which denies
/// nothing.
///
/// # Errors
///
/// Why it is not known what they would deny then, a sentence.
pub(super) fn after_reload(unit: &Unit, stack: &Stack) -> Result<(), String> {
    let name = unit.name.lossy();
    for pinned in &unit.pinned {
        match &pinned.program {
            Answer::Known(Some(id)) if !is_attached(unit, stack, *id) => {
                return Err(format!(
                    "the next daemon-reload attaches program {id}, which is pinned at {} for BPFProgram= of \
                     {name} and is not in force now: look at it with gpumap prog {id}",
                    pinned.path
                ));
            }
            Answer::Known(_) => {}
            Answer::Missing(why) => {
                return Err(format!("what is pinned at {} for {name} is not known: {why}", pinned.path));
            }
        }
    }
    Ok(())
}

/// What to know of these programs before anything is changed in the unit.
pub(super) fn cautions(unit: &Unit, stack: &Stack) -> Vec<String> {
    let name = unit.name.lossy();
    let caution = |path: &str, program: Option<u32>| match program {
        None => format!(
            "{name} has BPFProgram=device:{path}, and nothing is pinned there: the next daemon-reload takes \
             away what systemd attached for it, and with it that limit"
        ),
        Some(id) if is_attached(unit, stack, id) => format!(
            "program {id} is pinned at {path}, and systemd attaches it for BPFProgram= of {name}: at the \
             next daemon-reload it does so again, beside any program that is in its place by then"
        ),
        Some(id) => format!(
            "the next daemon-reload attaches program {id}, which is pinned at {path} for BPFProgram= of {name}"
        ),
    };
    unit.pinned.iter().filter_map(|it| Some(caution(&it.path, *it.program.known()?))).collect()
}

fn is_attached(unit: &Unit, stack: &Stack, id: u32) -> bool {
    let at = unit.cgroup.lossy();
    stack.programs.iter().any(|program| program.place.id == id && program.place.attached_at == at)
}
