//! Helper processes that look into other processes, and how long they may take.
//!
//! A process can keep whoever reads its memory waiting for ever. So copies of gpumap read,
//! and one that a process keeps waiting is killed and left behind. How deeply a process is
//! looked into the next time, and how much time the processes of one user may cost, is
//! remembered here.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::credentials::{Account, account, own_namespace};
use crate::observe::pinned::PinnedProcess;
use crate::sys::dir::Dir;
use crate::sys::helper::{Channel, Helper, MOST_LEFT_BEHIND, left_behind, wait};

/// The most helpers that run at a time. They only make system calls that share no
/// lock, so that two helpers take half the time.
const HELPERS: usize = 4;
/// Questions that justify one more helper.
const SHARE: usize = 32;
/// Questions that a helper is sent at a time. It gets more as soon as it has no
/// more than these left.
const CHUNK: usize = 16;
/// How long a helper works on its requests before it returns the rest. After that
/// the pool may know better how much to read of each process.
const MOMENT: Duration = Duration::from_millis(250);
/// How long a helper may wait for one process, and the minimum if the deadline is
/// near.
const PATIENCE: Duration = Duration::from_secs(1);
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// The part of the remaining time that one process may cost.
const PART: u32 = 8;
/// How long a helper may work on one process. Its own limits stop it far earlier.
const LONGEST: Duration = Duration::from_secs(10);

/// Helpers that answer questions about processes. A question is a pid and what to
/// find out.
pub(in crate::observe) struct HelperPool<'a, Question, Answer> {
    /// The proc file system: the only descriptor that helpers keep.
    proc: Dir,
    work: Box<Work<'a, Question, Answer>>,
    helpers: Vec<Worker>,
    /// Helpers at a time.
    most: usize,
    slow: SlowProcesses,
}

/// The function of a helper, which runs until no more questions come.
type Work<'a, Question, Answer> = dyn Fn(&Dir, Requests<'_, Question, Answer>) + Send + 'a;

/// The questions that a helper receives.
pub(in crate::observe) struct Requests<'c, Question, Answer> {
    channel: &'c mut Channel,
    types: PhantomData<fn(Question) -> Answer>,
}

impl<Question, Answer> fmt::Debug for HelperPool<'_, Question, Answer> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperPool").field("helpers", &self.helpers).finish_non_exhaustive()
    }
}

/// A helper's reply to a question.
#[derive(Serialize, Deserialize)]
enum Reply<Answer> {
    /// The answer, and how long it took.
    Answer { micros: u64, answer: Answer },
    /// The helper did not begin with the question and returns it.
    NotBegun,
}

/// A helper and the numbers of the questions that it was sent.
#[derive(Debug)]
struct Worker {
    helper: Helper,
    asked: VecDeque<(usize, Depth)>,
    /// Replies received.
    answered: u64,
    /// When it began with the first of these questions.
    since: Instant,
}

/// Questions that wait to be sent.
struct Queue<'q, Question> {
    questions: &'q [(u32, Question)],
    next: usize,
    again: VecDeque<(usize, Option<Depth>)>,
}

