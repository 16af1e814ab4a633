//! Two functions to be probed: one does nothing but call the other. They are written
//! in assembly, so that both begin as functions of other programs do, however gpumap is
//! compiled: with an instruction that saves what the caller keeps.

/// Calls the inner function once. Where this machine has none, nothing.
pub fn call() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    machine::outer();
}

/// The addresses of the outer and of the inner function; `None` where this machine has
/// none.
pub fn addresses() -> Option<[u64; 2]> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    let addresses =
        Some([machine::outer as *const (), machine::inner as *const ()].map(|it| it.addr() as u64));
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let addresses = None;
    addresses
}

#[cfg(target_arch = "x86_64")]
mod machine {
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

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::arch::naked_asm;

    #[unsafe(naked)]
    pub(super) extern "C" fn outer() {
        // It keeps the stack as the calling convention wants it, the address to return to,
        // and all registers that the caller keeps.
        naked_asm!(
            "stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "bl {inner}",
            "ldp x29, x30, [sp], #16",
            "ret",
            inner = sym inner
        )
    }

    #[unsafe(naked)]
    pub(super) extern "C" fn inner() {
        // As above.
        naked_asm!("stp x29, x30, [sp, #-16]!", "ldp x29, x30, [sp], #16", "ret")
    }
}
