//! Where the environ array is, from an executable or a C library: read from
//! the file, never from memory that a process can write.

use std::fs::File;
use std::ops::Range;

use object::elf::{FileHeader32, FileHeader64, PF_X, PT_INTERP, PT_LOAD, PT_PHDR, SHT_DYNSYM, SHT_SYMTAB};
use object::elf::{SHN_UNDEF, STT_NOTYPE, STT_OBJECT};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, ReadCache, ReadRef};

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
    /// The same from its full symbol table, if it has one; not looked at where
    /// there is an interpreter.
    pub(super) own: Option<[Option<u64>; NAMES.len()]>,
}

/// Reads a file.
///
/// # Errors
///
/// A reason: no ELF file, one that is malformed, or for a machine of another
/// byte order.
pub(in crate::observe) fn read(file: File) -> Result<Image, String> {
    let cache = ReadCache::new(file);
    let data = Bounded(&cache);
    let image = match FileKind::parse(data) {
        Ok(FileKind::Elf64) => image::<FileHeader64<Endianness>>(data),
        Ok(FileKind::Elf32) => image::<FileHeader32<Endianness>>(data),
        _ => return Err("no ELF file".to_owned()),
    };
    image
        .map_err(|error| format!("a malformed ELF file ({error})"))?
        .ok_or_else(|| "an ELF file of another byte order".to_owned())
}

/// A file of which no table over the limit is read.
#[derive(Clone, Copy)]
pub(crate) struct Bounded<'a>(pub(crate) &'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > TABLE_LIMIT { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// `None` for another byte order than this machine's.
fn image<Elf: FileHeader<Endian = Endianness>>(data: Bounded<'_>) -> object::read::Result<Option<Image>> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    if endian != Endianness::default() {
        return Ok(None);
    }
    let mut image = Image { width: if header.is_type_64() { 8 } else { 4 }, ..Image::default() };
    segments(&mut image, header, endian, data)?;
    image.exported = symbols(header, endian, data, SHT_DYNSYM)?.unwrap_or_default();
    if !image.interpreter {
        image.own = symbols(header, endian, data, SHT_SYMTAB)?;
    }
    Ok(Some(image))
}

fn segments<Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image,
    header: &Elf,
    endian: Endianness,
    data: Bounded<'_>,
) -> object::read::Result<()> {
    let table: u64 = header.e_phoff(endian).into();
    for segment in header.program_headers(endian, data)? {
        let (offset, size) = segment.file_range(endian);
        let address: u64 = segment.p_vaddr(endian).into();
        match segment.p_type(endian) {
            PT_INTERP => image.interpreter = true,
            PT_PHDR => image.headers = Some(address),
            PT_LOAD => {
                if segment.p_flags(endian).contains(PF_X) {
                    image.code.push((offset, address));
                }
                let inside = table.checked_sub(offset).filter(|distance| *distance < size);
                image.headers = image.headers.or(inside.map(|distance| address.wrapping_add(distance)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names in the first table of this type; `None` if there is none.
fn symbols<Elf: FileHeader<Endian = Endianness>>(
    header: &Elf,
    endian: Endianness,
    data: Bounded<'_>,
    kind: object::elf::SectionType,
) -> object::read::Result<Option<[Option<u64>; NAMES.len()]>> {
    let sections = header.section_headers(endian, data)?;
    let Some(table) = sections.iter().find(|section| section.sh_type(endian) == kind) else {
        return Ok(None);
    };
    let strings = usize::try_from(table.sh_link(endian)).ok().and_then(|link| sections.get(link));
    let strings = strings.map_or(Ok(&[][..]), |section| section.data(endian, data))?;
    let mut found = [None; NAMES.len()];
    for symbol in table.data_as_array::<Elf::Sym, _>(endian, data)? {
        let defined = symbol.st_shndx(endian) != SHN_UNDEF && is_data(symbol);
        let name = strings.get(symbol.st_name(endian) as usize..).unwrap_or_default();
        let index = NAMES.iter().position(|known| is(name, known));
        if let Some(place) = index.filter(|_| defined).and_then(|index| found.get_mut(index)) {
            *place = Some(symbol.st_value(endian).into());
        }
    }
    Ok(Some(found))
}

fn is_data<S: Sym>(symbol: &S) -> bool {
    matches!(symbol.st_type(), STT_OBJECT | STT_NOTYPE)
}

/// Whether terminated text is this name.
fn is(text: &[u8], name: &[u8]) -> bool {
    text.get(..=name.len()).and_then(|text| text.strip_suffix(b"\0")) == Some(name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Image, String> {
        let path = std::env::temp_dir().join(format!("gpumap-elf-{}", std::process::id()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file.write_all(bytes).unwrap();
        read(file)
    }

    /// Make sure that no file, however broken, does more than fail: this test's
    /// own executable, cut and with bytes of its headers changed.
    #[test]
    fn broken_files() {
        let whole = fs::read("/proc/self/exe").unwrap();
        let image = parse(&whole).unwrap();
        assert!(image.width == size_of::<usize>() && image.interpreter && !image.code.is_empty());
        for length in [0, 1, 3, 16, 40, 63, 64, 100, 1000] {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        let start = &whole[..whole.len().min(4096)];
        for at in 0..400 {
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

    /// Make sure that no table is read that claims to be enormous.
    #[test]
    fn enormous_tables() {
        let path = std::env::temp_dir().join(format!("gpumap-elf-sparse-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(path).unwrap();
        file.set_len(1 << 40).unwrap();
        let cache = ReadCache::new(file);
        assert_eq!(Bounded(&cache).read_bytes_at(0, TABLE_LIMIT + 1), Err(()));
        assert!(Bounded(&cache).read_bytes_at(0, 64).is_ok());
    }
}
