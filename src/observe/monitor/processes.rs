//! Keeps the list of processes up to date and reports which came, changed and went.

use std::cmp::Ordering;

use crate::model::ProblemCode;
use crate::observation::{HeldDevice, Problem};
use crate::observe::options::Options;
use crate::observe::scanner;
use crate::observe::scanner::ChosenScanner;
use crate::observe::scanner::{ProcessSummary, ScanContents, ScanError, ScanMethod, Scanner};

/// All processes of the node as of the last refresh.
#[derive(Debug)]
pub struct ProcessMonitor {
    options: Options,
    contents: ScanContents,
    scanner: Box<dyn Scanner>,
    /// In the order of pids.
    all: Vec<ProcessSummary>,
    /// Why the iterators are not in use, until it is fetched.
    refused: Option<String>,
    /// How many processes could not be read, until it is fetched.
    unread: usize,
}

/// The changes between two refreshes. A process that came and went in between is not
/// among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessChanges {
    /// Processes that began, as they are.
    pub come: Vec<ProcessSummary>,
    /// Processes that ended, as they were.
    pub gone: Vec<ProcessSummary>,
    /// Processes that executed another program, as they are.
    pub executed: Vec<ProcessSummary>,
    /// Devices that a process has open and had not, those of new processes
    /// included.
    pub opened: Vec<DeviceChange>,
    /// Devices that a process had open and has not, those of processes that
    /// ended included.
    pub closed: Vec<DeviceChange>,
}

/// Devices that one process opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChange {
    /// The process as it is, or as it was if it ended.
    pub process: ProcessSummary,
    /// The devices, with the descriptors that there are or were.
    pub devices: Vec<HeldDevice>,
}

impl ProcessMonitor {
    /// Lists the processes for the first time.
    ///
    /// # Errors
    ///
    /// As [`scanner::start`].
    pub fn start(options: &Options, engine: Option<ScanMethod>) -> Result<Self, ScanError> {
        Self::start_with(options, engine, ScanContents::Environments)
    }

    /// The same with the contents that are wanted of processes.
    ///
    /// # Errors
    ///
    /// As [`scanner::start`].
    pub fn start_with(
        options: &Options,
        engine: Option<ScanMethod>,
        contents: ScanContents,
    ) -> Result<Self, ScanError> {
        let (ChosenScanner { mut scanner, refused }, first) = scanner::start_with(options, engine, contents)?;
        let all = first.map_or_else(|| scanner.scan(), Ok)?;
        let unread = scanner.unread().len();
        Ok(Self { options: options.clone(), contents, scanner, all, refused, unread })
    }

    /// The way in which processes are listed.
    pub fn engine(&self) -> ScanMethod {
        self.scanner.engine()
    }

    /// The processes as of the last refresh, in the order of pids.
    pub fn all(&self) -> &[ProcessSummary] {
        &self.all
    }

    /// Why the iterators are not in use, and how many processes could not be read: each once.
    pub fn problem(&mut self) -> Option<Problem> {
        let Some(why) = self.refused.take() else {
            let count = Some(std::mem::take(&mut self.unread)).filter(|count| *count > 0)?;
            let (code, what) = (ProblemCode::Unreadable, format!("{count} processes"));
            let why = "they cannot be read, and count as they were before".to_owned();
            return Some(Problem { code, what, why, needs: String::new() });
        };
        let (code, what) = (ProblemCode::Iterators, "processes are read from /proc".to_owned());
        Some(Problem { code, what, why, needs: "root, and Linux 5.8 or later with BTF".to_owned() })
    }

    /// Lists the processes again. If iterators fail, `/proc` is used from then on.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be listed.
    pub fn refresh(&mut self) -> Result<ProcessChanges, ScanError> {
        let now = match self.scanner.scan() {
            Err(error) if self.engine() == ScanMethod::Iterators => {
                self.refused = Some(error.to_string());
                let by_proc = Some(ScanMethod::Proc);
                let (chosen, _) = scanner::start_with(&self.options, by_proc, self.contents)?;
                self.scanner = chosen.scanner;
                self.scanner.scan()?
            }
            now => now?,
        };
        let before = std::mem::replace(&mut self.all, now);
        self.keep_unread(&before);
        Ok(ProcessChanges::between(before, &self.all))
    }

    /// Keeps processes that could not be read as they were: nobody saw them end.
    fn keep_unread(&mut self, before: &[ProcessSummary]) {
        let unread = self.scanner.unread();
        if unread.is_empty() {
            return;
        }
        let is_listed = |pid: u32| self.all.binary_search_by_key(&pid, |process| process.pid).is_ok();
        let was = before.iter().filter(|old| unread.contains(&old.pid) && !is_listed(old.pid));
        let kept: Vec<_> = was.cloned().collect();
        self.all.extend(kept);
        self.all.sort_unstable_by_key(|process| process.pid);
        self.unread = unread.len();
    }
}

