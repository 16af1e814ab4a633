//! The part of the kernel's types that an object names.
//!
//! The kernel describes more than a hundred thousand types. aya takes some 35 ms to read
//! them all, and each object takes it some 20 ms more to look for the few that it names.
//! Here these few are copied out, with what they consist of, in a few milliseconds. What
//! they point to is left out: whoever puts fields' places into a program does not follow
//! pointers.
//!
//! The format is that of `include/uapi/linux/btf.h`, in the byte order of this machine.

use std::collections::{HashMap, HashSet, VecDeque};

/// Bytes of `struct btf_header` and of `struct btf_type`.
const HEADER: usize = 24;
const TYPE: usize = 12;
const MAGIC: u16 = 0xeb9f;
/// Bytes of a member of a structure.
const MEMBER: usize = 12;

/// `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Pointer,
    Array,
    /// Structures and unions.
    Members,
    /// Enumerations, with the bytes of each value.
    Values(usize),
    Forward,
    Typedef,
    /// `volatile`, `const`, `restrict`, and tags of types.
    Modifier,
    Float,
    /// What no object names, with the bytes that follow: for the whole, and for each
    /// part.
    Other(usize, usize),
}

impl Kind {
    fn new(info: u32) -> Option<Self> {
        Some(match info >> 24 & 0x1f {
            1 => Self::Int,
            2 => Self::Pointer,
            3 => Self::Array,
            4 | 5 => Self::Members,
            6 => Self::Values(8),
            7 => Self::Forward,
            8 => Self::Typedef,
            9..=11 | 18 => Self::Modifier,
            12 => Self::Other(0, 0),
            13 => Self::Other(0, 8),
            14 | 17 => Self::Other(4, 0),
            15 => Self::Other(0, 12),
            16 => Self::Float,
            19 => Self::Values(12),
            _ => return None,
        })
    }

    /// The bytes that follow the type, with so many parts.
    fn more(self, parts: usize) -> usize {
        match self {
            Self::Int => 4,
            Self::Array => 12,
            Self::Members => MEMBER * parts,
            Self::Values(bytes) => bytes * parts,
            Self::Other(once, each) => once + each * parts,
            Self::Pointer | Self::Forward | Self::Typedef | Self::Modifier | Self::Float => 0,
        }
    }

    /// Whether a program can name it to be told its fields, its size or its values.
    fn is_named(self) -> bool {
        matches!(self, Self::Int | Self::Members | Self::Values(_) | Self::Typedef | Self::Float)
    }
}

/// One type.
#[derive(Clone, Copy)]
struct Record<'a> {
    kind: Kind,
    name: u32,
    info: u32,
    /// Its size, or the type that it stands for.
    rest: u32,
    more: &'a [u8],
}

/// A description of types.
struct Types<'a> {
    /// By their numbers, counted from 1.
    records: Vec<Record<'a>>,
    strings: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

impl<'a> Types<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let body = bytes.get(length(bytes, 4)?..)?;
        let part = |at: usize| body.get(length(bytes, at)?..)?.get(..length(bytes, at + 4)?);
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut records = Vec::with_capacity(rest.len() / 24);
        while !rest.is_empty() {
            let (name, info, size) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
            let kind = Kind::new(info)?;
            let parts = usize::try_from(info & 0xffff).ok()?;
            let (more, next) = rest.get(TYPE..)?.split_at_checked(kind.more(parts))?;
            records.push(Record { kind, name, info, rest: size, more });
            rest = next;
        }
        Some(Self { records, strings })
    }

    fn name(&self, at: u32) -> Option<&'a [u8]> {
        let text = self.strings.get(usize::try_from(at).ok()?..)?;
        text.split(|byte| *byte == 0).next()
    }

    /// Numbers and names of the types that can be named.
    fn named(&self) -> impl Iterator<Item = (u32, &'a [u8])> {
        let named =
            (1_u32..).zip(&self.records).filter(|(_, record)| record.name != 0 && record.kind.is_named());
        named.filter_map(|(number, record)| Some((number, self.name(record.name)?)))
    }
}

