//! One look at the whole node, with everything that `export` and `top` say of it.

use std::path::PathBuf;

use crate::analyse::{CallerAllocation, TimeLimit};
use crate::audit::{self, Config};
use crate::commands::files::{self, activity_state};
use crate::commands::invocation::{Failure, Invocation, envelope, late};
use crate::observation::{Observation, Problem};
use crate::observe::{self, CgroupTarget};
use crate::report::{Document, Payload};

/// Looks at the node.
pub(in crate::commands) struct Looker {
    config: Config,
    /// The state file of `gpumap activity` that the caller named.
    state: Option<PathBuf>,
    /// Whether a state file that cannot be used is no failure: the command runs on, and
    /// the file may come.
    copes: bool,
}

/// The result of one look.
pub(in crate::commands) struct Look {
    /// The facts.
    pub observation: Observation,
    /// The answer of `node`.
    pub node: Document,
    /// The answer of `audit`.
    pub audit: Payload,
    /// What is to be said besides.
    pub remark: Option<Problem>,
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
        let all = CgroupTarget { path: PathBuf::from("/"), recursive: true };
        let mut observation = observe::cgroups(&invocation.options(), &[all])?;
        let remark = self.add_activity(invocation, &mut observation)?;
        self.answer(observation, remark, &invocation.decoding)
    }

    /// The same again, with a time limit of its own.
    pub(in crate::commands) fn look_again(&self, invocation: &mut Invocation<'_>) -> Result<Look, Failure> {
        invocation.begin_again();
        self.look(invocation)
    }

    /// What is to be said of a saved observation. It gets counts of calls of another
    /// file only if the caller named one.
    pub(in crate::commands) fn judge(
        &self,
        invocation: &mut Invocation<'_>,
        mut observation: Observation,
    ) -> Result<Look, Failure> {
        let has_state = self.state.is_some();
        let remark = if has_state { self.add_activity(invocation, &mut observation)? } else { None };
        self.answer(observation, remark, &invocation.decoding)
    }

    fn answer(
        &self,
        observation: Observation,
        remark: Option<Problem>,
        decoding: &TimeLimit,
    ) -> Result<Look, Failure> {
        let granted = CallerAllocation::default();
        let (audit, node) = audit::audit_and_node(&observation, &granted, &self.config, decoding)?;
        let mut node = envelope::document("node", &observation, node);
        if decoding.was_missed() {
            node.errors.push(late());
            node.complete = false;
        }
        Ok(Look { observation, node, audit, remark })
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
