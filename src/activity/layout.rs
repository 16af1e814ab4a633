//! The entries of the kernel side's tables, as `bpf/activity.h` lays them out.

use super::cookie;
use crate::observation::{ContextSums, CopiedBytes, DURATION_CLASSES, GpuApi, StreamSums};
use crate::sys::clock::monotonic_ns;
use crate::sys::fields::Fields;

/// The bit of a context's handle that says that it is HIP's: the rest is the
/// ordinal of the device and 1, or 0.
pub(super) const HIP_CONTEXT: u64 = 1 << 63;

/// Tables that accounts have room in (`ROOMS`), and some to spare.
pub(super) const ROOMS: usize = 16;
/// The account of all who are not counted by themselves, and what all have together.
pub(super) const OTHERS: u32 = u32::MAX;
pub(super) const EVERYBODY: u32 = u32::MAX - 1;

/// `struct activity_process`. Times but `start` are of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) start: u64,
    pub(super) cgroup: u64,
    pub(super) first: u64,
    pub(super) ended: u64,
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) account: u32,
    pub(super) executed: bool,
    pub(super) link: u32,
    /// Whether it called something before it came into scope.
    pub(super) outside: bool,
    /// A bit for each table that had no room for something of it.
    pub(super) lost: u32,
    pub(super) comm: [u8; 16],
    /// Its entries in each table.
    pub(super) held: [u32; ROOMS],
}

impl Process {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Fields(bytes);
        let [start, cgroup, first, ended] = from.longs()?;
        let (pid, uid, account) = (from.word()?, from.word()?, from.word()?);
        let (executed, link, outside) = (from.word()? != 0, from.word()?, from.word()? != 0);
        let (lost, _forgot) = (from.word()?, from.word()?);
        let (comm, held) = (from.bytes()?, from.words()?);
        Some(Self {
            start,
            cgroup,
            first,
            ended,
            pid,
            uid,
            account,
            executed,
            link,
            outside,
            lost,
            comm,
            held,
        })
    }
}

/// Writes into a `struct activity_process` when it ended, by `CLOCK_MONOTONIC`.
pub(super) fn end(process: &mut [u8], at: u64) {
    if let Some(ended) = process.get_mut(24..32) {
        ended.copy_from_slice(&at.to_ne_bytes());
    }
}

/// `struct thread`, with its number: a call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) tid: u32,
    pub(super) cookie: u64,
    /// When it began, by `CLOCK_MONOTONIC`.
    pub(super) entered: u64,
    pub(super) stream: u64,
    /// The thread's context, as the kernel side keeps it; 0: not known.
    pub(super) context: u64,
}

impl Call {
    /// The process, and the call; `None` of a thread that is in none.
    pub(super) fn read(key: &[u8], value: &[u8]) -> Option<(u64, Self)> {
        let mut from = Fields(value);
        let (process, contexts) = (from.long()?, from.longs::<8>()?);
        let (_account, depth, hip_device, _apart) = (from.word()?, from.word()?, from.word()?, from.word()?);
        let (_every, _countdown, stack) = (from.word()?, from.word()?, from.long()?);
        let [cookie, entered, stream] = from.longs()?;
        let top = usize::try_from(depth).ok()?.checked_sub(1);
        let context = match cookie::is_hip(cookie) {
            true => HIP_CONTEXT | u64::from(hip_device.wrapping_add(1)),
            false => top.and_then(|top| contexts.get(top)).copied().unwrap_or(0),
        };
        let call = Self { tid: Fields(key).word()?, cookie, entered, stream, context };
        (stack != 0).then_some((process, call))
    }

    /// Whether it began so many nanoseconds ago.
    pub(super) fn is_older(&self, than: u64) -> bool {
        monotonic_ns().saturating_sub(self.entered) > than
    }
}

/// Launches in a `struct thread` that are in the sums of no stream yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// How often they were added to a stream's: twice for each time, so that it is odd
    /// meanwhile.
    pub(super) flushes: u64,
    pub(super) context: u64,
    pub(super) launches: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) durations: [u64; DURATION_CLASSES],
}

