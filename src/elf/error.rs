//! Why a file cannot be used.

use std::io;

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
