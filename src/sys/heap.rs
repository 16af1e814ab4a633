//! Returns freed heap to the system.

/// Returns freed memory to the system. Reading the kernel's types takes tens of MiB
/// for a moment, in pieces so small that the C library would keep them.
///
/// Does nothing if the C library has no such call.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
