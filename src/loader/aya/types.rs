//! The kernel's types, reduced to those that `bpf/` speaks of.
//!
//! A kernel describes more than a hundred thousand types. aya takes some 35 ms to
//! read them, and goes through all of them for each type that it looks for. So it is
//! kept from reading them, and given a description in which every type that does not
//! matter is an empty declaration, and those behind the last one that matters are left
//! out. Types keep their numbers, which the kernel is given. What matters:
//! each type that has the name of one in `bpf/`, and what lies inside of it. aya
//! looks behind no pointer for that.

use std::collections::HashSet;
use std::fs;

use aya::{Btf, Endianness};
use object::Endianness as FileEndianness;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectSection as _};

use crate::bytecode::btf::{HEADER, Type, Types, cut, kind};
use crate::loader::interface::{self, Object};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
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
        let named = types.records.iter().filter_map(|record| name(&types, record));
        names.extend(named.filter(|name| !name.is_empty()).map(<[u8]>::to_vec));
    }
    Some(names)
}

/// A description in which only types of these names, and what lies inside of them,
/// are more than a declaration.
fn reduced(data: &[u8], names: &HashSet<Vec<u8>>, functions: &[&[u8]]) -> Option<Vec<u8>> {
    let types = Types::parse(data)?;
    let beginnings = Beginnings::of(names, functions);
    let is_wanted = |record: &&Type<'_>| {
        let name = types.text(record.name()).filter(|name| beginnings.may_have(name));
        name.is_some_and(|name| match record.kind() {
            kind::FUNC => name.starts_with(ITERATORS) || functions.contains(&cut(name)),
            kind::VAR | kind::DATASEC => false,
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
            next.extend(inside(*types.records.get(index)?));
        }
    }
    with(&types, &kept)
}

/// The name of a type that programs can name.
fn name<'a>(types: &Types<'a>, record: &Type<'_>) -> Option<&'a [u8]> {
    let is_type = !matches!(record.kind(), kind::FUNC | kind::VAR | kind::DATASEC);
    types.text(record.name()).filter(|_| is_type).map(cut).map(flavorless)
}

/// The description up to the last of these records; the others are empty declarations.
fn with(types: &Types<'_>, kept: &[bool]) -> Option<Vec<u8>> {
    let declaration = [0, kind::FWD << 24, 0].map(u32::to_ne_bytes).concat();
    let end = kept.iter().rposition(|kept| *kept).map_or(0, |last| last + 1);
    let records = types.records.iter().zip(kept).take(end);
    let records: Vec<&[u8]> =
        records.map(|(record, kept)| if *kept { record.0 } else { declaration.as_slice() }).collect();
    let records = records.concat();
    let length = u32::try_from(records.len()).ok()?;
    let [own, strings] = [HEADER, types.strings.len()].map(|size| u32::try_from(size).ok());
    let places = [own?, 0, length, length, strings?].map(u32::to_ne_bytes).concat();
    Some([types.header.get(..4)?, &places, &records, types.strings].concat())
}

/// The numbers of the types that lie inside of one, or that it is another name of.
fn inside(record: Type<'_>) -> Vec<u32> {
    match record.kind() {
        kind::ARRAY => {
            record.member(0).into_iter().flat_map(|[element, index, _]| [element, index]).collect()
        }
        kind::STRUCT | kind::UNION => {
            (0..record.parts()).filter_map(|part| record.member(part)).map(|[_, of, _]| of).collect()
        }
        kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG => vec![record.size_or_type()],
        _ => Vec::new(),
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

/// A name without what a program added to it: `task_struct___old` is `task_struct`.
fn flavorless(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|three| three == b"___");
    name.get(..end.unwrap_or(name.len())).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;
    use crate::bytecode::btf::MAGIC;

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
        let typedef = one(kind::TYPEDEF);
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
        let types = [[1, kind::TYPEDEF << 24, 0], [4, kind::TYPEDEF << 24, 0], [1, kind::TYPEDEF << 24, 0]];
        let types = types.as_flattened().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let three = [header(36, 6), types, b"\0b\0\0a\0".to_vec()].concat();
        let kept = reduced(&three, &HashSet::from([b"a".to_vec()]), &[]).unwrap();
        let kinds: Vec<u32> = Types::parse(&kept).unwrap().records.iter().map(Type::kind).collect();
        assert_eq!(kinds, [kind::FWD, kind::TYPEDEF]);
    }
}
