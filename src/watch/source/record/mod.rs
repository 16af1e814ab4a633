//! Records of the ring, as `bpf/gpumap.h` lays them out: bytes in, facts out.

#[cfg(test)]
mod tests;

use crate::model::{EventCause, VARIABLES};
use crate::probing::driver::Driver;
use crate::sys::fields::Fields;
use crate::watch::fact::{EventSubject, Fact, NewValue};

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: u64 = 10_000_000;
/// Bytes of a command's name (`COMM_SIZE`), of `struct header`, and where the value of a
/// variable begins, behind its index and length.
const COMM: usize = 16;
const HEADER: usize = 48 + COMM;
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
    /// all. `lost` as in [`Header`].
    Executed { at: u64, subject: EventSubject, env_end: u32, lost: u32, reported: Option<usize> },
}

/// A variable that a program is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramVariable {
    pub(super) pid: u32,
    pub(super) account: u32,
    /// As in [`Header`].
    pub(super) lost: u32,
    /// How many were reported before it.
    pub(super) number: usize,
    pub(super) name: &'static str,
    /// Its bytes and whether there are more; `None` if it could not be read.
    pub(super) value: Option<(Vec<u8>, bool)>,
}

/// `struct header`: what every record begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'r> {
    /// When it was made, in nanoseconds since boot.
    pub(super) at: u64,
    start: u64,
    cgroup: u64,
    pid: u32,
    /// How many records of the same account were lost before this one, as far as 32 bits
    /// tell.
    pub(super) lost: u32,
    uid: u32,
    /// The user who answers for it, by `bpf/account.h`.
    pub(super) account: u32,
    kind: u16,
    flags: u16,
    result: u32,
    comm: &'r [u8],
    /// What comes behind it.
    rest: Fields<'r>,
}

impl<'r> Header<'r> {
    pub(super) fn read(record: &'r [u8]) -> Option<Self> {
        let mut from = Fields(record);
        let [at, start, cgroup] = from.longs()?;
        let [pid, lost, uid, account] = from.words()?;
        let (kind, flags, result) = (from.half()?, from.half()?, from.word()?);
        let comm = from.text::<COMM>()?;
        Some(Self { at, start, cgroup, pid, lost, uid, account, kind, flags, result, comm, rest: from })
    }

    fn subject(&self) -> EventSubject {
        EventSubject {
            pid: self.pid,
            start_time: self.start / TICK,
            uid: self.uid,
            account: Some(self.account),
            comm: self.comm.into(),
            cgroup: self.cgroup,
        }
    }

    /// The number in the upper half of its flags.
    fn number(&self) -> usize {
        usize::from(self.flags >> NUMBER_SHIFT)
    }

    /// The variable that it is about, and its value where it was read.
    fn variable(mut self) -> Option<(&'static str, NewValue)> {
        let name = VARIABLES.get(usize::from(self.rest.half()?)).copied()?;
        if self.flags & UNREAD != 0 {
            return Some((name, NewValue::Unread));
        }
        let length = usize::from(self.rest.half()?);
        let bytes = self.rest.0.get(..length)?.to_vec();
        Some((name, NewValue::Value { bytes, cut: self.flags & CUT != 0 }))
    }
}

/// What a record says; `None` for one that is malformed or of a kind that is not known.
pub(super) fn parse(header: Header<'_>) -> Option<Record> {
    match header.kind {
        EXEC => Some(executed(&header)),
        EXEC_VARIABLE => program_variable(header).map(Record::Variable),
        _ => fact(header).map(Record::Fact),
    }
}

fn executed(header: &Header<'_>) -> Record {
    let reported = (header.flags & WHOLE != 0).then(|| header.number());
    let Header { at, result: env_end, lost, .. } = *header;
    Record::Executed { at, subject: header.subject(), env_end, lost, reported }
}

fn program_variable(header: Header<'_>) -> Option<ProgramVariable> {
    let (name, value) = header.variable()?;
    let value = match value {
        NewValue::Value { bytes, cut } => Some((bytes, cut)),
        NewValue::Unset | NewValue::Unread => None,
    };
    let Header { pid, account, lost, .. } = header;
    Some(ProgramVariable { pid, account, lost, number: header.number(), name, value })
}

fn fact(mut header: Header<'_>) -> Option<Fact> {
    let Header { at, flags, result, .. } = header;
    let subject = header.subject();
    let how = match header.kind {
        kind @ 1..=3 => how(kind)?,
        4 => return Some(Fact::Cleared { at, subject }),
        6 => return Some(Fact::Exit { at, subject }),
        FORK => {
            let parent_start = header.rest.long()? / TICK;
            return Some(Fact::Fork { at, subject, parent: result, parent_start });
        }
        MOVED => {
            let from = Some(header.rest.long()?).filter(|from| *from != 0);
            let thread = (result != 0).then_some(result);
            return Some(Fact::Moved { at, subject, from, thread, born: flags & BORN != 0 });
        }
        UNNAMED => return Some(Fact::Unnamed { at, subject, how: how(u16::try_from(result).ok()?)? }),
        8 => return Some(driver(at, subject, Driver::Cuda, result)),
        9 => return Some(driver(at, subject, Driver::Hip, result)),
        10 => return Some(driver(at, subject, Driver::Hsa, result)),
        _ => return None,
    };
    let (name, value) = match how {
        EventCause::Unsetenv => (VARIABLES.get(usize::from(header.rest.half()?)).copied()?, NewValue::Unset),
        _ => header.variable()?,
    };
    Some(Fact::Set { at, subject, how, name, value, keep: flags & KEEP != 0 })
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

fn driver(at: u64, subject: EventSubject, driver: Driver, result: u32) -> Fact {
    Fact::Driver { at, subject, driver, result: result.cast_signed() }
}
