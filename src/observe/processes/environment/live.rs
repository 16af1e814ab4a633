//! Reads the current environment: the array that `environ` points to. The process
//! may change it at any time, so everything is read twice and must be the same.

use super::filter::{self, NAME_LIMIT, VALUE_LIMIT, VariableFilter};
use super::location::EnvironLocation;
use crate::observation::{Answer, Environment};
use crate::observe::processes::memory::{Fault, Memory, StringReader, word};

/// Entries that are read, and how often reading is tried.
const ENTRIES: usize = 1 << 20;
const TRIES: usize = 3;
/// Bytes read of the array at first, and at most at a time.
const FIRST: usize = 512;
const CHUNK: usize = 256 << 10;

const CHANGES: &str = "it changes while it is read";
const DISAGREE: &str = "several C libraries are mapped, and their environments differ";

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
            Err(fault) => return Answer::Missing(fault.why().to_owned()),
        }
    }
    Answer::Missing(CHANGES.to_owned())
}

/// Reads it once; `None` if it changed while it was read.
fn attempt(memory: &mut Memory, place: EnvironLocation) -> Result<Option<Environment>, Fault> {
    let start = pointer(memory, place)?;
    let mut environment = Environment::default();
    if start != 0 {
        let array = Array::read(memory, start, place.width)?;
        let (found, kept) = strings(memory, &array)?;
        environment = found;
        let same = array.is_same(memory)? && kept.iter().all(|kept| kept.is_same(memory));
        if !same {
            return Ok(None);
        }
    }
    Ok((pointer(memory, place)? == start).then_some(environment))
}

fn pointer(memory: &mut Memory, place: EnvironLocation) -> Result<u64, Fault> {
    match place.width {
        4 => memory.array::<4>(place.address).map(|bytes| word(&bytes)),
        _ => memory.array::<8>(place.address).map(|bytes| word(&bytes)),
    }
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
        let Some((name, _)) = filter::wanted(start) else {
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
