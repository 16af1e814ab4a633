//! One look at the whole node, with everything that `export` and `top` say of it; and the
//! processes and cgroups that a command was asked to follow.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::analyse::{AnalyseError, CallerAllocation, TimeLimit};
use crate::audit::Config;
use crate::commands::files;
use crate::commands::files::activity_state;
use crate::commands::invocation::{Failure, Invocation, cgroup_paths, envelope, late};
use crate::commands::resident::monitor::thread_time;
use crate::commands::subject::job_cgroups::JobPart;
use crate::commands::subject::{job_cgroups, job_name};
use crate::model::ProblemCode;
use crate::observation::{Observation, Problem};
use crate::observe::{CgroupTarget, Options};
use crate::report::{Document, Payload};
use crate::watch::{Beside, ProcessScope};
use crate::{audit, observe};

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
    pub node: Document,
    /// The answer of `audit`.
    pub audit: Payload,
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
        let facts = self.facts(invocation)?;
        Ok(answer(&self.config, facts)?)
    }

    /// The first half of another look, with a time limit of its own: the facts.
    pub(in crate::commands) fn look_again(&self, invocation: &mut Invocation<'_>) -> Result<Facts, Failure> {
        invocation.begin_again();
        self.facts(invocation)
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
        let all = CgroupTarget { path: PathBuf::from("/"), recursive: true };
        let mut observation = observe::cgroups(&invocation.options(), &[all])?;
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

/// Whom to follow: the processes, cgroups and jobs that are named, or everything.
pub(in crate::commands) fn of(
    invocation: &Invocation<'_>,
    pids: &[u32],
    cgroups: &[PathBuf],
    jobs: &[String],
) -> Result<ProcessScope, Failure> {
    let options = Options { detail: false, ..invocation.options() };
    let mut scope = ProcessScope { pids: pids.to_vec(), ..ProcessScope::default() };
    if !pids.is_empty() {
        observe::processes(&options, pids)?;
    }
    if !cgroups.is_empty() {
        let paths: Vec<&Path> = cgroups.iter().map(PathBuf::as_path).collect();
        add(&mut scope, &cgroup_paths::observe(invocation, &paths, false)?);
    }
    for asked in job_name::all(jobs, false)? {
        let job = job_name::live(invocation, &asked.job)?;
        let mut observation = observe::jobs(&options, std::slice::from_ref(&job))?;
        if asked.step.is_some() {
            job_cgroups::narrow(&mut observation, &[JobPart { job, step: asked.step }])?;
        }
        add(&mut scope, &observation);
    }
    scope.all = scope.pids.is_empty() && scope.cgroups.is_empty();
    Ok(scope)
}

/// The cgroups whose programs are watched: those that were named with
/// everything below, those of the processes, or all.
pub(in crate::commands) fn targets(
    invocation: &Invocation<'_>,
    scope: &ProcessScope,
) -> Result<Vec<CgroupTarget>, Failure> {
    if scope.all {
        return Ok(vec![CgroupTarget { path: "/".into(), recursive: true }]);
    }
    let cgroups = scope.cgroups.iter().map(|path| Ok(CgroupTarget { path: path.clone(), recursive: true }));
    let of = |pid: &u32| {
        Ok(CgroupTarget { path: observe::pid_cgroup(&invocation.options(), *pid)?, recursive: false })
    };
    cgroups.chain(scope.pids.iter().map(of)).collect()
}

fn add(scope: &mut ProcessScope, observation: &Observation) {
    let root = Path::new(&observation.host.cgroup_root);
    for one in &observation.scope {
        let path = Path::new(OsStr::from_bytes(one.path.as_bytes()));
        scope.cgroups.push(root.join(path.strip_prefix("/").unwrap_or(path)));
    }
}
