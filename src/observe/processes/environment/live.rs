//! Reads the current environment: the array that `environ` points to. The process
//! may change it at any time, so everything is read twice and must be the same.
//!
//! Where the array may be is found by the symbol lookup of the dynamic linker, done from
//! outside. The executable comes first, as a copy relocation puts the variable there, then
//! the C library. Where `environ` is null, the name of the program tells a library that is
//! not set up yet from an environment that was cleared.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::at_exec::{self, NAME_LIMIT, VALUE_LIMIT, VariableFilter};
use crate::observation::{Answer, Environment};
use crate::observe::processes::mapped_files::{ENVIRON, Image, MappedFiles, Mapping, PROGRAM, mappings};
use crate::observe::processes::memory::{Fault, Memory, StringReader, word};
use crate::sys::dir::Dir;
use crate::sys::regular_file::NotOpened;

/// Entries that are read, and how often reading is tried.
const ENTRIES: usize = 1 << 20;

const TRIES: usize = 3;

/// Bytes read of the array at first, and at most at a time.
const FIRST: usize = 512;

const CHUNK: usize = 256 << 10;

const CHANGES: &str = "it changes while it is read";

const DISAGREE: &str = "several C libraries are mapped, and their environments differ";

const EARLY: &str = "its C library has not set it up yet, or does not tell whether it was cleared";

/// Reads the environment at `places`, which must agree.
pub(in crate::observe::processes) fn read(
    memory: &mut Memory,
    places: &[EnvironLocation],
) -> Answer<Environment> {
    let mut answers = places.iter().map(|place| settled(memory, *place));
    let Some(first) = answers.next() else { return Answer::Missing(DISAGREE.to_owned()) };
    if answers.all(|other| other == first) { first } else { Answer::Missing(DISAGREE.to_owned()) }
}

fn settled(memory: &mut Memory, place: EnvironLocation) -> Answer<Environment> {
    for _ in 0..TRIES {
        match attempt(memory, place) {
            Ok(Some(environment)) => return Answer::Known(environment),
            Ok(None) => {}
            Err(NotThere::Early) => return Answer::Missing(EARLY.to_owned()),
            Err(NotThere::Fault(fault)) => return Answer::Missing(fault.why().to_owned()),
        }
    }
    Answer::Missing(CHANGES.to_owned())
}

/// Why there is no environment to read.
enum NotThere {
    Fault(Fault),
    /// There is no array, and it is not known whether there was one before.
    Early,
}

impl From<Fault> for NotThere {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads it once; `None` if it changed while it was read.
fn attempt(memory: &mut Memory, place: EnvironLocation) -> Result<Option<Environment>, NotThere> {
    let start = pointer(memory, place, place.address)?;
    let mut environment = Environment::default();
    if start == 0 && !is_set_up(memory, place) {
        return Err(NotThere::Early);
    }
    if start != 0 {
        let array = Array::read(memory, start, place.width)?;
        let (found, kept) = strings(memory, &array)?;
        environment = found;
        let same = array.is_same(memory)? && kept.iter().all(|kept| kept.is_same(memory));
        if !same {
            return Ok(None);
        }
    }
    Ok((pointer(memory, place, place.address)? == start).then_some(environment))
}

fn pointer(memory: &mut Memory, place: EnvironLocation, address: u64) -> Result<u64, Fault> {
    match place.width {
        4 => memory.array::<4>(address).map(|bytes| word(&bytes)),
        _ => memory.array::<8>(address).map(|bytes| word(&bytes)),
    }
}

/// Whether the C library was set up: without an array, `clearenv` took it then. The name of
/// the program, which follows the array, is no pointer or an empty text before that.
fn is_set_up(memory: &mut Memory, place: EnvironLocation) -> bool {
    let Some(name) = place.program else { return false };
    let first = pointer(memory, place, name).and_then(|name| memory.array::<1>(name));
    // What cannot be read is not known to be set up.
    first.is_ok_and(|[first]| first != 0)
}

/// The array of pointers with its end.
struct Array {
    start: u64,
    width: usize,
    bytes: Vec<u8>,
    cut: Option<&'static str>,
}

impl Array {
    fn read(memory: &mut Memory, start: u64, width: usize) -> Result<Self, Fault> {
        let mut array = Self { start, width, bytes: Vec::new(), cut: None };
        let (mut chunk, mut size) = (Vec::new(), FIRST);
        while array.cut.is_none() {
            let next = start.wrapping_add(array.bytes.len() as u64);
            match memory.fill(next, size, &mut chunk) {
                Ok(()) => {}
                Err(Fault::Absent) if array.bytes.is_empty() => return Err(Fault::Absent),
                Err(Fault::Gone) => return Err(Fault::Gone),
                Err(fault) => array.cut = Some(fault.why()),
            }
            let whole = chunk.len() / width * width;
            if let Some(end) = chunk.chunks_exact(width).position(|one| word(one) == 0) {
                array.bytes.extend_from_slice(&chunk[..(end + 1) * width]);
                break;
            }
            array.bytes.extend_from_slice(&chunk[..whole]);
            if array.bytes.len() >= ENTRIES * width {
                array.cut = Some("it has more than 1048576 entries");
            } else if whole == 0 && array.cut.is_none() {
                array.cut = Some("its end cannot be read");
            }
            size = (size * 4).min(CHUNK);
        }
        Ok(array)
    }