impl Pending {
    /// The thread, its process, and what it launched; `None` of one that is not followed.
    pub(super) fn read(key: &[u8], value: &[u8]) -> Option<(u32, u64, Self)> {
        let process = Fields(value).long().filter(|process| *process != 0)?;
        let mut from = Fields(value.get(184..)?);
        let [flushes, context, launches, first, last, _tick] = from.longs()?;
        let pending = Self { flushes, context, launches, first, last, durations: from.longs()? };
        Some((Fields(key).word()?, process, pending))
    }
}

/// `struct activity_account`, with its number: the user who answers for processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) number: u32,
    /// What found no room, by table.
    pub(super) lost: [u64; ROOMS],
}

impl Account {
    pub(super) fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        Some(Self { number: Fields(key).word()?, lost: Fields(value).longs()? })
    }
}

/// The interface of a context, and its handle there.
pub(super) fn api_and_handle(context: u64) -> (GpuApi, u64) {
    (api(context & HIP_CONTEXT != 0), context & !HIP_CONTEXT)
}

/// The interface by its number in the tables.
pub(super) fn api(hip: bool) -> GpuApi {
    if hip { GpuApi::Hip } else { GpuApi::Cuda }
}

/// `struct activity_context_key` and `struct activity_context`.
pub(super) fn context(key: &[u8], value: &[u8]) -> Option<ContextSums> {
    let [_process, context] = Fields(key).longs()?;
    let (api, context) = api_and_handle(context);
    let mut from = Fields(value);
    let [allocations, frees, failed, waits, wait_ns] = from.longs()?;
    let [bytes, managed_bytes, host_bytes, physical_bytes, peak_bytes] = from.longs()?;
    let device = from.word()?.checked_sub(1);
    Some(ContextSums {
        api,
        context,
        device,
        allocations,
        frees,
        failed,
        bytes,
        peak_bytes,
        managed_bytes,
        host_bytes,
        physical_bytes,
        waits,
        wait_ns,
    })
}

/// `struct activity_stream_key` and `struct activity_stream`. Its first and last call are of
/// `CLOCK_MONOTONIC`, 0 for none.
pub(super) fn stream(key: &[u8], value: &[u8]) -> Option<StreamSums> {
    let [_process, _context, stream] = Fields(key).longs()?;
    let mut from = Fields(value);
    let [launches, graph_launches, graph_kernels, captured, host_functions, copies] = from.longs()?;
    let [to_device, from_device, on_device, unknown] = from.longs()?;
    let [copy_wait_ns, fills, fill_bytes, waits, wait_ns, queries, errors] = from.longs()?;
    let durations = from.longs()?;
    let [first_ns, last_ns, context] = from.longs()?;
    let (api, context) = api_and_handle(context);
    Some(StreamSums {
        api,
        context,
        stream,
        launches,
        graph_launches,
        graph_kernels,
        captured,
        host_functions,
        copies,
        bytes: CopiedBytes { to_device, from_device, on_device, unknown },
        fills,
        fill_bytes,
        waits,
        wait_ns,
        copy_wait_ns,
        queries,
        errors,
        first_ns,
        last_ns,
        durations,
    })
}

/// `struct activity_error_key` and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub(super) hip: bool,
    pub(super) code: u32,
    pub(super) count: u64,
}

impl Failure {
    pub(super) fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let mut from = Fields(key);
        let (_process, hip, code) = (from.long()?, from.word()? != 0, from.word()?);
        Some(Self { hip, code, count: Fields(value).long()? })
    }
}

/// `struct activity_device_key` and `struct activity_device`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) hip: bool,
    pub(super) ordinal: u32,
    pub(super) uuid: [u8; 16],
    /// 0: not named; 2: perhaps by a MIG instance.
    pub(super) named: u32,
}