impl<'a, Question, Answer> HelperPool<'a, Question, Answer>
where
    Question: Clone + Serialize + DeserializeOwned,
    Answer: Serialize + DeserializeOwned,
{
    /// A pool whose helpers run `work` with the proc file system and their requests.
    /// No helper starts before the first question.
    pub(crate) fn new(proc: Dir, work: impl Fn(&Dir, Requests<'_, Question, Answer>) + Send + 'a) -> Self {
        // Asked once: the answer takes reading the limits of every cgroup above.
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(HELPERS);
        Self { proc, work: Box::new(work), helpers: Vec::new(), most, slow: SlowProcesses::default() }
    }

    /// Asks all questions and calls `each` with the number of each question and
    /// its answer, in any order. A process that never answered has no answer.
    /// Questions that the deadline cut off are left out.
    pub(crate) fn ask(
        &mut self,
        questions: &[(u32, Question)],
        deadline: Option<Instant>,
        mut each: impl FnMut(usize, Option<Answer>),
    ) {
        let mut queue = Queue { questions, next: 0, again: VecDeque::new() };
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            self.hand_out(&mut queue);
            if self.helpers.iter().all(|worker| worker.asked.is_empty()) {
                // No helper could be started for the remaining questions.
                queue.rest().for_each(|index| each(index, None));
                return;
            }
            let patience = patience(deadline);
            wait(self.helpers.iter().map(|worker| &worker.helper), self.next_look(patience, deadline));
            self.collect(&mut queue, &mut each);
            self.give_up(&mut queue, patience, &mut each);
        }
        // Answers to these would come into the next round.
        self.helpers.retain(|worker| worker.asked.is_empty());
    }

    /// Sends questions to every helper and starts further helpers as needed.
    fn hand_out(&mut self, queue: &mut Queue<'_, Question>) {
        let wanted = self.most.min(queue.left().div_ceil(SHARE));
        while self.helpers.len() < wanted {
            let Some(worker) = self.start() else { break };
            self.helpers.push(worker);
        }
        for worker in &mut self.helpers {
            if worker.asked.len() > CHUNK {
                continue;
            }
            let chunk: Vec<(usize, Depth)> =
                std::iter::from_fn(|| queue.take(&self.proc, &mut self.slow)).take(CHUNK).collect();
            let asked = |(index, depth): &(usize, Depth)| Some((queue.questions.get(*index)?, *depth));
            let asked: Vec<_> = chunk.iter().filter_map(asked).collect();
            if asked.is_empty() {
                return;
            }
            if worker.asked.is_empty() {
                worker.since = Instant::now();
            }
            // One that takes nothing has ended, which is seen when it is read.
            let _ended = serde_json::to_vec(&asked).map(|message| worker.helper.send(&message));
            worker.asked.extend(chunk);
        }
    }

    fn start(&self) -> Option<Worker> {
        let work = |channel: &mut Channel| (self.work)(&self.proc, Requests { channel, types: PhantomData });
        // Without any helper the questions have no answer, which their asker tells.
        let helper = Helper::start(&[self.proc.as_fd()], work).ok()?;
        Some(Worker { helper, asked: VecDeque::new(), answered: 0, since: Instant::now() })
    }

    /// How long the pool can wait for replies before it has to act.
    fn next_look(&self, patience: Duration, deadline: Option<Instant>) -> Duration {
        let busy = self.helpers.iter().filter(|worker| !worker.asked.is_empty());
        let ends = busy.map(|worker| worker.since + patience).chain(deadline);
        let next = ends.min().map_or(patience, |end| end.saturating_duration_since(Instant::now()));
        // A helper that is overdue and still working is checked again soon.
        next.max(Duration::from_millis(5))
    }

    /// Takes the replies that have arrived.
    fn collect(&mut self, queue: &mut Queue<'_, Question>, each: &mut impl FnMut(usize, Option<Answer>)) {
        let mut ended = Vec::new();
        for (place, worker) in self.helpers.iter_mut().enumerate() {
            loop {
                match worker.helper.receive() {
                    Ok(Some(message)) => {
                        let Some((index, _)) = worker.asked.pop_front() else { break };
                        worker.since = Instant::now();
                        worker.answered += 1;
                        match serde_json::from_slice(&message) {
                            Ok(Reply::Answer { micros, answer }) => {
                                let pid = queue.questions.get(index).map_or(0, |(pid, _)| *pid);
                                self.slow.spent(&self.proc, pid, Duration::from_micros(micros));
                                each(index, Some(answer));
                            }
                            Ok(Reply::NotBegun) => queue.again.push_back((index, None)),
                            // No answer: the asker tells it.
                            Err(_) => each(index, None),
                        }
                    }
                    Ok(None) => break,
                    // Its open questions are put to others, or have no answer.
                    Err(_) => {
                        ended.push(place);
                        break;
                    }
                }
            }
        }
        for place in ended.into_iter().rev() {
            self.leave(place, queue, each);
        }
    }

    /// Abandons helpers that wait too long for a process. A helper that is running
    /// is not waiting.
    fn give_up(
        &mut self,
        queue: &mut Queue<'_, Question>,
        patience: Duration,
        each: &mut impl FnMut(usize, Option<Answer>),
    ) {
        for place in (0..self.helpers.len()).rev() {
            let Some(worker) = self.helpers.get(place) else { continue };
            let waited = worker.since.elapsed();
            let is_overdue = !worker.asked.is_empty() && waited >= patience;
            if is_overdue && (waited >= LONGEST || !worker.helper.is_running()) {
                self.leave(place, queue, each);
            }
        }
    }

    /// Abandons a helper. The process that it was reading is read again without its
    /// memory; another helper gets the remaining questions.
    fn leave(
        &mut self,
        place: usize,
        queue: &mut Queue<'_, Question>,
        each: &mut impl FnMut(usize, Option<Answer>),
    ) {
        let Worker { mut helper, mut asked, answered, .. } = self.helpers.swap_remove(place);
        // Answers that were made and not sent are lost with it.
        let made = helper.made().saturating_sub(answered);
        let made = usize::try_from(made).unwrap_or(usize::MAX).min(asked.len());
        queue.again.extend(asked.drain(..made).map(|(index, _)| (index, None)));
        let first = asked.pop_front();
        queue.again.extend(asked.into_iter().map(|(index, _)| (index, None)));
        match first {
            Some((index, Depth::Full)) => {
                if let Some((pid, _)) = queue.questions.get(index) {
                    self.slow.add(&self.proc, *pid);
                }
                queue.again.push_back((index, Some(Depth::WithoutMemory)));
            }
            Some((index, Depth::WithoutMemory | Depth::Minimal)) => each(index, None),
            None => {}
        }
    }
}