    fn pointers(&self) -> impl Iterator<Item = u64> {
        self.bytes.chunks_exact(self.width).map(word).take_while(|pointer| *pointer != 0)
    }

    fn is_same(&self, memory: &mut Memory) -> Result<bool, Fault> {
        let mut again = Vec::new();
        for (index, chunk) in self.bytes.chunks(CHUNK).enumerate() {
            memory.fill(self.start.wrapping_add((index * CHUNK) as u64), chunk.len(), &mut again)?;
            if again != chunk {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A string that was kept, as it was read.
struct Kept {
    address: u64,
    bytes: Vec<u8>,
}

impl Kept {
    fn is_same(&self, memory: &mut Memory) -> bool {
        let mut again = Vec::new();
        // What cannot be read again is not the same: it is read anew, or told to be changing.
        memory.fill(self.address, self.bytes.len(), &mut again).is_ok() && again == self.bytes
    }
}

/// Reads the strings. Returns the variables that are kept, and the bytes that they
/// were read from.
fn strings(memory: &mut Memory, array: &Array) -> Result<(Environment, Vec<Kept>), Fault> {
    let (mut reader, mut filter) = (StringReader::default(), VariableFilter::default());
    let (mut kept, mut cut) = (Vec::new(), array.cut.map(str::to_owned));
    for address in array.pointers() {
        let start = match reader.text(memory, address, NAME_LIMIT) {
            Ok(start) => start,
            Err(Fault::Gone) => return Err(Fault::Gone),
            Err(fault) => {
                cut = Some(format!("an entry was not read: {}", fault.why()));
                if fault == Fault::Spent {
                    break;
                }
                continue;
            }
        };
        let Some((name, _)) = at_exec::wanted(start) else {
            let is_whole = start.len() >= NAME_LIMIT || start.iter().any(|byte| matches!(byte, b'=' | 0));
            if !is_whole {
                cut = Some("the end of a name cannot be read".to_owned());
            }
            continue;
        };
        if filter.is_full(name) {
            continue;
        }
        // One byte more than is kept shows whether there is more, and another
        // is the terminator.
        let Ok(entry) = reader.text(memory, address, name.len() + VALUE_LIMIT + 2) else {
            cut = Some(format!("{name} cannot be read"));
            continue;
        };
        if !entry.ends_with(b"\0") && entry.len() < name.len() + VALUE_LIMIT + 2 {
            cut = Some(format!("the end of {name} cannot be read"));
            continue;
        }
        if filter.add(entry.strip_suffix(b"\0").unwrap_or(entry)) {
            kept.push(Kept { address, bytes: entry.to_vec() });
        }
    }
    let mut environment = filter.end();
    environment.cut = cut.or(environment.cut);
    Ok((environment, kept))
}

/// `AT_PHDR` of `linux/auxvec.h`.
const AT_PHDR: u64 = 3;

/// The largest distance of a segment's start from the start of its mapping: the
/// largest page of the supported architectures.
const LARGEST_PAGE: u64 = 64 << 10;

/// Files that are looked into for one process: a program has one C library, and
/// two or three where a container's tools are at work.
const FILES: usize = 256;

/// The longest time that the files of one process may take.
const TIME: Duration = Duration::from_secs(2);

const STRIPPED: &str = "static executable without symbols: the environ array cannot be found";

const NO_NAME: &str = "static executable without an environ array (Go without cgo keeps its own table)";

const TOO_MANY: &str = "more than 256 files are mapped that may have the environ array";

const TOO_LONG: &str = "the files that it maps take too long to look into";

const NO_LIBRARY: &str = "no C library is mapped, and the executable has no environ array";

/// The address of a variable, and the size of a pointer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe::processes) struct EnvironLocation {
    pub(in crate::observe::processes) address: u64,
    pub(in crate::observe::processes) width: usize,
    /// The address of the pointer to the program's name, in the same library or the
    /// executable.
    pub(in crate::observe::processes) program: Option<u64>,
}

/// Why the array was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::observe::processes) enum NoEnviron {
    Errno(Errno),
    Reason(String),
}

impl From<Errno> for NoEnviron {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<NotOpened> for NoEnviron {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::Call(errno) => Self::Errno(errno),
            why => Self::Reason(format!("a file that it maps cannot be read: {why}")),
        }
    }
}

/// The places where `environ` can be; more than one only if several C
/// libraries are mapped.
pub(in crate::observe::processes) fn find(
    dir: &Dir,
    maps: &[u8],
    auxv: &[u8],
    files: &mut MappedFiles,
) -> Result<Vec<EnvironLocation>, NoEnviron> {
    let executable = files.executable(dir)?;
    let executable =
        executable.as_ref().as_ref().map_err(|why| NoEnviron::Reason(format!("its executable is {why}")))?;
    let bias = load_bias(executable, auxv);
    let mapped: Vec<Mapping<'_>> = mappings(maps).filter(|mapping| mapping.executable).collect();
    let libraries: Vec<&Mapping<'_>> = mapped.iter().filter(|mapping| is_c_library(mapping.name())).collect();
    if !executable.interpreter && (libraries.is_empty() || !is_loader(dir)?) {
        return fixed(executable, bias);
    }
    let mut objects = Vec::new();
    if executable.interpreter {
        objects.extend(bias.map(|bias| (executable.clone(), bias)));
    } else {
        // The dynamic linker was started by hand: the program is one of the
        // mapped files.
        let others = mapped.iter().filter(|mapping| !is_c_library(mapping.name()));
        load(dir, others, files, &mut objects)?;
    }
    let mut library = Vec::new();
    let loaded = load(dir, libraries.into_iter(), files, &mut library);
    let own = named(&objects, ENVIRON[0]).into_iter().next();
    // Where the executable has the array, libraries tell no more than whether it is set up.
    if own.is_none() {
        loaded?;
    }
    let found = [own.into_iter().collect(), named(&library, ENVIRON[0]), named(&objects, ENVIRON[1])];
    let found = found.into_iter().find(|places: &Vec<EnvironLocation>| !places.is_empty());
    let mut places = found.unwrap_or_else(|| named(&library, ENVIRON[1]));
    if places.is_empty() {
        return Err(NoEnviron::Reason(NO_LIBRARY.to_owned()));
    }
    // As with the array: the executable's is that of all libraries.
    let copy = named(&objects, PROGRAM).first().map(|copy| copy.address);
    let first = named(&library, PROGRAM).first().map(|first| first.address);
    for place in &mut places {
        place.program = copy.or(place.program).or(first);
    }
    Ok(places)
}

/// The array of a static executable.
fn fixed(executable: &Image, bias: Option<u64>) -> Result<Vec<EnvironLocation>, NoEnviron> {
    let own = executable.own.as_ref().ok_or_else(|| NoEnviron::Reason(STRIPPED.to_owned()))?;
    let value = |symbols: &[Option<u64>], name: usize| symbols.get(name).copied().flatten();
    let either = |name| value(own, name).or_else(|| value(&executable.exported, name));
    let environ =
        ENVIRON.into_iter().find_map(either).ok_or_else(|| NoEnviron::Reason(NO_NAME.to_owned()))?;
    let bias = bias.ok_or_else(|| NoEnviron::Reason("its load address is unknown".to_owned()))?;
    let program = either(PROGRAM).map(|program| program.wrapping_add(bias));
    Ok(vec![EnvironLocation { address: environ.wrapping_add(bias), width: executable.width, program }])
}

/// The ELF files of these mappings, each with every address it is loaded at. A file
/// that is only mapped as data matches no segment.
fn load<'a>(
    dir: &Dir,
    mapped: impl Iterator<Item = &'a Mapping<'a>>,
    files: &mut MappedFiles,
    objects: &mut Vec<(Image, u64)>,
) -> Result<(), NoEnviron> {
    let (mut seen, begun) = (Vec::new(), Instant::now());
    for mapping in mapped {
        // A file that is mapped at another place may be loaded twice.
        if !seen.contains(&mapping.file()) {
            seen.push(mapping.file());
        }
        if seen.len() > FILES {
            return Err(NoEnviron::Reason(TOO_MANY.to_owned()));
        }
        if begun.elapsed() > TIME {
            return Err(NoEnviron::Reason(TOO_LONG.to_owned()));
        }
        let image = files.mapped(dir, mapping)?;
        // What is no ELF image has no variables.
        let Ok(image) = image.as_ref() else { continue };
        let start = |(offset, address): &(u64, u64)| {
            let inside = offset.checked_sub(mapping.offset).filter(|inside| *inside < LARGEST_PAGE)?;
            Some(mapping.start.wrapping_add(inside).wrapping_sub(*address))
        };
        objects.extend(image.code.iter().find_map(start).map(|bias| (image.clone(), bias)));
    }
    Ok(())
}

fn named(objects: &[(Image, u64)], index: usize) -> Vec<EnvironLocation> {
    let place = |(image, bias): &(Image, u64)| {
        let value = |name: usize| image.exported.get(name).copied().flatten();
        let address = value(index)?.wrapping_add(*bias);
        let program = value(PROGRAM).map(|program| program.wrapping_add(*bias));
        Some(EnvironLocation { address, width: image.width, program })
    };
    objects.iter().filter_map(place).collect()
}

/// The offset of the executable's addresses: the kernel says where its program
/// headers are.
fn load_bias(executable: &Image, auxv: &[u8]) -> Option<u64> {
    let mut words = auxv.chunks_exact(executable.width.max(1)).map(word);
    loop {
        match (words.next()?, words.next()?) {
            (AT_PHDR, address) => return Some(address.wrapping_sub(executable.headers?)),
            (0, _) => return None,
            _ => {}
        }
    }
}

/// Whether the executable is a dynamic linker, by name.
fn is_loader(dir: &Dir) -> Result<bool, Errno> {
    let path = dir.link(c"exe")?;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_named = [&b"ld-"[..], b"ld.", b"ld64."].iter().any(|begin| name.starts_with(begin));
    Ok(is_named || is_c_library(name))
}

/// glibc, musl under its three names, and others that call themselves libc.
pub(crate) fn is_c_library(name: &[u8]) -> bool {
    let versioned = name.starts_with(b"libc-2.") && name.ends_with(b".so");
    let musl = name.starts_with(b"ld-musl-") || name.starts_with(b"libc.musl-");
    versioned || musl || name == b"libc.so" || name.starts_with(b"libc.so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that C libraries are known by name, and their neighbours not.
    #[test]
    fn libraries() {
        for name in ["libc.so.6", "libc-2.31.so", "libc.so", "ld-musl-x86_64.so.1", "libc.musl-x86_64.so.1"] {
            assert!(is_c_library(name.as_bytes()), "{name}");
        }
        for name in ["libcrypt.so.1", "libc++.so.1", "libcap.so.2", "ld-linux-x86-64.so.2", "libc", ""] {
            assert!(!is_c_library(name.as_bytes()), "{name}");
        }
    }

    /// Make sure that the load address comes out of both widths of auxv.
    #[test]
    fn biases() {
        let image = |width| Image { width, headers: Some(0x40), ..Image::default() };
        let long: Vec<u8> =
            [6u64, 4096, 3, 0x5040, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let short: Vec<u8> = [6u32, 4096, 3, 0x40].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(load_bias(&image(8), &long), Some(0x5000));
        assert_eq!(load_bias(&image(4), &short), Some(0));
        assert_eq!(load_bias(&image(8), &long[..16]), None);
    }
}
