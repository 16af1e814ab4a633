//! The sweep over the one-shot commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::answer::kind_of;
use super::command::{self, Line};
use super::engine::{self, Failed, Fault};
use super::law::{self, Normal};
use super::stage::{Run, Stage};
use super::support::host;
use super::support::rng::Rng;
use super::sweep;
use super::violations::{self, Violation};

/// What calls fail with.
pub const ERRORS: [Errno; 13] = [
    Errno::ENOMEM,
    Errno::EMFILE,
    Errno::EPERM,
    Errno::EIO,
    Errno::EINTR,
    Errno::EAGAIN,
    Errno::ENOENT,
    Errno::ESRCH,
    Errno::ENODEV,
    Errno::EACCES,
    Errno::EINVAL,
    Errno::ENOSYS,
    Errno::ESTALE,
];

/// How often a command runs without a fault, to see which facts are restless.
const NORMAL_RUNS: usize = 4;

/// Something that fails while a command runs.
#[derive(Clone, Debug)]
struct Case {
    /// The place of the command in the list.
    line: usize,
    fault: Fault,
    error: Errno,
}

/// Make sure that every answer is the one without the fault, or says what it lacks, where
/// one call fails. All faults there are: `GPUMAP_FAULTS=0`.
#[test]
fn every_call_fails_once() {
    sweep("one-shot", 3_000, plan_single);
}

/// The same where each call of a kind fails, as on a kernel or below a filter that lacks it.
#[test]
fn every_kind_of_call_fails_always() {
    sweep("kinds", 250, plan_kinds);
}

type Planner = fn(&mut Stage, &[Line], usize, u64) -> Vec<Case>;

fn sweep(name: &str, usual: usize, plan: Planner) {
    let Some(host) = host::shared() else { return };
    let mount: &Path = &host;
    let (wanted, seed) = (sweep::wanted(usual), sweep::seed());
    let room = sweep::room(name);
    let library = engine::build(&room);
    let began = Instant::now();
    let (work, tally, next) = (OnceLock::new(), Mutex::new(Tally::default()), AtomicUsize::new(0));
    sweep::beside(|worker, _| {
        let mut stage = Stage::new(mount, &room.join(worker.to_string()), &library);
        prepare(&mut stage);
        let lines = lines(&stage);
        let normals: Vec<Normal> = lines.iter().map(|line| normal(&mut stage, line)).collect();
        let work = work.get_or_init(|| plan(&mut stage, &lines, wanted, seed));
        while let Some(case) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (line, normal) = (&lines[case.line], &normals[case.line]);
            let run = stage.fail(line, &case.fault, case.error);
            let run = in_time(run, || stage.fail(line, &case.fault, case.error));
            tally.lock().unwrap().add(line, normal, case, run);
        }
    });
    let tally = tally.into_inner().unwrap();
    let _ = std::fs::remove_dir_all(&room);
    println!("{} faults in {:?}, {:?} of a processor", tally.failed(), began.elapsed(), tally.used);
    for (name, (failed, missed)) in &tally.commands {
        println!("{name}: {failed} failed, {missed} not reached");
    }
    let text = violations::report(&tally.found);
    if let Some(path) = std::env::var_os("GPUMAP_FAULT_REPORT") {
        let head = format!("{} faults, {} breaches, seed {seed}\n", tally.failed(), tally.found.len());
        std::fs::write(path, head + &text).unwrap();
    }
    assert!(tally.found.is_empty(), "{} breaches, seed {seed}:\n{text}", tally.found.len());
}

/// The run, or another one where gpumap ran out of time: a busy machine does that too, and
/// not each time.
fn in_time(mut run: Run, mut again: impl FnMut() -> Run) -> Run {
    for _ in 0..3 {
        if !run.answer.errors.iter().any(|error| error.contains("too long")) {
            break;
        }
        run = again();
    }
    run
}

/// The commands, or the one of `GPUMAP_FAULT_COMMAND`.
fn lines(stage: &Stage) -> Vec<Line> {
    let only = std::env::var("GPUMAP_FAULT_COMMAND").ok();
    let is_wanted = |line: &Line| only.as_deref().is_none_or(|name| name == line.name);
    command::all(&stage.scene).into_iter().filter(is_wanted).collect()
}

/// What was done and found.
#[derive(Default)]
struct Tally {
    /// Of each command the calls that failed, and those that a run did not come to.
    commands: BTreeMap<&'static str, (usize, usize)>,
    found: Vec<Violation>,
    used: Duration,
}

impl Tally {
    fn add(&mut self, line: &Line, normal: &Normal, case: &Case, run: Run) {
        self.used += run.used;
        let (happened, missed) = self.commands.entry(line.name).or_default();
        let Some(failed) = run.failed.clone() else {
            *missed += 1;
            return;
        };
        *happened += 1;
        if let Some(breach) = law::judge(normal, line, &run, &failed, case.error) {
            let (fault, error) = (case.fault.clone(), case.error);
            self.found.push(Violation { command: line.name, fault, failed, error, breach });
        }
    }

