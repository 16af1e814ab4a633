//! Compares the name under which an answer came with the name that it gives itself.
//!
//! A launcher puts the name of the node that it reached before the node's lines, and files
//! are named after nodes. The host in an answer is the node's own word: a node that is not
//! honest, or a copied one, names another. An answer under the name of one known node that
//! says that it is another one is reported, and does not replace what came under the right
//! name. A name that no node has is an alias, or the name of a file: what came under it counts
//! where nothing came under the node's own name. Where several files or labels hold answers of
//! one node, that is a problem.

use std::collections::BTreeSet;

use super::answer::Claim;
use super::gather::{GatheredNode, Gatherer, newest};
use super::limits::Word;
use super::line::short;
use crate::model::{InOrder as _, ProblemCode};
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
    told.order();
    let mut all = problems(&told);
    all.extend(disputes(gatherer));
    all
}

/// Nodes of which several files or labels hold answers.
fn disputes(gatherer: &Gatherer) -> Vec<Problem> {
    let needs = "look at the nodes that these files are of; keep one file for each node, named after it";
    let mut disputed = gatherer.nodes.iter().filter(|(_, node)| node.is_disputed);
    let problem = |(host, node): (&String, &GatheredNode)| {
        let state = node.state.as_ref().map(|part| part.claim);
        let is_own = state.or(node.audit.as_ref().map(|part| part.claim)) == Some(Claim::Own);
        let counts = if is_own { "what came under its own name counts" } else { "the newest counts" };
        Problem {
            code: ProblemCode::BadDocument,
            what: host.clone(),
            why: format!("several files or labels say that they are this node: {counts}"),
            needs: needs.to_owned(),
        }
    };
    let mut all: Vec<Problem> = disputed.by_ref().take(TOLD).map(problem).collect();
    match disputed.count() {
        0 => {}
        more => all.push(Problem {
            code: ProblemCode::BadDocument,
            what: format!("{more} more"),
            why: "nodes are in several files or labels, too".to_owned(),
            needs: String::new(),
        }),
    }
    all
}

fn add(node: &mut GatheredNode, answers: GatheredNode) {
    node.is_repeated |= answers.is_repeated;
    node.is_disputed |= answers.is_disputed;
    if let Some(part) = answers.state {
        let repeated = newest(&mut node.state, part);
        node.repeats(repeated);
    }
    if let Some(part) = answers.audit {
        let repeated = newest(&mut node.audit, part);
        node.repeats(repeated);
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
