//! Waiting for what other processes do: until it is so, and not for a time that
//! is too short on a busy machine.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;

/// How long to wait for what takes no time: a minute, see [`within`].
pub fn patience() -> Duration {
    within(60)
}

/// So many seconds, and on an emulated machine as many times that as it is slower than a
/// real one (`GPUMAP_TEST_SLOWER`).
pub fn within(seconds: u64) -> Duration {
    Duration::from_secs(seconds) * slower()
}

/// Whether this machine is emulated, and so slower than a real one.
pub fn is_emulated() -> bool {
    slower() > 1
}

fn slower() -> u32 {
    let factor = std::env::var("GPUMAP_TEST_SLOWER").ok().and_then(|factor| factor.parse().ok());
    factor.unwrap_or(1)
}

/// Waits until it is so, for [`patience`] at most.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + patience();
    while !is_so() {
        assert!(Instant::now() < end, "not within {:?}: {what}", patience());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has started and calls nothing but `sleep`.
pub fn until_it_sleeps(pid: u32) {
    let calls = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].map(|number| number.to_string());
    eventually("the process sleeps", || {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
        calls.iter().any(|number| call.split(' ').next() == Some(number))
    });
}
