//! One look at the whole node, with everything that `export` and `top` say of it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::analyse::{AnalyseError, CallerAllocation, TimeLimit};
use crate::audit::{self, Config};
use crate::commands::files::{self, activity_state, denials_state};
use crate::commands::invocation::{Failure, Invocation, envelope, late};
use crate::commands::resident::budget::thread_time;
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem, Refusals};
use crate::observe::{self, CgroupTarget};
use crate::report::{AuditAnswer, Document, NodeAnswer};
use crate::watch::Beside;

/// Looks at the node.
pub(in crate::commands) struct Looker {
    config: Config,
    /// The state file of `gpumap activity` that the caller named.
    state: Option<PathBuf>,
    /// Whether a state file that cannot be used is no failure: the command runs on, and
    /// the file may come.
    copes: bool,
}

/// The facts of one look, before anything is decoded.
pub(in crate::commands) struct Facts {
    observation: Observation,
    remark: Option<Problem>,
    limit: TimeLimit,
    begun: Instant,
}

/// The result of one look.
pub(in crate::commands) struct Look {
    /// The facts.
    pub observation: Observation,
    /// The answer of `node`.
    pub node: Document<NodeAnswer>,
    /// The answer of `audit`.
    pub audit: AuditAnswer,
    /// What is to be said besides.
    pub remark: Option<Problem>,
    /// How long it took, in seconds.
    pub duration: f64,
    /// Processor time of its decoding, in seconds.
    pub decoding: f64,
}

/// Decodes looks in a thread of its own, while the caller goes on.
pub(in crate::commands) struct Decoding(Beside<Facts, Result<Look, AnalyseError>>);

impl Decoding {
    /// Hands the facts of a look over.
    pub(in crate::commands) fn begin(&mut self, facts: Facts) -> Result<(), Failure> {
        let ended = |_| Failure::new(ProblemCode::Bug, "decoding", "its thread has ended", "");
        self.0.ask(facts).map_err(ended)
    }

    /// The look whose decoding is done, if one is or soon will be.
    pub(in crate::commands) fn next(&mut self, patience: Duration) -> Result<Option<Look>, Failure> {
        Ok(self.0.answer(patience).transpose()?)
    }

    /// Whether nothing is decoded.
    pub(in crate::commands) fn is_idle(&self) -> bool {
        self.0.is_idle()
    }
}

impl Looker {
    /// Reads the configuration.
    pub(in crate::commands) fn new(
        invocation: &mut Invocation<'_>,
        config: Option<&std::path::Path>,
        state: Option<PathBuf>,
        copes: bool,
    ) -> Result<Self, Failure> {
        invocation.wanted_facts.detail = true;
        invocation.wanted_facts.units = true;
        let (config, _) = files::config(invocation, config, None)?;
        Ok(Self { config, state, copes })
    }

    /// Looks at the live node.
    pub(in crate::commands) fn look(&self, invocation: &mut Invocation<'_>) -> Result<Look, Failure> {
        let mut facts = self.facts(invocation)?;
        denials_state::add(invocation, None, &mut facts.observation)?;
        Ok(answer(&self.config, facts)?)
    }

    /// The first half of another look, with a time limit of its own: the facts, with what was
    /// refused until now.
    pub(in crate::commands) fn look_again(
        &self,
        invocation: &mut Invocation<'_>,
        refusals: Option<Refusals>,
    ) -> Result<Facts, Failure> {
        invocation.begin_again();
        let mut facts = self.facts(invocation)?;
        facts.observation.refusals = refusals.map(Box::new);
        Ok(facts)
    }

    /// What does the second halves.
    pub(in crate::commands) fn decoding(&self) -> Decoding {
        let config = self.config.clone();
        Decoding(Beside::start(move |facts| answer(&config, facts)))
    }

    /// What is to be said of a saved observation. It gets counts of calls of another
    /// file only if the caller named one.
    pub(in crate::commands) fn judge(
        &self,
        invocation: &mut Invocation<'_>,
        mut observation: Observation,
    ) -> Result<Look, Failure> {
        let begun = Instant::now();
        let has_state = self.state.is_some();
        let remark = if has_state { self.add_activity(invocation, &mut observation)? } else { None };
        let limit = invocation.decoding.clone();
        Ok(answer(&self.config, Facts { observation, remark, limit, begun })?)
    }

    fn facts(&self, invocation: &mut Invocation<'_>) -> Result<Facts, Failure> {
        let begun = Instant::now();
        let mut observation = observe::cgroups(&invocation.options(), &[CgroupTarget::all()])?;
        let remark = self.add_activity(invocation, &mut observation)?;
        Ok(Facts { observation, remark, limit: invocation.decoding.clone(), begun })
    }

    /// Adds the counts of a running `gpumap activity`.
    fn add_activity(
        &self,
        invocation: &mut Invocation<'_>,
        observation: &mut Observation,
    ) -> Result<Option<Problem>, Failure> {
        match activity_state::add_silently(invocation, self.state.as_deref(), observation) {
            Err(Failure::Problem(problem)) if self.copes => {
                observation.errors.push(*problem);
                Ok(None)
            }
            added => added,
        }
    }
}

/// What follows from facts.
fn answer(config: &Config, facts: Facts) -> Result<Look, AnalyseError> {
    let Facts { observation, remark, limit, begun } = facts;
    let before = thread_time();
    let granted = CallerAllocation::default();
    let (audit, node) = audit::audit_and_node(&observation, &granted, config, &limit)?;
    let mut node = envelope::document("node", &observation, node);
    if limit.was_missed() {
        node.errors.push(late());
        node.complete = false;
    }
    let (duration, decoding) = (begun.elapsed().as_secs_f64(), thread_time() - before);
    Ok(Look { observation, node, audit, remark, duration, decoding })
}
