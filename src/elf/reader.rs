//! Reads parts of a file within limits, and says why a file cannot be read.

use std::io;
use std::time::{Duration, Instant};

use object::pod::{self, Pod};

/// Bytes that are read of one file: two tables of the largest size.
const BYTES: u64 = 128 << 20;
/// How long that may take. The symbol tables of the largest static executables
/// in use (browsers, compilers; some 50 MiB) take a tenth of it.
const TIME: Duration = Duration::from_secs(1);
/// Words of 8 bytes in the largest structure that is read, `Elf64_Ehdr`.
const WORDS: usize = 8;

/// A file, and how much may still be read of it.
pub(super) struct ElfReader<R> {
    read: R,
    left: u64,
    begun: Instant,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> ElfReader<R> {
    /// A file of which nothing was read.
    pub(super) fn new(read: R) -> Self {
        Self { read, left: BYTES, begun: Instant::now() }
    }

    /// Fills `buffer` with what begins at `offset`.
    pub(super) fn fill(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), ElfError> {
        self.left = self.left.checked_sub(buffer.len() as u64).ok_or(ElfError::TooMuch)?;
        if self.begun.elapsed() > TIME {
            return Err(ElfError::TooSlow);
        }
        (self.read)(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ElfError::Malformed("it ends too early"),
            _ => ElfError::Unreadable(error),
        })
    }

    /// The structure at `offset`: one of those of `linux/elf.h`, none of which has
    /// more than 64 bytes.
    pub(super) fn structure<T: Pod>(&mut self, offset: u64) -> Result<T, ElfError> {
        let mut words = [0_u64; WORDS];
        let bytes = pod::bytes_of_slice_mut(&mut words).get_mut(..size_of::<T>());
        self.fill(bytes.ok_or(ElfError::TooMuch)?, offset)?;
        let (value, _) = pod::from_bytes::<T>(pod::bytes_of_slice(&words)).map_err(|()| ElfError::TooMuch)?;
        Ok(*value)
    }

    /// The 4 bytes at `offset` as a number.
    pub(super) fn number(&mut self, offset: u64) -> Result<u32, ElfError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes, offset).map(|()| u32::from_ne_bytes(bytes))
    }
}

/// Why an ELF file cannot be used: a phrase that says what the file is.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It does not begin as an ELF file does.
    #[error("no ELF file")]
    NotElf,
    /// It is for machines of another byte order.
    #[error("an ELF file of another byte order")]
    ByteOrder,
    /// It is for another processor, or has 32 bits.
    #[error("an ELF file for another architecture")]
    Architecture,
    /// It is neither an executable nor a library.
    #[error("an ELF file that is neither an executable nor a library")]
    NotLoadable,
    /// It contradicts itself, here.
    #[error("a malformed ELF file ({0})")]
    Malformed(&'static str),
    /// Its symbol table, or the table of its names, has more than 64 MiB.
    #[error("an ELF file with a symbol table of more than 64 MiB")]
    LargeTable,
    /// More than 128 MiB would have to be read.
    #[error("an ELF file of which more than 128 MiB would have to be read")]
    TooMuch,
    /// Reading it takes more than a second.
    #[error("an ELF file that takes more than a second to read")]
    TooSlow,
    /// The function is outside of executable code.
    #[error("an ELF file in which a function is not in executable code")]
    NotCode,
    /// Where the function is, there are no instructions.
    #[error("an ELF file in which a function does not begin with instructions")]
    NotInstructions,
    /// The system does not let it be read.
    #[error("an ELF file that cannot be read ({0})")]
    Unreadable(io::Error),
}
