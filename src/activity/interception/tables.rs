//! The functions whose calls are measured, and the kernel side's table turned into facts. Its entries are laid out in
//! `bpf/interception.h`; times are sorted into classes of 16 ns each up to two microseconds,
//! then four for each power of two.

use std::collections::HashMap;

use super::super::layout::{Account, EVERYBODY, OTHERS, ROOMS};
use crate::activity::ActivityError;
use crate::loader::Loaded;
use crate::model::{CountTable, InOrder as _};
use crate::observation::{
    Activity, DURATION_CLASSES, InterceptedCalls, LostRoom, ProcessActivity, TIME_CLASSES,
};
use crate::sys::fields::Fields;

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
        calls.order_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
        process.interception_unseen &= calls.is_empty();
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
            returned.add(loaded, account(&value).unwrap_or(OTHERS))?;
        }
    }
    Ok(())
}

fn row(key: &[u8], value: &[u8]) -> Option<Row> {
    let mut from = Fields(key);
    let (start, pid, function) = (from.long()?, from.word()?, from.word()?);
    let function = usize::try_from(function).ok()?.checked_sub(1)?;
    let [calls, reached, ns, past, past_bytes, past_unsized] = Fields(value).longs()?;
    let classes = classes(value)?;
    let calls = InterceptedCalls {
        function: (*FUNCTIONS.get(function)?).to_owned(),
        calls,
        reached,
        ns,
        durations: coarse(&classes),
        quick_ns: quick(&classes),
        past,
        past_bytes,
        past_unsized,
    };
    Some((pid, start / TICK_NS, calls))
}

/// The account that a row belongs to.
fn account(value: &[u8]) -> Option<u32> {
    let mut from = Fields(value);
    let _sums: [u64; 6] = from.longs()?;
    from.word()
}

/// The calls of a row by how long they took.
pub(super) fn classes(value: &[u8]) -> Option<[u64; TIME_CLASSES]> {
    let mut from = Fields(value);
    let _sums_and_account: [u64; 7] = from.longs()?;
    from.longs()
}

/// The functions, by the number that is their cookie less one: those that programs
/// call for each piece of work, and that the libraries do bookkeeping for.
pub(super) const FUNCTIONS: [&str; 29] = [
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "cuLaunchKernelEx_ptsz",
    "cuLaunchCooperativeKernel",
    "cuLaunchCooperativeKernel_ptsz",
    "cuGraphLaunch",
    "cuGraphLaunch_ptsz",
    "cuMemAlloc_v2",
    "cuMemAllocManaged",
    "cuMemAllocPitch_v2",
    "cuMemAllocAsync",
    "cuMemAllocAsync_ptsz",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemHostAlloc",
    "cuMemAllocHost_v2",
    "cuMemFreeHost",
    "cuMemCreate",
    "cuMemGetInfo_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuCtxGetDevice",
    "cuMemAllocFromPoolAsync",
    "cuMemAllocFromPoolAsync_ptsz",
    "cuArrayCreate_v2",
    "cuArray3DCreate_v2",
    "cuMipmappedArrayCreate",
];

/// Where a call says how many bytes of a device it asks for: `enum bytes` of
/// `bpf/interception.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    None = 0,
    InArgument = 1,
    WidthAndHeight = 2,
    Array = 3,
    Array3d = 4,
    Mipmaps = 5,
}

/// The cookie of a driver's function, by its number: the number, and where it says how many
/// bytes of a device are allocated.
pub(super) fn driver_cookie(number: u32) -> u64 {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let bytes = match place.and_then(|place| FUNCTIONS.get(place)).copied() {
        Some("cuMemAllocPitch_v2") => Bytes::WidthAndHeight,
        Some("cuArrayCreate_v2") => Bytes::Array,
        Some("cuArray3DCreate_v2") => Bytes::Array3d,
        Some("cuMipmappedArrayCreate") => Bytes::Mipmaps,
        Some("cuMemAllocHost_v2") | None => Bytes::None,
        Some(name) if name.starts_with("cuMemAlloc") || name == "cuMemCreate" => Bytes::InArgument,
        Some(_) => Bytes::None,
    };
    u64::from(number) | (bytes as u64) << 8
}

/// The first classes, their length, and where the others begin.
const LINEAR: usize = 128;
const STEP: u64 = 16;
const FIRST_BITS: usize = 11;
/// Powers of two that are split in four.
const OCTAVES: usize = 9;
/// The first power of two of the classes of durations that other sums have.
const COARSE_BITS: u32 = 7;

/// Where a class begins, in nanoseconds.
fn begin(class: usize) -> u64 {
    let Some(after) = class.checked_sub(LINEAR) else { return STEP.saturating_mul(class as u64) };
    let octave = (after / 4).min(OCTAVES);
    let start = 1_u64 << (FIRST_BITS + octave);
    match after.checked_sub(4 * OCTAVES) {
        None => start + (start >> 2) * (after % 4) as u64,
        Some(last) => start << last,
    }
}

/// The time below which a tenth of the calls took: what they take where nothing comes
/// between. A thread that loses the CPU, or a page that is not there, is in none of these.
pub(super) fn quick(classes: &[u64; TIME_CLASSES]) -> Option<u64> {
    let all = classes.iter().fold(0_u64, |all, calls| all.saturating_add(*calls));
    let tenth = all.div_ceil(10);
    let mut below = 0_u64;
    for (class, calls) in classes.iter().enumerate() {
        if tenth > 0 && below.saturating_add(*calls) >= tenth {
            let length = begin(class + 1).saturating_sub(begin(class));
            let share = u128::from(tenth - below) * u128::from(length) / u128::from((*calls).max(1));
            return Some(begin(class).saturating_add(u64::try_from(share).unwrap_or(length)));
        }
        below = below.saturating_add(*calls);
    }
    None
}

/// The same in classes of powers of two.
pub(super) fn coarse(classes: &[u64; TIME_CLASSES]) -> [u64; DURATION_CLASSES] {
    let mut all = [0_u64; DURATION_CLASSES];
    for (class, calls) in classes.iter().enumerate() {
        let power = begin(class).checked_ilog2().unwrap_or(0);
        let place = (power + 1).saturating_sub(COARSE_BITS) as usize;
        if let Some(sum) = all.get_mut(place) {
            *sum = sum.saturating_add(*calls);
        }
    }
    all
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

#[cfg(test)]
mod classes_tests {
    use super::*;

    /// Make sure that classes follow each other without a gap, and that quick calls are reported
    /// to 16 ns.
    #[test]
    fn scale() {
        assert_eq!(
            [0, 1, 8, 127, 128, 129, 132, 164, 165].map(begin),
            [0, 16, 128, 2032, 2048, 2560, 4096, 1 << 20, 1 << 21]
        );
        assert!((0..TIME_CLASSES).all(|class| begin(class) < begin(class + 1)));
        let mut classes = [0; TIME_CLASSES];
        assert_eq!(quick(&classes), None);
        (classes[36], classes[144]) = (100, 800);
        // The class from 576 to 592 ns.
        let found = quick(&classes).unwrap();
        assert!((576..592).contains(&found), "{found}");
        assert_eq!(coarse(&classes).iter().sum::<u64>(), 900);
        assert_eq!((coarse(&classes)[3], coarse(&classes)[9]), (100, 800));
        let mut last = [0; TIME_CLASSES];
        (last[7], last[164], last[165]) = (3, 1, 2);
        assert_eq!((coarse(&last)[0], coarse(&last)[14], coarse(&last)[15]), (3, 1, 2));
    }
}
