//! The sweep over the one-shot commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use super::answer::kind_of;
use super::command::{self, Line};
use super::engine;
use super::law::{self, Normal};
use super::stage::Stage;
use super::support::host;
use super::support::rng::Rng;
use super::violations::{self, Violation};

const ERRORS: [Errno; 7] =
    [Errno::ENOMEM, Errno::EMFILE, Errno::EPERM, Errno::EIO, Errno::EINTR, Errno::EAGAIN, Errno::ENOENT];

/// How often a command runs without a fault, to see which facts are restless.
const NORMAL_RUNS: usize = 4;

#[test]
fn every_call_fails_once() {
    let Some(host) = host::shared() else { return };
    let wanted: usize = std::env::var("GPUMAP_FAULTS").map_or(20_000, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("GPUMAP_SEED").map_or_else(|_| std::process::id().into(), |text| text.parse().unwrap());
    let only = std::env::var("GPUMAP_FAULT_COMMAND").ok();
    println!("GPUMAP_SEED={seed}");
    let room = std::env::temp_dir().join(format!("gpumap-faults-{}", std::process::id()));
    std::fs::create_dir_all(&room).unwrap();
    let library = engine::build(&room);
    let began = Instant::now();
    let (work, found, tally) = (Mutex::new(None), Mutex::new(Vec::new()), Tally::default());
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for number in 0..workers {
            let (work, found, tally, next, library, room) = (&work, &found, &tally, &next, &library, &room);
            let (mount, only) = (host.to_path_buf(), only.clone());
            scope.spawn(move || {
                let mut stage = Stage::new(&mount, &room.join(number.to_string()), library);
                prepare(&mut stage);
                let lines: Vec<Line> = command::all(&stage.scene)
                    .into_iter()
                    .filter(|line| only.as_deref().is_none_or(|name| name == line.name))
                    .collect();
                let normals: Vec<Normal> = lines.iter().map(|line| normal(&mut stage, line)).collect();
                let jobs = work.lock().unwrap().get_or_insert_with(|| plan(&mut stage, &lines, wanted, seed)).clone();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(line, number, error)) = jobs.get(at) else { break };
                    one(&mut stage, &lines[line], &normals[line], number, error, found, tally);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let injected = tally.injected.lock().unwrap().clone();
    let total: usize = injected.values().sum();
    println!("{total} calls failed in {:?}; by command: {injected:?}", began.elapsed());
    println!("processor time of a run: {:?}", processor_time() / (total.max(1) as u32));
    println!("not reached: {:?}", tally.missed.lock().unwrap());
    let text = violations::report(&found);
    if let Some(path) = std::env::var_os("GPUMAP_FAULT_REPORT") {
        std::fs::write(path, format!("{total} calls failed, {} breaches\n{text}", found.len())).unwrap();
    }
    let _ = std::fs::remove_dir_all(&room);
    assert!(found.is_empty(), "{} breaches, seed {seed}:\n{text}", found.len());
}

/// What the children that ended have used.
fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let time = |time: TimeVal| Duration::from_micros(time.num_microseconds() as u64);
    time(usage.user_time()) + time(usage.system_time())
}

#[derive(Default)]
struct Tally {
    injected: Mutex<BTreeMap<&'static str, usize>>,
    missed: Mutex<BTreeMap<&'static str, usize>>,
}

/// Saves the files that some commands read.
fn prepare(stage: &mut Stage) {
    let room = stage.scene.room.clone();
    for (file, arguments) in [("before.json", vec!["snapshot"]), ("node.json", vec!["node", "--json", "--compact"])] {
        let mut all = vec!["--gpu-root".to_owned(), stage.scene.gpus().display().to_string()];
        all.extend(["--cgroup-root".to_owned(), stage.scene.cgroup_root().display().to_string()]);
        all.extend(arguments.iter().map(|&word| word.to_owned()));
        stage.plan.set(0, Errno::EIO);
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
    assert!(is_whole || line.kind == command::Kind::Doctor, "{}: exit {code} {errors:?} {complaint}", line.name);
    let mut normal = Normal { code, answer: first.answer, restless: BTreeSet::new() };
    for _ in 1..NORMAL_RUNS {
        let again = stage.run(line, 0, Errno::EIO);
        normal.restless.extend(law::differences(&normal, &again.answer.facts).places().map(kind_of));
    }
    assert!(normal.restless.is_empty(), "{}: restless {:?}", line.name, normal.restless);
    normal
}

/// Which calls fail with what: all, or as many as are wanted, spread evenly over
/// commands, calls and errors.
fn plan(stage: &mut Stage, lines: &[Line], wanted: usize, seed: u64) -> Vec<(usize, u64, Errno)> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let run = stage.run(line, 0, Errno::EIO);
        println!("{}: {} calls, {:?}", line.name, run.calls, run.took);
        if let Some(path) = std::env::var_os("GPUMAP_FAULT_NOTES") {
            std::fs::write(Path::new(&path).join(line.name.replace(['/', ' '], "_")), stage.plan.notes()).unwrap();
        }
        all.extend((1..=run.calls).flat_map(|number| ERRORS.map(|error| (at, number, error))));
    }
    println!("{} in all", all.len());
    if wanted == 0 || wanted >= all.len() {
        return all;
    }
    // `doctor` loads programs for a tenth of a second: it has a quarter of its share.
    let mut turn = 0;
    all.retain(|&(at, _, _)| {
        turn += 1;
        lines[at].kind != command::Kind::Doctor || turn % 4 == 0
    });
    // Each in its own stretch of the list.
    let stretch = all.len() as f64 / wanted as f64;
    (0..wanted).map(|at| {
        let (from, to) = ((at as f64 * stretch) as usize, ((at + 1) as f64 * stretch) as usize);
        all[from + (rng.next() as usize) % (to - from).max(1)]
    }).collect()
}

fn one(stage: &mut Stage, line: &Line, normal: &Normal, number: u64, error: Errno, found: &Mutex<Vec<Violation>>, tally: &Tally) {
    let run = stage.run(line, number, error);
    let Some(failed) = run.failed.clone() else {
        *tally.missed.lock().unwrap().entry(line.name).or_default() += 1;
        return;
    };
    *tally.injected.lock().unwrap().entry(line.name).or_default() += 1;
    if let Some(breach) = law::judge(normal, line.kind, &run, &failed, error) {
        found.lock().unwrap().push(Violation { command: line.name, number, failed, error, breach });
    }
}
