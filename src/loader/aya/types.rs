//! The kernel's types, reduced to those that `bpf/` speaks of.
//!
//! A kernel describes more than a hundred thousand types. aya takes some 35 ms to
//! read them, and goes through all of them for each type that it looks for. So it is
//! kept from reading them, and given a description in which every type that does not
//! matter is an empty declaration, and those behind the last one that matters are left
//! out. Types keep their numbers, which the kernel is given. What matters:
//! each type that has the name of one in `bpf/`, and what lies inside of it. aya
//! looks behind no pointer for that.
//!
//! Format: Documentation/bpf/btf.rst, `linux/btf.h`.

use std::collections::HashSet;
use std::fs;

use aya::{Btf, Endianness};
use object::Endianness as FileEndianness;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectSection as _};

use crate::loader::interface::{self, Object};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
/// `BTF_MAGIC`, and bytes of the header that are read.
const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Bytes of `struct btf_type`: name, kind with the number of parts, size or type.
const TYPE: usize = 12;
/// Bytes of a member of a structure, and of `struct btf_array`.
const MEMBER: usize = 12;

const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;

/// Functions whose numbers iterators are loaded with.
const ITERATORS: &[u8] = b"bpf_iter_";

/// The kernel's types that all objects of `bpf/` need. `None` where the kernel
/// describes none, or has a kind of type that is not known here.
pub(super) fn needed() -> Option<Btf> {
    let names = names(&interface::ALL)?;
    let reduced = reduced(&fs::read(KERNEL).ok()?, &names, &functions())?;
    Btf::parse(&reduced, Endianness::default()).ok()
}

/// The kernel's functions whose numbers other programs are loaded with.
fn functions() -> Vec<&'static [u8]> {
    let functions = interface::ALL.iter().flat_map(|object| object.functions);
    functions.map(|(_, function)| function.as_bytes()).collect()
}

/// The names of all types in these objects.
fn names(objects: &[&Object]) -> Option<HashSet<Vec<u8>>> {
    let mut names = HashSet::new();
    for object in objects {
        let file = ElfFile64::<FileEndianness>::parse(object.code).ok()?;
        let data = file.section_by_name(".BTF")?.data().ok()?;
        let types = Types::parse(data)?;
        let named = types.records.iter().filter_map(|record| types.name(record));
        names.extend(named.filter(|name| !name.is_empty()).map(<[u8]>::to_vec));
    }
    Some(names)
}

/// A description in which only types of these names, and what lies inside of them,
/// are more than a declaration.
fn reduced(data: &[u8], names: &HashSet<Vec<u8>>, functions: &[&[u8]]) -> Option<Vec<u8>> {
    let types = Types::parse(data)?;
    let beginnings = Beginnings::of(names, functions);
    let is_wanted = |record: &&Record<'_>| {
        let name = types.text(record.name()).filter(|name| beginnings.may_have(name));
        name.is_some_and(|name| match record.kind() {
            FUNC => name.starts_with(ITERATORS) || functions.contains(&cut(name)),
            VAR | DATASEC => false,
            _ => names.contains(flavorless(cut(name))),
        })
    };
    let numbered = (1_u32..).zip(&types.records);
    let mut next: Vec<u32> =
        numbered.filter(|(_, record)| is_wanted(record)).map(|(number, _)| number).collect();
    let mut kept = vec![false; types.records.len()];
    while let Some(number) = next.pop() {
        let Some(index) = usize::try_from(number).ok()?.checked_sub(1) else { continue };
        if !std::mem::replace(kept.get_mut(index)?, true) {
            next.extend(types.records.get(index)?.inside());
        }
    }
    types.with(&kept)
}

/// The parts of a description.
struct Types<'a> {
    header: &'a [u8],
    /// The first has the number 1.
    records: Vec<Record<'a>>,
    strings: &'a [u8],
}

/// One type with all that belongs to it.
#[derive(Clone, Copy)]
struct Record<'a>(&'a [u8]);

