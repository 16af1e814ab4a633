//! What the running gpumap itself takes.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::unistd::{SysconfVar, sysconf};

use crate::observation::OwnProcess;
use crate::sys::dir::{Dir, open_readable, read_all};

/// Bytes of `statm`.
const LIMIT: usize = 4096;

/// Reads it. What cannot be read is left out: an exporter has no other way to say so.
pub fn own_process() -> OwnProcess {
    let seconds = |time: nix::sys::time::TimeVal| {
        std::time::Duration::from_micros(
            u64::try_from(nix::sys::time::TimeValLike::num_microseconds(&time)).unwrap_or(0),
        )
        .as_secs_f64()
    };
    // Each failure leaves its fact unknown.
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
    // The same.
    let pages = pages().ok();
    // The same.
    let limit = getrlimit(Resource::RLIMIT_NOFILE).ok();
    OwnProcess {
        cpu_seconds: usage.map(|usage| seconds(usage.user_time()) + seconds(usage.system_time())),
        virtual_bytes: pages.map(|(all, _)| all),
        resident_bytes: pages.map(|(_, resident)| resident),
        // The same.
        open_files: open_files().ok(),
        files_limit: limit.map(|(soft, _)| soft),
        begun_at: None,
    }
}

/// Bytes of the address space, and of it in RAM.
fn pages() -> Result<(u64, u64), Errno> {
    let mut text = Vec::new();
    read_all(&open_readable(Path::new("/proc/self/statm"))?, &mut text, LIMIT)?;
    let text = String::from_utf8_lossy(&text);
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    let size =
        sysconf(SysconfVar::PAGE_SIZE)?.and_then(|size| u64::try_from(size).ok()).ok_or(Errno::EINVAL)?;
    let (all, resident): (u64, u64) = numbers.next().zip(numbers.next()).ok_or(Errno::EBADMSG)?;
    Ok((all.saturating_mul(size), resident.saturating_mul(size)))
}

fn open_files() -> Result<u64, Errno> {
    let mut count = 0;
    Dir::open(Path::new("/proc/self"))?.numbers(c"fd", |_, _| {
        count += 1;
        true
    })?;
    Ok(count)
}
