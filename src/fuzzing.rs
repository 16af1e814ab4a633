//! Readers of bytes that only gpumap's own rooms call, for the fuzz targets;
//! built with `--cfg fuzzing` alone.

use std::fs::File;

pub use crate::observe::fuzzing::{elf, environment, kernel_texts};
pub use crate::watch::fuzzing::{ring_record, symbols};

/// A nameless file with these bytes (memfd_create(2)).
///
/// # Panics
///
/// If there is no memory for it.
#[expect(clippy::expect_used, reason = "a fuzz target has nothing else to do")]
pub fn file(bytes: &[u8]) -> File {
    use std::io::Write as _;
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let mut file = File::from(nix::sys::memfd::memfd_create(c"fuzz", flags).expect("a memfd"));
    file.write_all(bytes).expect("memory");
    file
}