impl<'a> Types<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let header = data.get(..HEADER)?;
        if header.first_chunk().map(|magic| u16::from_ne_bytes(*magic)) != Some(MAGIC) {
            return None;
        }
        let body = data.get(size(word(header, 4)?)..)?;
        let part = |place: usize| {
            let (start, length) = (size(word(header, place)?), size(word(header, place + 4)?));
            body.get(start..)?.get(..length)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut records = Vec::with_capacity(rest.len() / (2 * TYPE));
        while !rest.is_empty() {
            let length = Record(rest).length()?;
            records.push(Record(rest.get(..length)?));
            rest = rest.get(length..)?;
        }
        Some(Self { header, records, strings })
    }

    /// The strings from a place on: a name and what comes behind it.
    fn text(&self, place: u32) -> Option<&'a [u8]> {
        self.strings.get(size(place)..)
    }

    /// The name of a type that programs can name.
    fn name(&self, record: &Record<'_>) -> Option<&'a [u8]> {
        let is_type = !matches!(record.kind(), FUNC | VAR | DATASEC);
        self.text(record.name()).filter(|_| is_type).map(cut).map(flavorless)
    }

    /// The description up to the last of these records; the others are empty declarations.
    fn with(&self, kept: &[bool]) -> Option<Vec<u8>> {
        let declaration = [0, FWD << 24, 0].map(u32::to_ne_bytes).concat();
        let end = kept.iter().rposition(|kept| *kept).map_or(0, |last| last + 1);
        let records = self.records.iter().zip(kept).take(end);
        let records: Vec<&[u8]> =
            records.map(|(record, kept)| if *kept { record.0 } else { declaration.as_slice() }).collect();
        let records = records.concat();
        let length = u32::try_from(records.len()).ok()?;
        let [own, strings] = [HEADER, self.strings.len()].map(|size| u32::try_from(size).ok());
        let places = [own?, 0, length, length, strings?].map(u32::to_ne_bytes).concat();
        Some([self.header.get(..4)?, &places, &records, self.strings].concat())
    }
}

impl Record<'_> {
    fn name(&self) -> u32 {
        word(self.0, 0).unwrap_or_default()
    }

    fn info(&self) -> u32 {
        word(self.0, 4).unwrap_or_default()
    }

    fn kind(&self) -> u32 {
        self.info() >> 24 & 0x1f
    }

    fn parts(&self) -> usize {
        size(self.info() & 0xffff)
    }

    /// Its bytes; `None` for a kind that is not known here.
    fn length(&self) -> Option<usize> {
        self.0.get(..TYPE)?;
        let behind = match self.kind() {
            // Integers, variables and tags of declarations.
            1 | VAR | DECL_TAG => 4,
            // Pointers, declarations, other names, qualifiers, functions, floats, tags.
            PTR | FWD..=FUNC | 16 | TYPE_TAG => 0,
            ARRAY => MEMBER,
            STRUCT | UNION | DATASEC | 19 => MEMBER * self.parts(),
            // Enumerations and parameters.
            6 | FUNC_PROTO => 8 * self.parts(),
            _ => return None,
        };
        Some(TYPE + behind)
    }

    /// The numbers of the types that lie inside of it, or that it is another name
    /// of.
    fn inside(&self) -> Vec<u32> {
        let places: Vec<usize> = match self.kind() {
            ARRAY => vec![TYPE, TYPE + 4],
            STRUCT | UNION => (0..self.parts()).map(|part| TYPE + part * MEMBER + 4).collect(),
            TYPEDEF..=RESTRICT | TYPE_TAG => vec![8],
            _ => Vec::new(),
        };
        places.into_iter().filter_map(|place| word(self.0, place)).collect()
    }
}

/// The first two bytes of names: most of a kernel's names begin otherwise, so that
/// they need not be read to their end.
struct Beginnings(Vec<bool>);

impl Beginnings {
    fn of(names: &HashSet<Vec<u8>>, functions: &[&[u8]]) -> Self {
        let mut beginnings = vec![false; 1 << 16];
        let names = names.iter().map(Vec::as_slice).chain([ITERATORS]).chain(functions.iter().copied());
        for place in names.filter_map(Self::place) {
            if let Some(beginning) = beginnings.get_mut(place) {
                *beginning = true;
            }
        }
        Self(beginnings)
    }

