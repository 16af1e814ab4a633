//! Detaches probes in a thread of its own. The kernel waits each time until no CPU runs the
//! programs any more, for some tens of milliseconds, and before that for the locks of
//! memory maps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::locks::Locks;
use crate::loader::AttachedProbes;

/// How many descriptors the links of a file take, at most.
pub(super) fn descriptors(links: &[AttachedProbes]) -> usize {
    links.iter().map(AttachedProbes::descriptors).sum()
}

/// A thread that drops what it is given. It ends with the value.
#[derive(Debug)]
pub(super) struct Release {
    sender: Option<Sender<Vec<AttachedProbes>>>,
    descriptors: Arc<AtomicUsize>,
}

impl Release {
    /// Starts it; `descriptors` is the number of those in use. Where no thread
    /// can be had, links are dropped by the caller.
    pub(super) fn start(descriptors: Arc<AtomicUsize>, mut locks: Locks) -> Self {
        let (sender, receiver) = channel::<Vec<AttachedProbes>>();
        let count = Arc::clone(&descriptors);
        let run = move || {
            for links in receiver {
                locks.wait(None);
                end(links, &count);
            }
        };
        let thread = thread::Builder::new().name("release".to_owned()).spawn(run);
        // Without a thread the probes are taken out at once.
        Self { sender: thread.ok().map(|_| sender), descriptors }
    }

    /// Takes the probes of a file out soon.
    pub(super) fn end(&self, links: Vec<AttachedProbes>) {
        let kept = match &self.sender {
            Some(sender) => sender.send(links).err().map(|back| back.0),
            None => Some(links),
        };
        if let Some(links) = kept {
            end(links, &self.descriptors);
        }
    }
}

fn end(links: Vec<AttachedProbes>, in_use: &AtomicUsize) {
    let count = descriptors(&links);
    drop(links);
    in_use.fetch_sub(count, Ordering::Relaxed);
}