/// A name without what follows `___`, which tells several descriptions of one type apart.
fn plain(name: &[u8]) -> &[u8] {
    let end = name.windows(3).position(|part| part == b"___");
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// Types that are copied.
struct Copied<'a> {
    from: Types<'a>,
    /// New numbers by the old ones, and the old ones of which the types are still to be
    /// copied.
    numbers: HashMap<u32, u32>,
    waiting: VecDeque<u32>,
    /// New places of strings by the old ones.
    places: HashMap<u32, u32>,
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Copied<'_> {
    fn number(&mut self, old: u32) -> Option<u32> {
        if old == 0 {
            return Some(0);
        }
        let next = u32::try_from(self.numbers.len()).ok()? + 1;
        Some(*self.numbers.entry(old).or_insert_with(|| {
            self.waiting.push_back(old);
            next
        }))
    }

    fn string(&mut self, old: u32) -> Option<u32> {
        if old == 0 {
            return Some(0);
        }
        if let Some(place) = self.places.get(&old) {
            return Some(*place);
        }
        let place = u32::try_from(self.strings.len()).ok()?;
        self.strings.extend(self.from.name(old)?);
        self.strings.push(0);
        self.places.insert(old, place);
        Some(place)
    }

    fn write(&mut self, word: u32) {
        self.types.extend(word.to_ne_bytes());
    }

    fn copy(&mut self, old: u32) -> Option<()> {
        let record = *self.from.records.get(usize::try_from(old).ok()?.checked_sub(1)?)?;
        let name = self.string(record.name)?;
        let rest = match record.kind {
            Kind::Pointer => 0,
            Kind::Typedef | Kind::Modifier => self.number(record.rest)?,
            Kind::Other(..) => return None,
            _ => record.rest,
        };
        [name, record.info, rest].into_iter().for_each(|word| self.write(word));
        match record.kind {
            Kind::Array => {
                let element = self.number(word(record.more, 0)?)?;
                let index = self.number(word(record.more, 4)?)?;
                [element, index, word(record.more, 8)?].into_iter().for_each(|word| self.write(word));
            }
            Kind::Members => {
                for member in record.more.chunks_exact(MEMBER) {
                    let name = self.string(word(member, 0)?)?;
                    let of = self.number(word(member, 4)?)?;
                    [name, of, word(member, 8)?].into_iter().for_each(|word| self.write(word));
                }
            }
            Kind::Values(bytes) => {
                for value in record.more.chunks_exact(bytes) {
                    let name = self.string(word(value, 0)?)?;
                    self.write(name);
                    self.types.extend(value.get(4..)?);
                }
            }
            _ => self.types.extend(record.more),
        }
        Some(())
    }

    /// The whole description.
    fn finish(mut self) -> Option<Vec<u8>> {
        while let Some(old) = self.waiting.pop_front() {
            self.copy(old)?;
        }
        let (types, strings) =
            (u32::try_from(self.types.len()).ok()?, u32::try_from(self.strings.len()).ok()?);
        let mut all = MAGIC.to_ne_bytes().to_vec();
        all.extend([1, 0]);
        let header = [u32::try_from(HEADER).ok()?, 0, types, types, strings];
        all.extend(header.into_iter().flat_map(u32::to_ne_bytes));
        all.append(&mut self.types);
        all.append(&mut self.strings);
        Some(all)
    }
}

/// The types of the kernel that have the names of types in any of the objects; `None` if
/// one of these is not a description that is understood.
pub(super) fn needed<'o>(kernel: &[u8], objects: impl IntoIterator<Item = &'o [u8]>) -> Option<Vec<u8>> {
    let mut names: HashSet<&[u8]> = HashSet::new();
    for object in objects {
        let types = Types::read(object)?;
        names.extend(types.named().map(|(_, name)| plain(name)));
    }
    let from = Types::read(kernel)?;
    let wanted: Vec<u32> =
        from.named().filter(|(_, name)| names.contains(plain(name))).map(|(number, _)| number).collect();
    let mut copied = Copied {
        from,
        numbers: HashMap::new(),
        waiting: VecDeque::new(),
        places: HashMap::new(),
        types: Vec::new(),
        strings: vec![0],
    };
    for number in wanted {
        copied.number(number)?;
    }
    copied.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use aya::Btf;
    use aya_obj::Object;

    use super::*;
    use crate::loader::objects;

    fn code(object: &Object) -> Vec<String> {
        object
            .functions
            .iter()
            .map(|(key, function)| format!("{key:?} {:?}", function.instructions))
            .collect()
    }

    /// Make sure that programs become the same with the part as with the whole, on this
    /// kernel, and that the part is a small one.
    #[test]
    fn same_programs() {
        let Ok(kernel) = fs::read("/sys/kernel/btf/vmlinux") else { return };
        let whole = Btf::parse(&kernel, Default::default()).unwrap();
        let all = [&objects::ACTIVITY, &objects::ACTIVITY_SESSION, &objects::WATCH, &objects::SESSION];
        for wanted in all {
            let parsed = Object::parse(wanted.code).unwrap();
            let own = parsed.btf.as_ref().unwrap().to_bytes();
            let bytes = needed(&kernel, [&own[..]]).unwrap();
            assert!(bytes.len() < kernel.len() / 10, "{} of {}", bytes.len(), kernel.len());
            let part = Btf::parse(&bytes, Default::default()).unwrap();
            let [mut one, mut other] = [parsed.clone(), parsed];
            one.relocate_btf(&whole).unwrap();
            other.relocate_btf(&part).unwrap();
            assert_eq!(code(&one), code(&other));
        }
    }

    /// Make sure that what is no description, or one that was cut off, gives none.
    #[test]
    fn broken() {
        let parsed = Object::parse(objects::ACTIVITY.code).unwrap();
        let own = parsed.btf.as_ref().unwrap().to_bytes();
        assert!(needed(&own, [&own[..]]).is_some());
        for end in (0..own.len()).step_by(97) {
            assert_eq!(needed(own.get(..end).unwrap(), [&own[..]]), None, "{end}");
        }
        assert_eq!(needed(&[0xff; 100], [&own[..]]), None);
    }
}
