//! Does in a thread of its own what may take seconds, such as decoding programs: whoever
//! asks goes on, and takes the answer when it is there.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Questions that wait at most: each holds what was observed.
const OPEN: usize = 64;

/// A thread that answers questions, one after another.
#[derive(Debug)]
pub struct Beside<Q, A> {
    questions: SyncSender<Q>,
    answers: Receiver<A>,
    open: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Beside<Q, A> {
    /// Starts a thread that ends with this value, when it has done its work.
    pub fn start(mut work: impl FnMut(Q) -> A + Send + 'static) -> Self {
        let (questions, asked) = sync_channel(OPEN);
        let (sender, answers) = channel();
        // Without a thread every question is refused, which its asker has to tell.
        let _thread = thread::Builder::new().name("decode".to_owned()).spawn(move || {
            // It fails once nobody can ask any more.
            while let Ok(question) = asked.recv() {
                // Nobody listens any more.
                if sender.send(work(question)).is_err() {
                    return;
                }
            }
        });
        Self { questions, answers, open: 0 }
    }

    /// Asks; does not wait.
    ///
    /// # Errors
    ///
    /// The question, where too many wait or the thread has ended.
    pub fn ask(&mut self, question: Q) -> Result<(), Q> {
        if self.open >= OPEN {
            return Err(question);
        }
        self.questions.try_send(question).map_err(|error| match error {
            TrySendError::Full(question) | TrySendError::Disconnected(question) => question,
        })?;
        self.open += 1;
        Ok(())
    }

    /// The next answer, if it comes in time.
    pub fn answer(&mut self, patience: Duration) -> Option<A> {
        match self.answers.recv_timeout(patience) {
            Ok(answer) => {
                self.open -= 1;
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout) => None,
            // It panicked: what was asked is not answered, and nothing more can be asked.
            Err(RecvTimeoutError::Disconnected) => {
                self.open = 0;
                None
            }
        }
    }

    /// Whether no question is open.
    pub fn is_idle(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that nobody waits for an answer, that all come in order, and that too many
    /// questions, or those that nobody will answer, are refused.
    #[test]
    fn answers() {
        let (go, wait) = channel::<()>();
        let mut beside = Beside::start(move |number: usize| {
            wait.recv().unwrap();
            number
        });
        (0..OPEN).for_each(|number| beside.ask(number).unwrap());
        assert_eq!((beside.ask(OPEN), beside.answer(Duration::ZERO)), (Err(OPEN), None));
        for number in 0..OPEN {
            go.send(()).unwrap();
            assert_eq!(beside.answer(Duration::from_secs(60)), Some(number));
        }
        assert!(beside.is_idle());
        let mut broken = Beside::start(|_: ()| panic!("a test"));
        broken.ask(()).unwrap();
        assert_eq!(broken.answer(Duration::from_secs(60)), None::<()>);
        assert_eq!(broken.ask(()), Err(()));
    }
}
