//! Where metrics go.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use super::dcgm;
use super::listen::Server;
use crate::cli::ExportArgs;
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::export::{self, Family, JobMapping};
use crate::model::ProblemCode;
use crate::observation::{OwnProcess, Problem};
use crate::observe;
use crate::render::{self, MetricsFormat};

/// The outlets that the caller named; standard output if there is none.
pub(super) struct Outlets<'a> {
    args: &'a ExportArgs,
    server: Option<Server>,
    /// When this gpumap began, in seconds since 1970.
    begun_at: f64,
}

impl<'a> Outlets<'a> {
    /// Refuses names of files that nobody would read, and an interval for nothing.
    pub(super) fn check(args: &ExportArgs) -> Result<(), Failure> {
        let has_outlet = args.listen.is_some() || args.textfile.is_some() || args.dcgm_job_mapping.is_some();
        if args.every.is_some() && !has_outlet {
            let why = "there is nothing to keep up to date";
            let needs = "add --textfile FILE, --listen PORT or --dcgm-job-mapping DIR";
            return Err(Failure::new(ProblemCode::Usage, "--every", why, needs));
        }
        args.textfile.as_deref().map_or(Ok(()), check_name)
    }

    pub(super) fn new(args: &'a ExportArgs, server: Option<Server>) -> Self {
        Self { args, server, begun_at: jiff::Timestamp::now().as_duration().as_secs_f64() }
    }

    /// Hands metrics to all of them. Those that work get them even if another fails.
    pub(super) fn metrics(
        &self,
        invocation: &mut Invocation<'_>,
        families: &[Family],
    ) -> Result<(), Failure> {
        if let Some(server) = &self.server {
            let own = OwnProcess { begun_at: Some(self.begun_at), ..observe::own_process() };
            let mut all = families.to_vec();
            all.extend(export::own_process(&own));
            server.publish(&all)?;
        }
        if let Some(path) = &self.args.textfile {
            return files::save_public(path, |out| render::metrics(out, MetricsFormat::Classic, families));
        }
        if self.server.is_none() && self.args.dcgm_job_mapping.is_none() {
            let format =
                if self.args.open_metrics { MetricsFormat::OpenMetrics } else { MetricsFormat::Classic };
            render::metrics(invocation.out, format, families)?;
            invocation.out.flush()?;
        }
        Ok(())
    }

    /// Makes sure that the server still answers.
    pub(super) fn served(&self) -> Result<(), Failure> {
        self.server.as_ref().map_or(Ok(()), Server::check)
    }

    /// Writes the job files. What is not known of jobs is a problem.
    pub(super) fn mapping(&self, mapping: &JobMapping) -> Result<Option<Problem>, Failure> {
        let Some(directory) = &self.args.dcgm_job_mapping else { return Ok(None) };
        dcgm::write(directory, mapping)?;
        Ok(unknown(&mapping.unknown))
    }
}

fn unknown(jobs: &BTreeSet<String>) -> Option<Problem> {
    let shown: Vec<&str> = jobs.iter().take(5).map(String::as_str).collect();
    (!jobs.is_empty()).then(|| Problem {
        code: ProblemCode::Export,
        what: format!("--dcgm-job-mapping: {} of the jobs ({})", jobs.len(), shown.join(", ")),
        why: "it is not known which GPUs they have, or DCGM's numbers of these".to_owned(),
        needs: "gpumap job ID says what is missing".to_owned(),
    })
}

/// node_exporter reads files of this ending alone; another would be written and never
/// be read.
fn check_name(path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending == "prom") {
        return Ok(());
    }
    let why = "node_exporter reads files alone whose names end in .prom";
    let needs = "write --textfile DIRECTORY/gpumap.prom";
    Err(Failure::new(ProblemCode::Usage, path.to_string_lossy(), why, needs))
}
