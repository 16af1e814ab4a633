//! Reports each problem once: what cannot be watched stays so, and every check finds
//! it again.

use std::collections::HashSet;

use crate::model::{EventKind, ProblemCode};
use crate::observation::Problem;
use crate::report::Event;

/// Problems that are reported; the last report says that there are more.
const MOST: usize = 100;

/// The problems that were reported.
#[derive(Debug, Default)]
pub(super) struct ReportedProblems(HashSet<(String, String, String)>);

impl ReportedProblems {
    /// An event for each problem that was not reported before.
    pub(super) fn new_ones(&mut self, problems: Vec<Problem>) -> Vec<Event> {
        problems.into_iter().filter_map(|problem| self.one(problem)).collect()
    }

    fn one(&mut self, problem: Problem) -> Option<Event> {
        let key = (problem.code.to_string(), problem.what.clone(), problem.why.clone());
        if self.0.len() > MOST || !self.0.insert(key) {
            return None;
        }
        let last = || Problem {
            code: ProblemCode::TooMany,
            what: "problems".to_owned(),
            why: format!("more than {MOST} have been told, the rest is not"),
            needs: String::new(),
        };
        let problem = if self.0.len() > MOST { last() } else { problem };
        Some(Event { problem: Some(problem), ..Event::now(EventKind::Problem) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a problem is reported once, and that the last report says
    /// that more are not.
    #[test]
    fn once() {
        let problem = |what: usize| Problem {
            code: ProblemCode::Unreadable,
            what: format!("/{what}"),
            why: "no".to_owned(),
            needs: String::new(),
        };
        let mut reported = ReportedProblems::default();
        assert_eq!(reported.new_ones(vec![problem(0), problem(0), problem(1)]).len(), 2);
        assert!(reported.new_ones(vec![problem(1)]).is_empty());
        let rest = reported.new_ones((2..300).map(problem).collect());
        assert_eq!(rest.len(), MOST - 1);
        let last = rest.last().and_then(|event| event.problem.as_ref()).map(|one| one.code.as_str());
        assert_eq!(last, Some("too-many"));
        assert!(reported.new_ones(vec![problem(999)]).is_empty());
    }
}