impl ProcessChanges {
    /// Both in the order of pids. One that is the same takes one comparison.
    fn between(before: Vec<ProcessSummary>, now: &[ProcessSummary]) -> Self {
        let mut changes = Self::default();
        let (mut before, mut now) = (before.into_iter().peekable(), now.iter().peekable());
        loop {
            let order = match (before.peek(), now.peek()) {
                (None, None) => return changes,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => (old.pid, old.start_time).cmp(&(new.pid, new.start_time)),
            };
            let old = if order.is_le() { before.next() } else { None };
            let new = if order.is_ge() { now.next() } else { None };
            changes.one(old, new);
        }
    }

    /// Compares one process with the last refresh.
    fn one(&mut self, old: Option<ProcessSummary>, new: Option<&ProcessSummary>) {
        match (old, new) {
            (Some(old), Some(new)) => self.both(&old, new),
            (Some(old), None) => {
                self.closed.extend(change(&old, &old, None));
                self.gone.push(old);
            }
            (None, Some(new)) => {
                self.opened.extend(change(new, new, None));
                self.come.push(new.clone());
            }
            (None, None) => {}
        }
    }

    fn both(&mut self, old: &ProcessSummary, new: &ProcessSummary) {
        if old.program != new.program {
            self.executed.push(new.clone());
        }
        if old.devices != new.devices {
            self.opened.extend(change(new, new, Some(old)));
            self.closed.extend(change(new, old, Some(new)));
        }
    }
}

/// The devices that are in `with` and not in `without`; none where one of them
/// is not known.
fn change(
    process: &ProcessSummary,
    with: &ProcessSummary,
    without: Option<&ProcessSummary>,
) -> Option<DeviceChange> {
    let number = |device: &HeldDevice| (device.kind, device.major, device.minor);
    let without = match without {
        Some(without) => without.devices.known()?.as_slice(),
        None => &[],
    };
    let is_new = |device: &&HeldDevice| !without.iter().any(|other| number(other) == number(device));
    let devices: Vec<HeldDevice> = with.devices.known()?.iter().filter(is_new).copied().collect();
    (!devices.is_empty()).then(|| DeviceChange { process: process.clone(), devices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceType;
    use crate::observation::Answer;

    fn process(pid: u32, start_time: u64, program: u64, minors: &[u32]) -> ProcessSummary {
        let device = |minor: &u32| HeldDevice {
            kind: DeviceType::Char,
            major: 195,
            minor: *minor,
            fds: 1,
            mapped: false,
        };
        ProcessSummary {
            pid,
            start_time,
            program: (program, 0),
            uid: 0,
            comm: "x".into(),
            cgroup: None,
            at_exec: Answer::default(),
            devices: Answer::Known(minors.iter().map(device).collect()),
            devices_cut: None,
        }
    }

    fn minors(changes: &[DeviceChange]) -> Vec<(u32, u64, Vec<u32>)> {
        let of = |change: &DeviceChange| change.devices.iter().map(|device| device.minor).collect();
        changes.iter().map(|one| (one.process.pid, one.process.start_time, of(one))).collect()
    }

    /// Make sure that a pid that is used again is two processes, and that both ways
    /// report the devices of processes that come and go.
    #[test]
    fn changes() {
        let before = vec![
            process(1, 1, 1, &[0]),
            process(2, 1, 1, &[0, 1]),
            process(3, 1, 1, &[2]),
            process(5, 1, 1, &[]),
        ];
        let now = [
            process(1, 1, 1, &[0]),
            process(2, 1, 2, &[1, 3]),
            process(3, 9, 1, &[2]),
            process(4, 9, 1, &[0]),
        ];
        let changes = ProcessChanges::between(before, &now);
        let ids =
            |all: &[ProcessSummary]| all.iter().map(|one| (one.pid, one.start_time)).collect::<Vec<_>>();
        assert_eq!(ids(&changes.come), [(3, 9), (4, 9)]);
        assert_eq!(ids(&changes.gone), [(3, 1), (5, 1)]);
        assert_eq!(ids(&changes.executed), [(2, 1)]);
        assert_eq!(minors(&changes.opened), [(2, 1, vec![3]), (3, 9, vec![2]), (4, 9, vec![0])]);
        assert_eq!(minors(&changes.closed), [(2, 1, vec![0]), (3, 1, vec![2])]);
        assert_eq!(ProcessChanges::between(now.to_vec(), &now), ProcessChanges::default());
    }

    /// Make sure that devices that are not known are no change.
    #[test]
    fn unknown() {
        let known = process(1, 1, 1, &[0]);
        let unknown = ProcessSummary { devices: Answer::Missing("no".to_owned()), ..known.clone() };
        assert_eq!(
            ProcessChanges::between(vec![known.clone()], std::slice::from_ref(&unknown)),
            ProcessChanges::default()
        );
        assert_eq!(ProcessChanges::between(vec![unknown], &[known]), ProcessChanges::default());
    }
}
