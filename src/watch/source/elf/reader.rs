//! Reads a file within a limit.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::Reason;
use crate::sys::window::Windowed;

/// Bytes that are read of one file. The symbol tables of the largest static
/// executables in use (browsers, compilers) have some 50 MiB.
const LIMIT: u64 = 64 << 20;
/// How long that may take. The largest of them takes a tenth of it.
const LONGEST: Duration = Duration::from_secs(1);

/// A file, and how much of it may still be read.
#[derive(Debug)]
pub(super) struct Reader {
    file: Windowed,
    left: u64,
    begun: Instant,
}

impl Reader {
    /// A file of which nothing was read.
    pub(super) fn new(file: Windowed) -> Self {
        Self { file, left: LIMIT, begun: Instant::now() }
    }

    /// Reads `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], Reason> {
        let mut bytes = [0; N];
        self.into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads into the whole buffer.
    pub(super) fn into(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Reason> {
        let left = self.left.checked_sub(buffer.len() as u64);
        self.left = left.ok_or_else(|| "its symbol tables have more than 64 MiB".to_owned())?;
        if self.begun.elapsed() > LONGEST {
            return Err("reading its symbol tables takes more than a second".to_owned());
        }
        self.file.read_exact(offset, buffer).map_err(|errno| match errno {
            Errno::EFAULT => "a malformed ELF file (it ends too early)".to_owned(),
            errno => format!("it cannot be read ({})", errno.desc()),
        })
    }
}
