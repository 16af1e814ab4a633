//! Calls of libbpf that libbpf-rs 0.27 does not offer.

use libbpf_rs::libbpf_sys::{BPF_TRACE_UPROBE_SESSION, bpf_program__set_expected_attach_type};
use libbpf_rs::{AsRawLibbpf as _, OpenProgramMut};

/// Says that a program is one for sessions, before it is loaded. Since Linux
/// 6.13.
///
/// # Errors
///
/// That of libbpf: a program that is loaded already.
pub fn expect_session(program: &mut OpenProgramMut<'_>) -> std::io::Result<()> {
    // SAFETY: the program is borrowed exclusively, and so is alive.
    let result = unsafe {
        bpf_program__set_expected_attach_type(program.as_libbpf_object().as_ptr(), BPF_TRACE_UPROBE_SESSION)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(-result)) }
}
