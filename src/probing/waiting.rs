//! Processes that executed a program and wait to be looked at: a program maps
//! its libraries within moments. Each user's processes wait in a queue of their
//! own, and the queues take turns: who executes many programs keeps nobody else
//! waiting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::quota::PerAccount;

/// When a process is looked at, from its execve or from the last look.
const LOOKS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(250)];
/// Processes of one account that wait, at most.
pub const EACH: usize = 4096;

/// Who answers for a process; `None` where that is not known.
pub type Account = Option<u32>;

/// A look that is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLook {
    /// Who answers for the process.
    pub account: Account,
    /// The process.
    pub pid: u32,
    number: usize,
}

impl PendingLook {
    /// Whether it is the last one of the process.
    pub fn is_last(self) -> bool {
        self.number + 1 == LOOKS.len()
    }
}

/// The queues.
#[derive(Debug, Default)]
pub struct Waiting {
    accounts: PerAccount<Account, Queues>,
}

/// Of one account, a queue for each look, in the order of time.
#[derive(Debug, Default)]
struct Queues([VecDeque<(Instant, u32)>; LOOKS.len()]);

impl Waiting {
    /// A process executed a program. Whether it will be looked at: not if too
    /// many of its account wait.
    pub fn add(&mut self, account: Account, pid: u32) -> bool {
        self.put(PendingLook { account, pid, number: 0 })
    }

    /// It was looked at: there may be a further look.
    pub fn put_back(&mut self, look: PendingLook) -> bool {
        self.put(PendingLook { number: look.number + 1, ..look })
    }

    fn put(&mut self, look: PendingLook) -> bool {
        let Some(delay) = LOOKS.get(look.number) else { return true };
        let queues = self.accounts.of(look.account);
        let has_room = queues.0.iter().map(VecDeque::len).sum::<usize>() < EACH;
        if let Some(queue) = queues.0.get_mut(look.number).filter(|_| has_room) {
            queue.push_back((Instant::now() + *delay, look.pid));
        }
        has_room
    }

    /// When the next one is to be looked at.
    pub fn due(&self) -> Option<Instant> {
        self.accounts.values().filter_map(|queues| Some(queues.first()?.1)).min()
    }

    /// The next one whose time has come, an account after the other.
    pub fn next(&mut self, now: Instant) -> Option<PendingLook> {
        let is_due = |queues: &Queues| queues.first().is_some_and(|(_, due)| due <= now);
        let account =
            self.accounts.in_turn().find(|account| self.accounts.get(*account).is_some_and(is_due))?;
        self.accounts.had_turn(account);
        let queues = self.accounts.get_mut(account)?;
        let (number, _) = queues.first()?;
        let (_, pid) = queues.0.get_mut(number)?.pop_front()?;
        if queues.0.iter().all(VecDeque::is_empty) {
            self.accounts.remove(account);
        }
        Some(PendingLook { account, pid, number })
    }
}

impl Queues {
    /// The queue whose first process is to be looked at before those of the
    /// others, and when.
    fn first(&self) -> Option<(usize, Instant)> {
        let fronts = self.0.iter().enumerate().filter_map(|(number, queue)| Some((number, queue.front()?.0)));
        fronts.min_by_key(|(_, due)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a process is looked at as often as it is to be, not before
    /// its time.
    #[test]
    fn looks() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.due(), None);
        assert!(waiting.add(Some(1), 7));
        assert_eq!(waiting.next(Instant::now() - Duration::from_secs(1)), None);
        let later = Instant::now() + Duration::from_secs(3600);
        for number in 0..LOOKS.len() {
            assert!(waiting.due().is_some());
            let look = waiting.next(later).unwrap();
            assert_eq!((look.pid, look.number, look.is_last()), (7, number, number == 2));
            assert!(waiting.put_back(look));
        }
        assert!(waiting.next(later).is_none() && waiting.accounts.is_empty());
    }

    /// Make sure that one account that has too many keeps no other waiting.
    #[test]
    fn fair() {
        let mut waiting = Waiting::default();
        let added = (0..10_000).filter(|pid| waiting.add(Some(1), *pid)).count();
        assert_eq!(added, EACH);
        assert!(waiting.add(Some(2), 77));
        let later = Instant::now() + Duration::from_secs(3600);
        let first: Vec<u32> = (0..3).filter_map(|_| Some(waiting.next(later)?.pid)).collect();
        assert!(first.contains(&77), "{first:?}");
    }
}
