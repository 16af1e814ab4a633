//! Compares the name under which an answer came with the name that it gives itself.
//!
//! A launcher puts the name of the node that it reached before the node's lines, and files
//! are named after nodes. The host in an answer is the node's own word: a node that is not
//! honest, or a copied one, names another. An answer under the name of one known node that
//! says that it is another one is reported, and does not replace what came under the right
//! name. A name that no node has is an alias, or the name of a file.

use std::collections::BTreeSet;

use super::gather::{GatheredNode, Gatherer, newest};
use super::node_name::short;
use super::words::Word;
use crate::model::ProblemCode;
use crate::observation::Problem;

/// Contradictions that are reported one by one.
const TOLD: usize = 200;

/// Takes answers that came under other names for what they are, and says which of them
/// contradict these names.
pub(super) fn settle(gatherer: &mut Gatherer, expected: Option<&[String]>) -> Vec<Problem> {
    let expected = expected.into_iter().flatten().map(|name| short(name).to_owned());
    let known: BTreeSet<String> =
        gatherer.nodes.keys().map(|name| short(name).to_owned()).chain(expected).collect();
    let mut told = Vec::new();
    let words = &gatherer.tables.words;
    for (host, node) in &mut gatherer.nodes {
        let is_known = |word: &Word| known.contains(short(words.get(*word)));
        let foreign = std::mem::take(&mut node.foreign);
        let (others, aliases): (Vec<_>, Vec<_>) = foreign.into_iter().partition(|(word, _)| is_known(word));
        for (_, answers) in aliases {
            add(node, answers);
        }
        told.extend(others.iter().map(|(word, _)| (words.get(*word).to_owned(), host.clone())));
        // Nothing else is known of this node: its answer stays, and is reported.
        if node.state.is_none() && node.audit.is_none() {
            others.into_iter().for_each(|(_, answers)| add(node, answers));
        }
    }
    told.sort();
    problems(&told)
}

fn add(node: &mut GatheredNode, answers: GatheredNode) {
    node.is_repeated |= answers.is_repeated;
    if let Some(part) = answers.state {
        node.is_repeated |= newest(&mut node.state, part);
    }
    if let Some(part) = answers.audit {
        node.is_repeated |= newest(&mut node.audit, part);
    }
}

fn problems(told: &[(String, String)]) -> Vec<Problem> {
    let needs =
        "look at both nodes; a file that holds answers of several nodes must not have the name of one";
    let problem = |what: String, why: String, needs: &str| Problem {
        code: ProblemCode::BadDocument,
        what,
        why,
        needs: needs.to_owned(),
    };
    let mut all: Vec<Problem> = told
        .iter()
        .take(TOLD)
        .map(|(name, host)| {
            problem(name.clone(), format!("what came under this name says that it is {host}"), needs)
        })
        .collect();
    if let Some(more) = told.len().checked_sub(TOLD).filter(|more| *more > 0) {
        all.push(problem(format!("{more} more"), "say that they are other nodes, too".to_owned(), ""));
    }
    all
}
