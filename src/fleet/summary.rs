//! Makes the report of all that was gathered.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{self, Baseline};
use super::gather::{GatheredNode, Gatherer};
use super::line::{is_same, short};
use super::{claimed_twice, claims, drift, hostlist, jobs, problems, sections};
use crate::model::{FailOn, ProblemCode};
use crate::observation::Problem;
use crate::report::{Fleet, FleetNodes, FleetPage, NodeSet};

/// What the caller wants to know.
#[derive(Debug, Default)]
pub struct FleetQuestion {
    /// The nodes that should have answered; `None` if nobody says.
    pub expected: Option<Vec<String>>,
    /// A former report, whose findings are left out.
    pub baseline: Baseline,
    /// From which severity on a finding is a failure.
    pub fail_on: FailOn,
}

/// The report, and what could not be used or is missing.
pub fn report(mut gatherer: Gatherer, question: &FleetQuestion) -> (Fleet, Vec<Problem>) {
    settled(&mut gatherer, question)
}

/// The page with the report, of a gatherer that was made [for it](Gatherer::for_page),
/// and what could not be used or is missing.
pub fn page(mut gatherer: Gatherer, question: &FleetQuestion) -> (FleetPage, Vec<Problem>) {
    let (fleet, problems) = settled(&mut gatherer, question);
    (sections::page(&gatherer, fleet), problems)
}

fn settled(gatherer: &mut Gatherer, question: &FleetQuestion) -> (Fleet, Vec<Problem>) {
    let mut problems = gatherer.bad();
    problems.extend(claims::settle(gatherer, question.expected.as_deref()));
    let mut fleet = Fleet {
        nodes: nodes(gatherer, question.expected.as_deref()),
        documents: gatherer.documents,
        problems: problems::of(gatherer),
        drift: drift::of(gatherer),
        claimed_twice: claimed_twice::of(gatherer),
        jobs: jobs::of(gatherer),
        times: problems::times(gatherer),
        ..Fleet::default()
    };
    findings::fill(&mut fleet, gatherer, &question.baseline, question.fail_on);
    if gatherer.nodes.is_empty() {
        let (what, why) = ("no node".to_owned(), "the input holds no document of a node".to_owned());
        let needs = "save them with gpumap node --json --compact, audit --json, or snapshot".to_owned();
        problems.push(Problem { code: ProblemCode::NoAnswer, what, why, needs });
    }
    if let Some(missing) = fleet.nodes.missing.as_ref().filter(|nodes| !nodes.is_empty()) {
        problems.push(no_answer(missing));
    }
    (fleet, problems)
}

fn no_answer(missing: &NodeSet) -> Problem {
    let why = match missing.count {
        1 => "did not answer".to_owned(),
        count => format!("these {count} nodes did not answer"),
    };
    Problem { code: ProblemCode::NoAnswer, what: missing.nodes.clone(), why, needs: String::new() }
}

fn nodes(gatherer: &Gatherer, expected: Option<&[String]>) -> FleetNodes {
    let of = |is_one: fn(&GatheredNode) -> bool| {
        let found = gatherer.nodes.iter().filter(|(_, node)| is_one(node));
        hostlist::set(found.map(|(name, _)| name.as_str()))
    };
    let (missing, unexpected) = expected.map(|names| compare(gatherer, names)).unzip();
    FleetNodes {
        answered: of(|_| true),
        missing,
        unexpected: unexpected.unwrap_or_default(),
        incomplete: problems::incomplete(gatherer),
        not_audited: of(|node| node.audit.is_none()),
        only_audited: of(|node| node.state.is_none()),
        repeated: of(|node| node.is_repeated),
    }
}

/// Which of the expected nodes are missing, and which nodes nobody expected. A node
/// may call itself `n1.site` where it is expected as `n1`, and the other way round.
fn compare(gatherer: &Gatherer, expected: &[String]) -> (NodeSet, NodeSet) {
    let mut by_short: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in gatherer.nodes.keys() {
        by_short.entry(short(name)).or_default().push(name);
    }
    let mut met: BTreeSet<&str> = BTreeSet::new();
    let mut missing = Vec::new();
    for name in expected {
        let alike = by_short.get(short(name)).map(Vec::as_slice).unwrap_or_default();
        let found = match (gatherer.nodes.get_key_value(name), alike) {
            (Some((same, _)), _) => Some(same.as_str()),
            (None, [one]) if is_same(name, one) => Some(*one),
            _ => None,
        };
        match found {
            Some(found) => drop(met.insert(found)),
            None => missing.push(name.as_str()),
        }
    }
    let strangers = gatherer.nodes.keys().map(String::as_str).filter(|name| !met.contains(name));
    (hostlist::set(missing), hostlist::set(strangers))
}
