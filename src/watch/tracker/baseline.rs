//! Environments of processes that ran before the watch began.
//!
//! A thread reads them while the source still looks at other processes: each
//! portion as soon as every later change in it is seen.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::observe::processes::environment_poll::{self, PolledEnvironments};
use crate::watch::event::now_ns;

/// Environments that were read together.
#[derive(Debug)]
pub(super) struct Portion {
    /// Between which moments, in nanoseconds since boot.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) polled: PolledEnvironments,
}

/// The way to the thread that reads, and the thread.
type Reader = (Sender<Vec<u32>>, JoinHandle<Vec<Portion>>);

/// Reads environments in a thread of its own, which ends with the value.
#[derive(Debug)]
pub struct Baseline {
    proc: PathBuf,
    /// The processes that were asked about.
    asked: HashSet<u32>,
    /// `None` where no thread could be started: then each portion is read at once.
    reader: Option<Reader>,
    portions: Vec<Portion>,
}

impl Baseline {
    /// Reads the processes of this `/proc`.
    pub fn new(proc: &Path) -> Self {
        let (questions, portions) = channel();
        let place = proc.to_owned();
        let run = move || read_all(&place, &portions);
        // Without the thread the portions are read here.
        let thread = thread::Builder::new().name("baseline".to_owned()).spawn(run).ok();
        let reader = thread.map(|thread| (questions, thread));
        Self { proc: proc.to_owned(), asked: HashSet::new(), reader, portions: Vec::new() }
    }

    /// Reads the environments of these processes now. Does not wait for that.
    pub fn read(&mut self, pids: &[u32]) {
        self.asked.extend(pids);
        match &self.reader {
            // Nothing is lost: what the thread does not take is read here.
            Some((questions, _)) if questions.send(pids.to_vec()).is_ok() => {}
            _ => self.portions.push(portion(&self.proc, pids)),
        }
    }

    /// Reads those of the processes that were not asked about yet.
    pub fn read_others(&mut self, pids: impl IntoIterator<Item = u32>) {
        let others: Vec<u32> = pids.into_iter().filter(|pid| !self.asked.contains(pid)).collect();
        self.read(&others);
    }

    /// Waits until everything is read.
    pub(super) fn finish(mut self) -> Vec<Portion> {
        if let Some((questions, thread)) = self.reader.take() {
            drop(questions);
            self.portions.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        self.portions
    }
}

fn read_all(proc: &Path, questions: &Receiver<Vec<u32>>) -> Vec<Portion> {
    questions.iter().map(|pids| portion(proc, &pids)).collect()
}

/// gpumap itself is not among the processes that anybody follows.
fn portion(proc: &Path, pids: &[u32]) -> Portion {
    let (begun, own) = (now_ns(), std::process::id());
    let polled = environment_poll::live(proc, pids.iter().copied().filter(|pid| *pid != own));
    Portion { begun, ended: now_ns(), polled }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every process is read once, between two moments, and that
    /// those that were asked about are not read again.
    #[test]
    fn portions() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (one, own) = (child.id(), std::process::id());
        let mut baseline = Baseline::new(Path::new("/proc"));
        let before = now_ns();
        baseline.read(&[one, own]);
        baseline.read_others([one]);
        let portions = baseline.finish();
        child.kill().unwrap();
        child.wait().unwrap();
        let pids: Vec<u32> =
            portions.iter().flat_map(|portion| &portion.polled.read).map(|polled| polled.pid).collect();
        assert_eq!(pids, [one]);
        assert!(portions.iter().all(|it| before <= it.begun && it.begun <= it.ended));
    }
}
