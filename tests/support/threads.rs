//! Threads with fewer rights than the test has.

/// Runs `work` in a thread of uid 65534 without capabilities.
pub fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let run = move || {
        // SAFETY: the raw call changes this thread alone; the libc wrapper
        // would change all.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(result, 0);
        work()
    };
    std::thread::spawn(run).join().unwrap()
}

/// Runs `work` in a thread that lacks one capability.
pub fn without_capability<T: Send + 'static>(
    capability: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    /// `_LINUX_CAPABILITY_VERSION_3`; pid 0 is the calling thread.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    let run = move || {
        // Effective, permitted, inheritable; low words, then high words.
        let mut sets = [0_u32; 6];
        // SAFETY: both arrays have the layout of version 3 and outlive the
        // calls, which concern this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capget, HEADER.as_ptr(), sets.as_mut_ptr()) }, 0);
        let word = 3 * (capability / 32) as usize;
        (word..word + 2).for_each(|at| sets[at] &= !(1 << (capability % 32)));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::syscall(libc::SYS_capset, HEADER.as_ptr(), sets.as_ptr()) }, 0);
        work()
    };
    std::thread::spawn(run).join().unwrap()
}