impl Device {
    pub(super) fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let mut from = Fields(key);
        let (_process, hip, ordinal) = (from.long()?, from.word()? != 0, from.word()?);
        let mut from = Fields(value);
        let (uuid, _primary, named) = (from.bytes()?, from.long()?, from.word()?);
        Some(Self { hip, ordinal, uuid, named })
    }
}

/// `struct activity_life`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// When the process began, and when this happened: `CLOCK_BOOTTIME`.
    pub(super) start: u64,
    pub(super) at: u64,
    /// Its cgroup2 id.
    pub(super) cgroup: u64,
    pub(super) event: LifeEvent,
    pub(super) pid: u32,
    pub(super) account: u32,
}

/// What happened to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEvent {
    /// It executed a program, perhaps by another thread than its first one.
    Exec {
        by_other_thread: bool,
    },
    Exit,
    /// It made its first call.
    Call,
    /// It began, as a child of this process.
    Fork(u32),
}

impl Life {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Fields(bytes);
        let [start, at, cgroup] = from.longs()?;
        let (kind, pid, parent, account) = (from.word()?, from.word()?, from.word()?, from.word()?);
        let event = match kind {
            1 => LifeEvent::Exec { by_other_thread: parent != pid },
            2 => LifeEvent::Exit,
            3 => LifeEvent::Fork(parent),
            4 => LifeEvent::Call,
            _ => return None,
        };
        Some(Self { start, at, cgroup, event, pid, account })
    }
}

/// What comes before the first zero.
pub(super) fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// The first eight bytes, as a number.
pub(super) fn long(bytes: &[u8]) -> Option<u64> {
    Fields(bytes).long()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the end of a process is written where it is read.
    #[test]
    fn ended() {
        let mut bytes = vec![0; 256];
        end(&mut bytes, 7);
        assert_eq!(Process::read(&bytes).unwrap().ended, 7);
    }

    /// Make sure that entries of the sizes of `bpf/activity.h` are read to their
    /// last field, and shorter ones not.
    #[test]
    fn sizes() {
        let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
        let of_stream = stream(&bytes[..24], &bytes[..304]).unwrap();
        let (api, handle) = api_and_handle(u64::from_ne_bytes(bytes[280..288].try_into().unwrap()));
        assert_eq!((of_stream.api, of_stream.context), (api, handle));
        assert!(stream(&bytes[..24], &bytes[..280]).is_none());
        let context = context(&bytes[..16], &bytes[..120]).unwrap();
        assert_eq!(context.peak_bytes.to_ne_bytes(), bytes[72..80]);
        assert_eq!(
            context.device.map(|device| (device + 1).to_ne_bytes().to_vec()),
            Some(bytes[80..84].to_vec())
        );
        let process = Process::read(&bytes[..144]).unwrap();
        assert_eq!(
            (&process.comm[..], process.held[15].to_ne_bytes()),
            (&bytes[64..80], [140, 141, 142, 143])
        );
        assert!(Process::read(&bytes[..143]).is_none());
        let (_, process, pending) = Pending::read(&bytes[..4], &bytes[..360]).unwrap();
        assert_eq!(
            (process.to_ne_bytes(), pending.durations[15].to_ne_bytes()),
            (bytes[..8].try_into().unwrap(), bytes[352..360].try_into().unwrap())
        );
        assert!(Pending::read(&bytes[..4], &bytes[..359]).is_none());
        let (process, call) = Call::read(&bytes[..4], &bytes[..360]).unwrap();
        assert_eq!(
            (process.to_ne_bytes(), call.entered.to_ne_bytes()),
            (bytes[..8].try_into().unwrap(), [112, 113, 114, 115, 116, 117, 118, 119])
        );
        let account = Account::read(&bytes[..4], &bytes[..192]).unwrap();
        assert_eq!(account.lost[15].to_ne_bytes(), bytes[120..128]);
        assert_eq!(Device::read(&bytes[..16], &bytes[..32]).unwrap().named.to_ne_bytes(), bytes[24..28]);
        assert!(Life::read(&bytes[..40]).is_none(), "no such kind");
    }
}
