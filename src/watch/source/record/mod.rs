//! Records of the ring, as `bpf/gpumap.h` lays them out: bytes in, facts out.

#[cfg(test)]
mod tests;

use crate::model::{EventCause, VARIABLES};
use crate::probing::driver::Driver;
use crate::watch::fact::{EventSubject, Fact, NewValue};

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: u64 = 10_000_000;
/// Size of `struct header`, as in `bpf/gpumap.h`.
const HEADER: usize = 64;
/// Where the value of a variable begins, behind its index and length.
const START: usize = HEADER + 4;
/// Bytes of a name with its end, in the map of names.
pub(super) const NAME: usize = 48;

// The sizes that bpf/gpumap.h asserts: header, index and length, value with a
// byte that tells that it goes on and one for its end, up to a multiple of 8.
const _: () = assert!((START + 64 + 2).next_multiple_of(8) == 136);
const _: () = assert!((START + 400 + 2).next_multiple_of(8) == 472);
const _: () = assert!((START + crate::watch::fact::LIMIT + 2).next_multiple_of(8) == 4168);

/// Of `enum kind`.
const EXEC: u16 = 5;
const FORK: u16 = 7;
const EXEC_VARIABLE: u16 = 11;
const UNNAMED: u16 = 12;
const MOVED: u16 = 13;
/// `enum flag`.
const KEEP: u16 = 1;
const CUT: u16 = 2;
const UNREAD: u16 = 4;
const WHOLE: u16 = 8;
const BORN: u16 = 16;
/// `NUMBER_SHIFT`: the upper half of the flags is a number.
const NUMBER_SHIFT: u16 = 8;
/// `OTHERS`: the account of all whose losses are not counted by themselves.
pub(super) const OTHERS: u32 = u32::MAX;

/// What one record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A fact.
    Fact(Fact),
    /// A variable of the program that the process executes next.
    Variable(ProgramVariable),
    /// It executed a program, whose environment ends at an address with this
    /// low half, and which was given so many variables before, if these are
    /// all. `lost` as in [`lost`].
    Executed { at: u64, subject: EventSubject, env_end: u32, lost: u32, told: Option<usize> },
}

/// A variable that a program is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramVariable {
    pub(super) pid: u32,
    pub(super) account: u32,
    /// As in [`lost`].
    pub(super) lost: u32,
    /// EventCause many were told before it.
    pub(super) number: usize,
    pub(super) name: &'static str,
    /// Its bytes and whether there are more; `None` if it could not be read.
    pub(super) value: Option<(Vec<u8>, bool)>,
}

/// EventCause many records of the same account were lost before this one, as far as 32
/// bits tell.
pub(super) fn lost(record: &[u8]) -> Option<u32> {
    word(record, 28)
}

/// The user who answers for it, by `bpf/account.h`.
pub(super) fn account(record: &[u8]) -> Option<u32> {
    word(record, 36)
}

/// When it was made, in nanoseconds since boot.
pub(super) fn at(record: &[u8]) -> Option<u64> {
    long(record, 0)
}

/// What one record says; `None` for one that is malformed or of a kind that
/// is not known.
pub(super) fn parse(record: &[u8]) -> Option<Record> {
    match half(record, 40)? {
        EXEC => executed(record),
        EXEC_VARIABLE => program_variable(record).map(Record::Variable),
        kind => fact(record, kind).map(Record::Fact),
    }
}

fn executed(record: &[u8]) -> Option<Record> {
    let (flags, env_end) = (half(record, 42)?, word(record, 44)?);
    let (at, subject, lost) = (at(record)?, subject(record)?, lost(record)?);
    let told = if flags & WHOLE != 0 { Some(number(flags)) } else { None };
    Some(Record::Executed { at, subject, env_end, lost, told })
}

fn program_variable(record: &[u8]) -> Option<ProgramVariable> {
    let flags = half(record, 42)?;
    let value = match value(record, flags)? {
        NewValue::Value { bytes, cut } => Some((bytes, cut)),
        NewValue::Unset | NewValue::Unread => None,
    };
    let (pid, account) = (word(record, 24)?, account(record)?);
    let (lost, name) = (lost(record)?, name(record)?);
    Some(ProgramVariable { pid, account, lost, number: number(flags), name, value })
}

fn number(flags: u16) -> usize {
    usize::from(flags >> NUMBER_SHIFT)
}

fn fact(record: &[u8], kind: u16) -> Option<Fact> {
    let subject = subject(record)?;
    let at = at(record)?;
    let (flags, result) = (half(record, 42)?, word(record, 44)?);
    let how = match kind {
        1..=3 => how(kind)?,
        4 => return Some(Fact::Cleared { at, subject }),
        6 => return Some(Fact::Exit { at, subject }),
        FORK => {
            let parent_start = long(record, HEADER)? / TICK;
            return Some(Fact::Fork { at, subject, parent: result, parent_start });
        }
        MOVED => {
            let from = long(record, HEADER).map(|from| (from != 0).then_some(from))?;
            let thread = (result != 0).then_some(result);
            return Some(Fact::Moved { at, subject, from, thread, born: flags & BORN != 0 });
        }
        UNNAMED => return Some(Fact::Unnamed { at, subject, how: how(u16::try_from(result).ok()?)? }),
        8 => return Some(driver(at, subject, Driver::Cuda, result)),
        9 => return Some(driver(at, subject, Driver::Hip, result)),
        10 => return Some(driver(at, subject, Driver::Hsa, result)),
        _ => return None,
    };
    let name = name(record)?;
    let value = if how == EventCause::Unsetenv { NewValue::Unset } else { value(record, flags)? };
    Some(Fact::Set { at, subject, how, name, value, keep: flags & KEEP != 0 })
}

fn subject(record: &[u8]) -> Option<EventSubject> {
    Some(EventSubject {
        pid: word(record, 24)?,
        start_time: long(record, 8)? / TICK,
        uid: word(record, 32)?,
        account: Some(account(record)?),
        comm: until_end(record.get(48..HEADER)?).into(),
        cgroup: long(record, 16)?,
    })
}

/// What changed one variable, of `enum kind`.
fn how(kind: u16) -> Option<EventCause> {
    match kind {
        1 => Some(EventCause::Setenv),
        2 => Some(EventCause::Putenv),
        3 => Some(EventCause::Unsetenv),
        _ => None,
    }
}

fn name(record: &[u8]) -> Option<&'static str> {
    VARIABLES.get(usize::from(half(record, HEADER)?)).copied()
}

fn driver(at: u64, subject: EventSubject, driver: Driver, result: u32) -> Fact {
    Fact::Driver { at, subject, driver, result: result.cast_signed() }
}

fn value(record: &[u8], flags: u16) -> Option<NewValue> {
    if flags & UNREAD != 0 {
        return Some(NewValue::Unread);
    }
    let length = usize::from(half(record, HEADER + 2)?);
    let bytes = record.get(START..START + length)?;
    Some(NewValue::Value { bytes: bytes.to_vec(), cut: flags & CUT != 0 })
}

fn half(record: &[u8], at: usize) -> Option<u16> {
    record.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn word(record: &[u8], at: usize) -> Option<u32> {
    record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn long(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

fn until_end(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
