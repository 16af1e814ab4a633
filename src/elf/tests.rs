//! Files of this machine, files that lie, and any bytes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// Reads from bytes as from a file.
fn from(bytes: &[u8]) -> impl FnMut(&mut [u8], u64) -> io::Result<()> {
    move |buffer, offset| {
        let start = usize::try_from(offset).ok();
        let part = start.and_then(|start| bytes.get(start..)?.get(..buffer.len()));
        part.map(|part| buffer.copy_from_slice(part)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn from_file(file: &File) -> impl FnMut(&mut [u8], u64) -> io::Result<()> {
    move |buffer, offset| file.read_exact_at(buffer, offset)
}

/// The C library of this process.
fn c_library() -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    found.into_iter().find(|path| path.contains("/libc.so")).map(str::to_owned)
}

/// Does everything that can be done with a file; what fails, fails.
fn read_all(bytes: &[u8]) {
    let Ok(mut file) = ElfFile::open(from(bytes)) else { return };
    let _said = (file.program_headers(), file.check_native(), file.build_id());
    for kind in [SymbolKind::Function, SymbolKind::Variable] {
        let exported = file.exported(&["setenv", "environ"], kind).unwrap_or_default();
        let own = file.symbols(&["setenv", "environ"], kind).ok().flatten().unwrap_or_default();
        for symbol in exported.into_iter().chain(own).flatten() {
            let _function = file.function(&symbol);
            let _variable = file.variable::<8>(&symbol);
        }
    }
}

/// Make sure that names of the C library are found as the dynamic linker finds
/// them, each as what it is, and others are not.
#[test]
fn c_library_symbols() {
    let Some(library) = c_library() else { return println!("skipped: not linked with glibc") };
    let file = File::open(library).unwrap();
    let mut elf = ElfFile::open(from_file(&file)).unwrap();
    elf.check_native().unwrap();
    let functions = elf.exported(&["setenv", "environ", "no_such_name"], SymbolKind::Function).unwrap();
    let [Some(setenv), None, None] = functions[..] else { panic!("{functions:?}") };
    let variables = elf.exported(&["environ", "__environ", "setenv"], SymbolKind::Variable).unwrap();
    assert!(
        variables[0].is_some() && variables[0] == variables[1] && variables[2].is_none(),
        "{variables:?}"
    );
    let function = elf.function(&setenv).unwrap();
    let mut bytes = vec![0; function.beginning.len()];
    file.read_exact_at(&mut bytes, function.offset).unwrap();
    assert!(bytes == function.beginning && !bytes.is_empty());
    let wrong = Symbol { address: variables[0].unwrap().address, ..setenv };
    assert!(matches!(elf.function(&wrong), Err(ElfError::NotCode)));
}

/// Make sure that the build id is the one that the file's path in the system's
/// folder of debugging files would have: 20 bytes.
#[test]
fn build_ids() {
    let Some(library) = c_library() else { return println!("skipped: not linked with glibc") };
    let file = File::open(library).unwrap();
    let id = ElfFile::open(from_file(&file)).unwrap().build_id().unwrap();
    assert!(id.is_none_or(|id| id.len() == 20));
}

/// Make sure that no file, however broken, does more than fail: this test's own
/// executable, cut and with bytes of its headers changed.
#[test]
fn broken_files() {
    let whole = fs::read("/proc/self/exe").unwrap();
    let elf = ElfFile::open(from(&whole)).unwrap();
    assert!(elf.has_interpreter() && elf.segments().iter().any(|segment| segment.executable));
    for length in [0, 1, 3, 16, 40, 63, 64, 100] {
        assert!(ElfFile::open(from(&whole[..length])).is_err(), "{length}");
    }
    let start = &whole[..whole.len().min(8192)];
    for at in 0..1000 {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = start.to_vec();
            broken[at] = value;
            read_all(&broken);
        }
    }
    let mut foreign = whole[..64].to_vec();
    foreign[5] ^= 3;
    assert!(matches!(ElfFile::open(from(&foreign)), Err(ElfError::ByteOrder)));
}

/// Make sure that a file that claims enormous tables costs little time and no
/// memory, and is told as what it is.
#[test]
fn enormous_tables() {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let mut set = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    set(40, &4096_u64.to_le_bytes());
    set(58, &64_u16.to_le_bytes());
    set(60, &2_u16.to_le_bytes());
    let path = std::env::temp_dir().join(format!("gpumap-elf-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(&header, 0).unwrap();
    // A symbol table of half a TiB, with itself for names.
    file.write_all_at(&2_u32.to_le_bytes(), 4096 + 4).unwrap();
    file.write_all_at(&(1_u64 << 39).to_le_bytes(), 4096 + 32).unwrap();
    file.write_all_at(&24_u64.to_le_bytes(), 4096 + 56).unwrap();
    let begun = Instant::now();
    let mut elf = ElfFile::open(from_file(&file)).unwrap();
    let why = elf.symbols(&["environ"], SymbolKind::Variable).unwrap_err();
    assert!(matches!(why, ElfError::LargeTable), "{why}");
    assert_eq!(elf.exported(&["environ"], SymbolKind::Variable).unwrap(), [None]);
    // Tables that may just be read are nothing but zeros.
    file.write_all_at(&(64_u64 << 20).to_le_bytes(), 4096 + 32).unwrap();
    file.write_all_at(&24_u64.to_le_bytes(), 4096 + 56).unwrap();
    let mut elf = ElfFile::open(from_file(&file)).unwrap();
    let _found = elf.symbols(&["environ"], SymbolKind::Variable);
    assert!(file.metadata().unwrap().blocks() < 100);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// Make sure that a file that never gives its bytes ends as unreadable.
#[test]
fn unreadable_files() {
    let failing = |_: &mut [u8], _| Err(io::ErrorKind::PermissionDenied.into());
    assert!(matches!(ElfFile::open(failing), Err(ElfError::Unreadable(_))));
}

proptest! {
    /// Make sure that any bytes behind a beginning that promises a file are read
    /// without panic: whole headers of random numbers, and small ones that point
    /// back into the file.
    #[test]
    fn any_bytes(
        class in prop_oneof![Just(1_u8), Just(2_u8)],
        bytes in prop::collection::vec(prop_oneof![3 => 0_u8..8, 1 => any::<u8>()], 60..2000),
        (segments, sections) in (0_u16..12, 0_u16..12),
    ) {
        let mut file = [&b"\x7fELF\0\x01\x01"[..], &bytes].concat();
        file[4] = class;
        let [places, sizes] = if class == 2 { [[32, 40], [54, 58]] } else { [[28, 32], [42, 46]] };
        let (headers, entry) = if class == 2 { (64_u64, [56_u16, 64]) } else { (52, [32, 40]) };
        for (place, number) in places.into_iter().zip([headers, headers + 8]) {
            file[place..place + 4].copy_from_slice(&(number as u32).to_le_bytes());
            if class == 2 { file[place + 4..place + 8].fill(0); }
        }
        for (index, count) in [segments, sections].into_iter().enumerate() {
            if sizes[index] + 4 <= file.len() {
                file[sizes[index]..sizes[index] + 2].copy_from_slice(&entry[index].to_le_bytes());
                file[sizes[index] + 2..sizes[index] + 4].copy_from_slice(&count.to_le_bytes());
            }
        }
        read_all(&file);
    }
}
