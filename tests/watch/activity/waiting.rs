//! Threads that wait in a call, and launches that fail: what is told of them while it lasts.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use gpumap::observation::{CallUnderWay, ProcessActivity};
use nix::sys::stat::Mode as Rights;
use nix::unistd::mkfifo;

use super::bench::{self, Bench, launches};
use super::command::Activity;
use crate::support::wait::within;

/// A client that waits for its stream until it is let go.
pub struct Waiting {
    client: Child,
    fifo: PathBuf,
}

impl Waiting {
    fn start(bench: &Bench, words: &[&str]) -> Self {
        let fifo = bench.client.with_file_name("hold");
        let _ = fs::remove_file(&fifo);
        mkfifo(&fifo, Rights::S_IRWXU).unwrap();
        let mut command = bench.command(&bench.client, words);
        let client = command.env("STANDIN_HOLD", &fifo).spawn().unwrap();
        Self { client, fifo }
    }

    /// Lets one wait end.
    fn let_go(&self) {
        OpenOptions::new().write(true).open(&self.fifo).unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

fn until(session: &mut bench::Counting, is_so: impl Fn(&ProcessActivity) -> bool) -> ProcessActivity {
    let begun = Instant::now();
    loop {
        let reading = session.read().unwrap();
        if let Some(found) = reading.processes.into_iter().find(&is_so) {
            return found;
        }
        assert!(begun.elapsed() < within(60), "it is never so");
        session.wait(Duration::from_millis(20), None).unwrap();
    }
}

/// Make sure that a call that has not returned is told with its function, thread, context and
/// beginning, whatever the probes; that it is in no sum before it returns, and is told no
/// longer then.
#[test]
fn under_way() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let _held = bench.hold();
        let mut session = bench.session(mode, 64);
        let waiting = Waiting::start(&bench, &["device:1", "stream", "launch:3", "sync", "stop"]);
        let pid = waiting.client.id();
        let found = until(&mut session, |it| {
            it.pid == pid && !it.calls.is_empty() && !it.contexts.is_empty() && launches(it) == 3
        });
        let [call] = found.calls.as_slice() else { panic!("{found:?}") };
        let of_device: Vec<u64> = found.contexts.iter().map(|context| context.context).collect();
        let CallUnderWay { tid, function, waits, context, since_ns, .. } = call;
        assert_eq!((*tid, function.as_str(), *waits), (pid, "cuStreamSynchronize", true), "{mode:?}");
        assert!(of_device == [*context] && *since_ns >= found.first_ns, "{mode:?}: {found:?}");
        assert_eq!(found.streams.iter().map(|stream| stream.waits).sum::<u64>(), 0);
        // It is the same call as long as it lasts.
        let again = until(&mut session, |it| it.pid == pid);
        assert_eq!(again.calls, found.calls);
        waiting.let_go();
        let after = until(&mut session, |it| it.pid == pid && it.calls.is_empty());
        assert_eq!(after.streams.iter().map(|stream| stream.waits).sum::<u64>(), 1, "{mode:?}");
    }
}

/// Make sure that a wait counts while it lasts, and not in one lump at its end; and that the
/// process is not told as idle meanwhile.
#[test]
fn told_while_it_lasts() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let mut activity = Activity::start(&bench, &["--for", "120s"]);
    activity.next();
    let waiting = Waiting::start(&bench, &["device:1", "stream", "launch:3", "sync", "stop"]);
    let pid = waiting.client.id();
    let (mut seen, mut is_let_go) = (0, false);
    for _ in 0..400 {
        let document = activity.next();
        let told = &document["activity"];
        let processes = told["processes"].as_array().unwrap();
        let Some(its) = processes.iter().find(|process| process["pid"] == pid) else { continue };
        let waited: f64 = its["gpus"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["per_second"]["wait_seconds"].as_f64().unwrap())
            .sum();
        assert!(waited < 1.01, "one thread waits more than all the time: {its}");
        let calls = its["calls"].as_array().map_or(0, Vec::len);
        if calls == 1 && !is_let_go {
            let call = &its["calls"][0];
            assert_eq!(
                (call["function"].as_str(), call["waits"].as_bool()),
                (Some("cuStreamSynchronize"), Some(true))
            );
            let idle: Vec<f64> = its["gpus"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["idle_seconds"].as_f64().unwrap())
                .collect();
            assert!(idle.contains(&0.0), "{its}");
            seen += 1;
        }
        if seen == 5 && !is_let_go {
            assert!(waited > 0.5, "{its}");
            waiting.let_go();
            is_let_go = true;
        } else if is_let_go && calls == 0 {
            return;
        }
    }
    panic!("the wait is never told, or never ends: {seen}");
}

/// Make sure that launches that fail are not counted as launches where one in 64 is timed.
#[test]
fn failing_launches() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let (process, _) = bench.run(
        bench::best_mode(),
        64,
        &bench.client,
        &["device:0", "stream", "bad:640", "launch:128", "bad:64"],
    );
    // The last ones are looked at from the next timed one on.
    let errors: u64 = process.errors.iter().map(|error| error.count).sum();
    assert!(errors >= 641 && launches(&process) + errors == 640 + 128 + 64, "{process:?}");
    assert!((128..128 + 64).contains(&launches(&process)), "{process:?}");
}
