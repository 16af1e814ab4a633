//! `gpumap fleet`: one report over the documents of many nodes.

mod input;

use std::path::Path;

use super::files;
use super::invocation::{Failure, Invocation, envelope};
use crate::cli::{Exit, FleetArgs};
use crate::fleet::{self, Baseline, FleetQuestion, Gatherer};
use crate::model::ProblemCode;
use crate::render;
use crate::report::FleetAnswer;
use crate::slurm_conf::host_names;

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &FleetArgs) -> Result<Exit, Failure> {
    if invocation.global.from.is_some() {
        let needs = "name the file after the command: gpumap fleet FILE";
        return Err(Failure::new(ProblemCode::Usage, "--from", "fleet reads many files", needs));
    }
    let question = FleetQuestion {
        expected: expected(invocation, args)?,
        baseline: baseline(invocation, args.baseline.as_deref())?,
        fail_on: args.fail_on,
    };
    let gatherer = if args.html.is_some() { Gatherer::for_page() } else { Gatherer::default() };
    let mut gatherer = gatherer.at(jiff::Timestamp::now());
    gatherer.set_limit(&invocation.decoding);
    for path in &args.inputs {
        input::read(invocation, path, &mut gatherer)?;
    }
    let mut observation = envelope::blank();
    let report = match &args.html {
        None => {
            let (report, problems) = fleet::report(gatherer, &question);
            observation.errors = problems;
            report
        }
        Some(path) => {
            let (page, problems) = fleet::page(gatherer, &question);
            observation.errors = problems;
            let problems: Vec<String> = observation.errors.iter().map(render::problem).collect();
            let mut html = Vec::new();
            render::fleet_page(&mut html, &page, &problems)?;
            files::save_bytes(path, &html)?;
            page.fleet
        }
    };
    let failed = report.failed;
    let answer = FleetAnswer { fleet: report };
    let seen = invocation.answer(&observation, answer, render::fleet)?;
    Ok(if failed { Exit::No } else { seen })
}

/// The nodes that should have answered.
fn expected(invocation: &mut Invocation<'_>, args: &FleetArgs) -> Result<Option<Vec<String>>, Failure> {
    let bad = |what: String, why: String| {
        Failure::new(ProblemCode::Usage, what, why, "write names or host lists, such as gpu[01-64],login1")
    };
    let mut names = None;
    if let Some(list) = &args.expect {
        names = Some(host_names(list).map_err(|why| bad("--expect".to_owned(), why))?);
    }
    if let Some(path) = &args.expect_file {
        let text = files::read(invocation, path)?;
        let text = String::from_utf8_lossy(&text);
        let words = text.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace);
        let names = names.get_or_insert_with(Vec::new);
        for word in words {
            names.extend(host_names(word).map_err(|why| bad(files::name(path), why))?);
        }
    }
    Ok(names)
}

fn baseline(invocation: &mut Invocation<'_>, path: Option<&Path>) -> Result<Baseline, Failure> {
    let Some(path) = path else { return Ok(Baseline::default()) };
    let bytes = files::read(invocation, path)?;
    let needs = "save one with gpumap fleet --json > FILE";
    Baseline::read(&bytes)
        .map_err(|error| Failure::new(ProblemCode::BadBaseline, files::name(path), error.to_string(), needs))
}
