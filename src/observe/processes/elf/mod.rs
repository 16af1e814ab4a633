//! Where the environ array is, from an executable or a C library: read from
//! the file, never from memory that a process can write.
//!
//! The file may be anybody's, and its tables as large as they claim: names are
//! looked up by the hash table that the dynamic linker uses, in a few short
//! reads. Only the full symbol table of a static program is read as a whole,
//! piece by piece and up to a limit. No file takes more than a moment.

mod layout;
mod symbols;

use std::fs::File;

use layout::{Header, Source};

/// Bytes that are read of one table: a hostile file may claim any size.
const TABLE_LIMIT: u64 = 64 << 20;

/// The array as the C library itself calls it, and as programs do. Where an
/// executable defines only the second, that is a variable of its own.
const NAMES: [&[u8]; 2] = [b"__environ", b"environ"];

/// What an ELF file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Image {
    /// Bytes of a pointer.
    pub(super) width: usize,
    /// Address of the program headers before relocation.
    pub(super) headers: Option<u64>,
    /// Whether it asks for a dynamic linker.
    pub(super) interpreter: bool,
    /// Offset and address of executable segments.
    pub(super) code: Vec<(u64, u64)>,
    /// Addresses, before relocation, of the names that it exports.
    pub(super) exported: [Option<u64>; NAMES.len()],
    /// The same from its full symbol table, if it has one; looked at in a program
    /// without interpreter alone.
    pub(super) own: Option<[Option<u64>; NAMES.len()]>,
}

/// What a file is to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::observe) enum Role {
    /// What it executes.
    Program,
    /// What it maps: only exported names are of interest.
    Library,
}

/// Reads a file.
///
/// # Errors
///
/// A reason: no ELF file, one that is malformed, one of another byte order,
/// one whose tables are too large, or one that takes too long.
pub(in crate::observe) fn read(file: &File, role: Role) -> Result<Image, String> {
    let source = Source::new(file);
    let header = Header::read(&source)?;
    let segments = header.segments(&source)?;
    let mut image = Image { width: header.width, ..Image::default() };
    for segment in &segments {
        match segment.kind {
            layout::PT_INTERP => image.interpreter = true,
            layout::PT_PHDR => image.headers = Some(segment.address),
            layout::PT_LOAD => {
                if segment.executable {
                    image.code.push((segment.offset, segment.address));
                }
                let inside = header.segments.checked_sub(segment.offset);
                let inside = inside.filter(|inside| *inside < segment.size);
                let address = inside.map(|inside| segment.address.wrapping_add(inside));
                image.headers = image.headers.or(address);
            }
            _ => {}
        }
    }
    image.exported = symbols::exported(&source, &header, &segments)?;
    if role == Role::Program && !image.interpreter {
        image.own = symbols::own(&source, &header)?;
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use super::*;

    fn scratch(bytes: &[u8]) -> File {
        let id = std::thread::current().id();
        let path = std::env::temp_dir().join(format!("gpumap-elf-{}-{id:?}", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn parse(bytes: &[u8]) -> Result<Image, String> {
        read(&scratch(bytes), Role::Program)
    }

    /// Make sure that no file, however broken, does more than fail: this test's
    /// own executable, cut and with bytes of its headers changed.
    #[test]
    fn broken_files() {
        let whole = fs::read("/proc/self/exe").unwrap();
        let image = parse(&whole).unwrap();
        assert!(image.width == size_of::<usize>() && image.interpreter && !image.code.is_empty());
        for length in [0, 1, 3, 16, 40, 63, 64, 100] {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        let start = &whole[..whole.len().min(4096)];
        for at in 0..1000 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = start.to_vec();
                broken[at] = value;
                let _ = parse(&broken);
            }
        }
        let mut foreign = whole[..64].to_vec();
        foreign[5] ^= 3;
        assert!(parse(&foreign).unwrap_err().contains("byte order"));
    }

    /// Make sure that a file that claims enormous tables costs little time, and
    /// is told as what it is.
    #[test]
    fn enormous_tables() {
        let mut header = vec![0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut set = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        set(40, &4096_u64.to_le_bytes());
        set(58, &64_u16.to_le_bytes());
        set(60, &2_u16.to_le_bytes());
        let file = scratch(&header);
        file.set_len(1 << 40).unwrap();
        // A symbol table of half a TiB, with itself for names.
        file.write_all_at(&2_u32.to_le_bytes(), 4096 + 4).unwrap();
        file.write_all_at(&(1_u64 << 39).to_le_bytes(), 4096 + 32).unwrap();
        let begun = Instant::now();
        let why = read(&file, Role::Program).unwrap_err();
        assert!(why.contains("64 MiB"), "{why}");
        assert!(read(&file, Role::Library).is_ok());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
