//! Ways through programs, each kept once: the programs of many jobs have the same
//! instructions, and a question takes the same way through all of them.

use std::collections::HashMap;

use crate::report::{PageProof, ProgramProof, Step};

use super::limits::Limits;

/// Instructions of one proof beyond which its middle is left out.
const LONG: usize = 300;
/// Instructions kept of its beginning and of its end.
const HEAD: usize = 200;
const TAIL: usize = 60;

/// What makes two ways the same.
type Key = (String, Vec<Step>, Option<usize>, Option<i32>, Option<String>);

/// The proofs of a page.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    list: Vec<PageProof>,
    index: HashMap<Key, Option<usize>>,
    left_out: usize,
}

impl Proofs {
    /// Adds a way, and returns its place; `None` if there is no room for it.
    pub(super) fn add(&mut self, question: &str, way: ProgramProof, limits: &mut Limits) -> Option<usize> {
        let key = (question.to_owned(), way.steps, way.decided_at, way.retval, way.why.clone());
        let id = way.id;
        if let Some(known) = self.index.get(&key) {
            let proof = self.list.get_mut((*known)?)?;
            if !proof.programs.contains(&id) {
                proof.programs.push(id);
            }
            return *known;
        }
        let (steps, folded) = fold(&key.1);
        let place = limits.take_steps(steps.len() + 1).then_some(self.list.len());
        match place {
            Some(_) => {
                let way = ProgramProof { steps, ..way };
                self.list.push(PageProof {
                    question: question.to_owned(),
                    programs: vec![id],
                    way,
                    folded,
                    folded_after: HEAD,
                });
            }
            None => self.left_out += 1,
        }
        self.index.insert(key, place);
        place
    }

    /// The proofs, and the note about those without room.
    pub(super) fn finish(self, limits: &mut Limits) -> Vec<PageProof> {
        limits.cut("ways through programs", self.left_out, "gpumap explain --cgroup PATH DEVICE shows one");
        self.list
    }
}

/// A long way without its middle, and how much that was.
fn fold(steps: &[Step]) -> (Vec<Step>, usize) {
    if steps.len() <= LONG {
        return (steps.to_vec(), 0);
    }
    let ends = steps.iter().take(HEAD).chain(steps.iter().skip(steps.len() - TAIL));
    (ends.cloned().collect(), steps.len() - HEAD - TAIL)
}