impl<Question> Queue<'_, Question> {
    fn left(&self) -> usize {
        self.questions.len() - self.next + self.again.len()
    }

    fn take(&mut self, proc: &Dir, slow: &mut SlowProcesses) -> Option<(usize, Depth)> {
        let (index, depth) = self.again.pop_front().or_else(|| {
            let index = (self.next < self.questions.len()).then_some(self.next)?;
            self.next += 1;
            Some((index, None))
        })?;
        let pid = self.questions.get(index).map_or(0, |(pid, _)| *pid);
        Some((index, depth.unwrap_or_else(|| slow.depth(proc, pid))))
    }

    fn rest(&mut self) -> impl Iterator<Item = usize> {
        let again = std::mem::take(&mut self.again).into_iter().map(|(index, _)| index);
        let next = std::mem::replace(&mut self.next, self.questions.len());
        again.chain(next..self.questions.len())
    }
}

impl<Question: DeserializeOwned, Answer: Serialize> Requests<'_, Question, Answer> {
    /// Answers one question after the other and reports how long each took.
    /// Questions that were not begun in time are returned.
    pub(crate) fn answer(self, mut work: impl FnMut(u32, Question, Depth) -> Answer) {
        while let Some(message) = self.channel.receive() {
            // A message that is none: the helper ends, and its questions have no answer.
            let Ok(asked) = serde_json::from_slice::<Vec<((u32, Question), Depth)>>(&message) else { return };
            let first = Instant::now();
            for ((pid, question), depth) in asked {
                let begun = Instant::now();
                let reply = if begun - first < MOMENT {
                    let answer = work(pid, question, depth);
                    Reply::Answer {
                        micros: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
                        answer,
                    }
                } else {
                    Reply::NotBegun
                };
                // The same.
                if !serde_json::to_vec(&reply).is_ok_and(|message| self.channel.queue(&message)) {
                    return;
                }
            }
        }
    }
}

/// How long one process may block a helper: with a deadline, only a part of the
/// remaining time.
fn patience(deadline: Option<Instant>) -> Duration {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    left.map_or(PATIENCE, |left| (left / PART).clamp(LEAST_PATIENCE, PATIENCE))
}

/// Why the memory of a process was not read that kept its reader waiting. A helper that waits
/// for a disk on a busy machine looks the same.
pub(in crate::observe) const SILENT: &str =
    "its memory does not answer (a page of a FUSE file or of userfaultfd, or a very busy machine)";
/// The reason for a process that was not read because its user's other processes
/// took too long.
pub(in crate::observe) const SPENT: &str = "processes of the same user took more than 10 seconds to look into (descriptors, libraries, environments)";

/// How much of a process may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Depth {
    /// Everything, its memory included.
    Full,
    /// Nothing of its memory, nor what takes the lock of its memory: reading that
    /// did not end before.
    WithoutMemory,
    /// Nothing whose length the process chooses, because the processes of its user
    /// took too long already.
    Minimal,
}

impl Depth {
    /// Why memory is not read.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::WithoutMemory => Some(SILENT),
            Self::Minimal => Some(SPENT),
        }
    }
}

