//! Two functions to be probed: one does nothing but call the other. They are written
//! in assembly, so that both begin with an instruction that the kernel emulates where a
//! probe is put, as functions of other programs do, however gpumap is compiled.

/// Calls the inner function once. Where this machine has none, nothing.
pub fn call() {
    #[cfg(target_arch = "x86_64")]
    x86_64::outer();
}

/// The addresses of the outer and of the inner function; `None` where this machine has
/// none.
pub fn addresses() -> Option<[u64; 2]> {
    #[cfg(target_arch = "x86_64")]
    let addresses = Some([x86_64::outer as *const (), x86_64::inner as *const ()].map(|it| it.addr() as u64));
    #[cfg(not(target_arch = "x86_64"))]
    let addresses = None;
    addresses
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::naked_asm;

    #[unsafe(naked)]
    pub(super) extern "C" fn outer() {
        // It keeps the stack as the calling convention wants it, and no register that
        // the caller keeps is changed.
        naked_asm!("push rbp", "mov rbp, rsp", "call {inner}", "pop rbp", "ret", inner = sym inner)
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn inner() {
        // As above.
        naked_asm!("push rbp", "pop rbp", "ret")
    }
}
