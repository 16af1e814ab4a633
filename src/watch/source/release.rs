//! Ends attachments beside the watch: the kernel waits until no CPU runs the
//! programs any more, for some tens of milliseconds each time, and for the
//! locks of memory maps before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::attachment::Attachment;
use super::locks::Locks;

/// A thread that drops what it is given. It ends with the value.
#[derive(Debug)]
pub(super) struct Release {
    sender: Option<Sender<Attachment>>,
    descriptors: Arc<AtomicUsize>,
}

impl Release {
    /// Starts it; `descriptors` is the number of those in use. Where no thread
    /// can be had, attachments are dropped by the caller.
    pub(super) fn start(descriptors: Arc<AtomicUsize>, mut locks: Locks) -> Self {
        let (sender, receiver) = channel::<Attachment>();
        let count = Arc::clone(&descriptors);
        let run = move || {
            for attachment in receiver {
                locks.wait(None);
                end(attachment, &count);
            }
        };
        let thread = thread::Builder::new().name("release".to_owned()).spawn(run);
        Self { sender: thread.ok().map(|_| sender), descriptors }
    }

    /// Ends an attachment soon.
    pub(super) fn end(&self, attachment: Attachment) {
        let kept = match &self.sender {
            Some(sender) => sender.send(attachment).err().map(|back| back.0),
            None => Some(attachment),
        };
        if let Some(attachment) = kept {
            end(attachment, &self.descriptors);
        }
    }
}

fn end(attachment: Attachment, descriptors: &AtomicUsize) {
    let count = attachment.descriptors();
    drop(attachment);
    descriptors.fetch_sub(count, Ordering::Relaxed);
}