/// How many processes of one user, and of all users, may block helpers.
const OF_A_USER: usize = 3;
const OF_ALL: usize = 16;
/// How long the processes of one user may take together, and the time from which on
/// a process counts. An ordinary process takes less than a tenth of it.
const TIME_OF_A_USER: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_millis(2);
/// How long these facts are remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Processes that kept a helper waiting.
#[derive(Debug, Default)]
struct SlowProcesses {
    /// By pid.
    processes: HashMap<u32, Stall>,
    /// By user: how long its processes took together, and since when this is counted.
    users: HashMap<Account, (Duration, Instant)>,
    /// The inode number of gpumap's user namespace, once it was asked for.
    own: Option<Option<u64>>,
}

#[derive(Debug)]
struct Stall {
    /// Its start time and user, if they are known.
    who: Option<(u64, Account)>,
    when: Instant,
}

impl SlowProcesses {
    /// Remembers a process.
    fn add(&mut self, proc: &Dir, pid: u32) {
        let who = self.who(proc, pid);
        self.processes.insert(pid, Stall { who, when: Instant::now() });
    }

    /// Remembers how long a process took.
    fn spent(&mut self, proc: &Dir, pid: u32, time: Duration) {
        if time < LONG {
            return;
        }
        let Some((_, user)) = self.who(proc, pid) else { return };
        let (spent, _) = self.users.entry(user).or_insert((Duration::ZERO, Instant::now()));
        *spent = spent.saturating_add(time);
    }

    /// How much of a process may be read.
    fn depth(&mut self, proc: &Dir, pid: u32) -> Depth {
        self.processes.retain(|_, stall| stall.when.elapsed() < REMEMBERED);
        self.users.retain(|_, (_, since)| since.elapsed() < REMEMBERED);
        // Where no process and no user was slow, nobody has to be asked whose it is.
        let is_any_slow = self.users.values().any(|(spent, _)| *spent > TIME_OF_A_USER);
        let is_full = self.users.is_empty() || !is_any_slow && may_lose_another();
        if self.processes.is_empty() && is_full {
            return Depth::Full;
        }
        let who = self.who(proc, pid);
        let spent = who.and_then(|(_, user)| self.users.get(&user));
        if spent.is_some_and(|(spent, _)| *spent > TIME_OF_A_USER) {
            return Depth::Minimal;
        }
        let same = self.processes.get(&pid).is_some_and(|stall| stall.who == who);
        let user = |who: Option<(u64, Account)>| who.map(|(_, user)| user);
        let of_user = self.processes.values().filter(|stall| user(stall.who) == user(who)).count();
        let enough = of_user >= OF_A_USER || self.processes.len() >= OF_ALL || !may_lose_another();
        if same || enough { Depth::WithoutMemory } else { Depth::Full }
    }

    /// Start time and user: reading these never waits for the process.
    fn who(&mut self, proc: &Dir, pid: u32) -> Option<(u64, Account)> {
        // Only how long it may be read depends on it: the reading itself tells why it fails.
        let process = PinnedProcess::open(proc, pid).ok()?;
        let own = *self.own.get_or_insert_with(own_namespace);
        // The same.
        Some((process.stat().ok()?.start_time, account(process.dir(), own)?))
    }
}

/// Whether one more helper may be abandoned.
fn may_lose_another() -> bool {
    left_behind() < MOST_LEFT_BEHIND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that one question without an answer does not cost the answers to
    /// others: answers that a helper found and could not send are asked for again.
    #[test]
    fn one_is_silent() {
        const SILENT: u32 = 37;
        let proc = Dir::open("/proc".as_ref()).unwrap();
        let mut pool = HelperPool::new(proc, |_, requests: Requests<'_, u32, (u32, Depth)>| {
            requests.answer(|pid, question, depth| {
                if pid == SILENT && depth == Depth::Full {
                    std::thread::sleep(Duration::from_secs(600));
                }
                (question, depth)
            });
        });
        let questions: Vec<(u32, u32)> = (0..100).map(|pid| (pid, pid * 2)).collect();
        let mut answers = vec![Vec::new(); questions.len()];
        pool.ask(&questions, None, |index, answer| answers[index].push(answer));
        for (index, (pid, question)) in questions.iter().enumerate() {
            let depth = if *pid == SILENT { Depth::WithoutMemory } else { Depth::Full };
            assert_eq!(answers[index], [Some((*question, depth))], "{pid}");
        }
    }
}
