//! Turns the kernel side's table into facts. Its entries are laid out in
//! `bpf/interception.h`.

use std::collections::HashMap;

use super::super::layout::{Account, EVERYBODY, OTHERS, ROOMS};
use super::classes;
use super::functions::FUNCTIONS;
use crate::activity::ActivityError;
use crate::loader::Loaded;
use crate::model::CountTable;
use crate::observation::{Activity, InterceptedCalls, LostRoom, ProcessActivity, TIME_CLASSES};

/// Nanoseconds of a clock tick, in which starts of processes are given.
const TICK_NS: u64 = 10_000_000;
/// The table.
const TABLE: &str = "interceptions";

/// A row: pid, start in clock ticks, and the sums of one function.
type Row = (u32, u64, InterceptedCalls);

/// Adds the sums to the processes of a reading. Of a process before and after an
/// execve the later one gets them.
pub(super) fn fill(loaded: &dyn Loaded, activity: &mut Activity) -> Result<(), ActivityError> {
    let mut rows: HashMap<(u32, u64), Vec<InterceptedCalls>> = HashMap::new();
    for (key, value) in loaded.entries(TABLE)? {
        if let Some((pid, start, calls)) = row(&key, &value) {
            rows.entry((pid, start)).or_default().push(calls);
        }
    }
    for process in activity.processes.iter_mut().filter(|process| !process.executed) {
        let mut calls = rows.remove(&(process.pid, process.start_time)).unwrap_or_default();
        calls.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
        process.intercepted = calls;
    }
    for (key, value) in loaded.entries("accounts")? {
        let Some(account) = Account::read(&key, &value) else { continue };
        let count = account.lost.iter().fold(0_u64, |all, lost| all.saturating_add(*lost));
        let uid = Some(account.number).filter(|number| *number != OTHERS);
        if count > 0 {
            activity.lost.push(LostRoom { map: CountTable::Interceptions, count, uid });
        }
    }
    Ok(())
}

/// How many rows of each account were taken out.
#[derive(Debug, Default)]
pub(super) struct Returned(HashMap<u32, u32>);

impl Returned {
    fn add(&mut self, loaded: &mut dyn Loaded, account: u32) -> Result<(), ActivityError> {
        for account in [account, EVERYBODY] {
            let count = self.0.entry(account).or_default();
            *count = count.wrapping_add(1);
            // The table of the sums is the first one.
            let mut bytes = count.to_ne_bytes().to_vec();
            bytes.resize(ROOMS * 4, 0);
            loaded.put("returned_room", &account.to_ne_bytes(), &bytes)?;
        }
        Ok(())
    }
}

/// Takes the rows of processes that have ended out of the table, and of those that
/// nobody counts.
pub(super) fn clear(
    loaded: &mut dyn Loaded,
    activity: &Activity,
    returned: &mut Returned,
) -> Result<(), ActivityError> {
    let is_alive = |pid: u32, start: u64| {
        let is_this = |process: &ProcessActivity| (process.pid, process.start_time) == (pid, start);
        activity.processes.iter().any(|process| is_this(process) && process.ended_ns.is_none())
    };
    for (key, value) in loaded.entries(TABLE)? {
        if row(&key, &value).is_none_or(|(pid, start, _)| !is_alive(pid, start)) {
            loaded.remove(TABLE, &key)?;
            returned.add(loaded, word(&value, 48).unwrap_or(OTHERS))?;
        }
    }
    Ok(())
}

fn row(key: &[u8], value: &[u8]) -> Option<Row> {
    let start = long(key, 0)?;
    let function = usize::try_from(word(key, 12)?).ok()?.checked_sub(1)?;
    let classes = classes(value)?;
    let calls = InterceptedCalls {
        function: (*FUNCTIONS.get(function)?).to_owned(),
        calls: long(value, 0)?,
        reached: long(value, 8)?,
        ns: long(value, 16)?,
        durations: classes::coarse(&classes),
        quick_ns: classes::quick(&classes),
        past: long(value, 24)?,
        past_bytes: long(value, 32)?,
        past_unsized: long(value, 40)?,
    };
    Some((word(key, 8)?, start / TICK_NS, calls))
}

/// The calls of a row by how long they took.
pub(super) fn classes(value: &[u8]) -> Option<[u64; TIME_CLASSES]> {
    let mut classes = [0; TIME_CLASSES];
    for (class, at) in classes.iter_mut().zip((56..).step_by(8)) {
        *class = long(value, at)?;
    }
    Some(classes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that each field is where the kernel side puts it.
    #[test]
    fn rows() {
        let mut key = 70_000_000_u64.to_ne_bytes().to_vec();
        key.extend(5_u32.to_ne_bytes());
        key.extend(1_u32.to_ne_bytes());
        let value: Vec<u8> = (1..174_u64).flat_map(u64::to_ne_bytes).collect();
        let (pid, start, calls) = row(&key, &value).unwrap();
        assert_eq!((pid, start, calls.function.as_str()), (5, 7, "cuLaunchKernel"));
        assert_eq!((calls.calls, calls.reached, calls.ns), (1, 2, 3));
        assert_eq!((calls.past, calls.past_bytes, calls.past_unsized), (4, 5, 6));
        assert_eq!((calls.durations[0], calls.durations[15]), ((8..16).sum::<u64>(), 173));
        assert_eq!(row(&key, &value[..100]), None);
        key[12] = 99;
        assert_eq!(row(&key, &value), None);
    }
}