    fn place(name: &[u8]) -> Option<usize> {
        match name {
            [first, second, ..] => Some(usize::from(u16::from_ne_bytes([*first, *second]))),
            // The end of a name of one byte.
            [only] => Some(usize::from(u16::from_ne_bytes([*only, 0]))),
            [] => None,
        }
    }

    fn may_have(&self, name: &[u8]) -> bool {
        Self::place(name).and_then(|place| self.0.get(place)).copied().unwrap_or_default()
    }
}

/// A string up to its end.
fn cut(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A name without what a program added to it: `task_struct___old` is `task_struct`.
fn flavorless(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|three| three == b"___");
    name.get(..end.unwrap_or(name.len())).unwrap_or(name)
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;

    /// The instructions of an object with the offsets of these types.
    fn relocated(object: &Object, types: &Btf) -> Vec<String> {
        let mut object = aya_obj::Object::parse(object.code).unwrap();
        object.relocate_btf(types).unwrap();
        object.functions.values().map(|function| format!("{:?}", function.instructions)).collect()
    }

    /// Make sure that programs become the same with few types as with all, and
    /// that iterators get the same numbers.
    #[test]
    fn same() {
        let Ok(all) = Btf::from_sys_fs() else {
            assert!(std::env::var_os("GPUMAP_REQUIRE_ROOT").is_none(), "the kernel has no BTF");
            eprintln!("skipped: the kernel has no BTF");
            return;
        };
        let few = needed().unwrap();
        for object in interface::ALL {
            assert_eq!(relocated(object, &few), relocated(object, &all));
        }
        let iterators = interface::ALL.iter().flat_map(|object| object.iterators);
        let functions = interface::ALL.iter().flat_map(|object| object.functions);
        let functions = functions.map(|(_, function)| (*function).to_owned());
        for name in iterators.map(|(_, over)| format!("bpf_iter_{over}")).chain(functions) {
            let number = |types: &Btf| types.id_by_type_name_kind(&name, BtfKind::Func).ok();
            assert!(number(&all).is_some());
            assert_eq!(number(&few), number(&all), "{name}");
        }
        assert!(few.to_bytes().len() < all.to_bytes().len());
    }

    /// Make sure that what is cut off, of another byte order, or of a kind that is
    /// not known is nothing.
    #[test]
    fn malformed() {
        let names = HashSet::from([b"a".to_vec()]);
        let header = |types: u32, strings: u32| {
            let words = [u32::from(MAGIC) | 1 << 16, 24, 0, types, types, strings].map(u32::to_ne_bytes);
            words.concat()
        };
        let one = |kind: u32| {
            [header(12, 3), [1, kind << 24, 1].map(u32::to_ne_bytes).concat(), b"\0a\0".to_vec()].concat()
        };
        let typedef = one(TYPEDEF);
        assert_eq!(reduced(&typedef, &names, &[]).as_deref(), Some(typedef.as_slice()));
        assert!(reduced(&one(31), &names, &[]).is_none());
        assert!(reduced(&one(1), &names, &[]).is_none());
        let mut other = typedef.clone();
        other.swap(0, 1);
        assert!(reduced(&other, &names, &[]).is_none());
        for length in 0..typedef.len() {
            assert!(reduced(&typedef[..length], &names, &[]).is_none());
        }
        let none = reduced(&typedef, &HashSet::from([b"b".to_vec()]), &[]).unwrap();
        assert!(Types::parse(&none).unwrap().records.is_empty());
        let types = [[1, TYPEDEF << 24, 0], [4, TYPEDEF << 24, 0], [1, TYPEDEF << 24, 0]];
        let types = types.as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let three = [header(36, 6), types, b"\0b\0\0a\0".to_vec()].concat();
        let kept = reduced(&three, &HashSet::from([b"a".to_vec()]), &[]).unwrap();
        let kinds: Vec<u32> = Types::parse(&kept).unwrap().records.iter().map(Record::kind).collect();
        assert_eq!(kinds, [FWD, TYPEDEF]);
    }
}