    fn failed(&self) -> usize {
        self.commands.values().map(|(failed, _)| failed).sum()
    }
}

/// Saves the files that some commands read.
fn prepare(stage: &mut Stage) {
    let room = stage.scene.room.clone();
    for (file, arguments) in
        [("before.json", vec!["snapshot"]), ("node.json", vec!["node", "--json", "--compact"])]
    {
        let mut all = vec!["--gpu-root".to_owned(), stage.scene.gpus().display().to_string()];
        all.extend(["--cgroup-root".to_owned(), stage.scene.cgroup_root().display().to_string()]);
        all.extend(arguments.iter().map(|&word| word.to_owned()));
        stage.plan.set(&Fault::Once(0), Errno::EIO);
        let output = stage.command(&all).output().unwrap();
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(room.join(file), output.stdout).unwrap();
    }
}

/// What a command answers without a fault; it has to be complete.
fn normal(stage: &mut Stage, line: &Line) -> Normal {
    let first = stage.run(line, 0, Errno::EIO);
    let code = first.status.code().expect("an exit code");
    let (errors, complaint) = (&first.answer.errors, &first.complaint);
    assert!(first.answer.broken.is_none(), "{}: {:?} {complaint}", line.name, first.answer.broken);
    let is_whole = code < 2 && first.answer.is_complete != Some(false);
    assert!(
        is_whole || line.kind == command::Kind::Doctor,
        "{}: exit {code} {errors:?} {complaint}",
        line.name
    );
    let mut normal = Normal { code, answer: first.answer, restless: BTreeSet::new() };
    for _ in 1..NORMAL_RUNS {
        let again = stage.run(line, 0, Errno::EIO);
        normal.restless.extend(law::differences(&normal, &again.answer.facts).places().map(kind_of));
    }
    assert!(normal.restless.is_empty(), "{}: restless {:?}", line.name, normal.restless);
    normal
}

/// Which calls of which commands fail with what: all, or as many as are wanted. Of
/// commands that take longer fewer are taken: most of their calls are those of others.
fn plan_single(stage: &mut Stage, lines: &[Line], wanted: usize, seed: u64) -> Vec<Case> {
    let runs: Vec<Run> = lines.iter().map(|line| counted(stage, line)).collect();
    let weight = |run: &Run| run.calls as f64 / run.used.as_secs_f64().powi(2);
    let whole: f64 = runs.iter().map(weight).sum();
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for (line, run) in runs.iter().enumerate() {
        let case = |number, error| Case { line, fault: Fault::Once(number), error };
        let mut of_it: Vec<_> =
            (1..=run.calls).flat_map(|number| ERRORS.map(|error| case(number, error))).collect();
        let share = (wanted as f64 * weight(run) / whole).max(wanted as f64 / 100.0).ceil() as usize;
        if wanted > 0 && share < of_it.len() {
            of_it = spread(&of_it, share, &mut rng);
        }
        println!(
            "{}: {} calls, {:?} of a processor, {} faults",
            lines[line].name,
            run.calls,
            run.used,
            of_it.len()
        );
        all.append(&mut of_it);
    }
    all
}

/// Which kinds of calls of which commands fail with what: all, or as many as are wanted. A
/// call that is interrupted for ever is made for ever.
fn plan_kinds(stage: &mut Stage, lines: &[Line], wanted: usize, seed: u64) -> Vec<Case> {
    let errors = || ERRORS.into_iter().filter(|error| *error != Errno::EINTR);
    let mut all = Vec::new();
    for (line, of_it) in lines.iter().enumerate() {
        counted(stage, of_it);
        let kinds = stage.plan.kinds();
        println!("{}: {} kinds of calls", of_it.name, kinds.len());
        let case = |kind: &Failed, error| Case { line, fault: Fault::Always(kind.clone()), error };
        all.extend(kinds.iter().flat_map(|kind| errors().map(move |error| case(kind, error))));
    }
    let is_all = wanted == 0 || wanted >= all.len();
    if is_all { all } else { spread(&all, wanted, &mut Rng::new(seed)) }
}

/// A run without a fault; its calls are written down in the directory
/// `GPUMAP_FAULT_NOTES`.
fn counted(stage: &mut Stage, line: &Line) -> Run {
    let run = stage.run(line, 0, Errno::EIO);
    if let Some(path) = std::env::var_os("GPUMAP_FAULT_NOTES") {
        let name = line.name.replace(['/', ' '], "_");
        std::fs::write(Path::new(&path).join(name), stage.plan.notes()).unwrap();
    }
    run
}

/// As many of a list, each from its own stretch of it.
fn spread<T: Clone>(all: &[T], count: usize, rng: &mut Rng) -> Vec<T> {
    let start = |at: usize| at * all.len() / count;
    let one = |at: usize| all[start(at) + rng.next() as usize % (start(at + 1) - start(at))].clone();
    (0..count).map(one).collect()
}
