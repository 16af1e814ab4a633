//! BTF, the types of a kernel, a program or a map's values, as Documentation/bpf/btf.rst and
//! `linux/btf.h` lay them out; and which bytes of a value the kernel does not show to user
//! space.
//!
//! The kernel keeps locks, timers, lists and pointers to its own objects in map
//! values, finds them by type (`btf_parse_fields`, `kernel/bpf/btf.c`), and gives
//! user space zeros in their place (`check_and_init_map_value`). The user who made the
//! map wrote its types, so they may be wrong in any way. Where this module cannot
//! follow them, it reports the whole value as hidden.

use crate::observation::HiddenBytes;

/// The first two bytes of every description (`BTF_MAGIC`), in this machine's byte order.
pub const MAGIC: u16 = 0xeb9f;
/// Bytes of `struct btf_header` as far as it is needed.
pub const HEADER: usize = 24;
/// Bytes of `struct btf_type`: name, kind with the number of parts, size or type.
pub const TYPE: usize = 12;
/// Bytes of a member of a structure, and of `struct btf_array`.
pub const MEMBER: usize = 12;
/// Most steps through types for one map.
const MAX_VISITS: usize = 1 << 14;
/// Deepest nesting of types; the kernel looks 15 deep (`MAX_RESOLVE_DEPTH`).
const MAX_DEPTH: usize = 32;

/// `BTF_KIND_*` (`linux/btf.h`).
#[expect(missing_docs, reason = "the names of the header file")]
pub mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// The parts of a description.
#[derive(Clone, Debug)]
pub struct Types<'a> {
    /// The beginning of its header, [`HEADER`] bytes.
    pub header: &'a [u8],
    /// The types; the first has the number 1.
    pub records: Vec<Type<'a>>,
    /// The names, each with a zero behind it.
    pub strings: &'a [u8],
}

/// One type: its bytes, with all that belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a>(pub &'a [u8]);

impl<'a> Types<'a> {
    /// Takes a description apart; `None` where it is cut off, of another byte order, or has
    /// a kind of type that is not known here.
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let header = data.get(..HEADER)?;
        let length = size(word(header, 4)?);
        if header.first_chunk().map(|magic| u16::from_ne_bytes(*magic)) != Some(MAGIC) || length < HEADER {
            return None;
        }
        let body = data.get(length..)?;
        let part = |place: usize| {
            let (start, length) = (size(word(header, place)?), size(word(header, place + 4)?));
            body.get(start..)?.get(..length)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut records = Vec::with_capacity(rest.len() / (2 * TYPE));
        while !rest.is_empty() {
            let (record, further) = rest.split_at_checked(Type(rest).length()?)?;
            records.push(Type(record));
            rest = further;
        }
        Some(Self { header, records, strings })
    }

    /// The type with this number.
    fn get(&self, id: u32) -> Option<Type<'a>> {
        self.records.get(size(id).checked_sub(1)?).copied()
    }

    /// The strings from a place on: a name and what comes behind it.
    pub fn text(&self, place: u32) -> Option<&'a [u8]> {
        self.strings.get(size(place)..)
    }
}

impl Type<'_> {
    /// The place of its name among the strings.
    pub fn name(&self) -> u32 {
        word(self.0, 0).unwrap_or_default()
    }

    fn info(&self) -> u32 {
        word(self.0, 4).unwrap_or_default()
    }

    /// Its kind, one of [`kind`].
    pub fn kind(&self) -> u32 {
        self.info() >> 24 & 0x1f
    }

    /// How many members, values or parameters it has.
    pub fn parts(&self) -> u32 {
        self.info() & 0xffff
    }

    /// Whether the structure has bit fields. Then the low 24 bits of a member's offset
    /// are the offset, and the upper 8 are the width.
    fn has_bitfields(&self) -> bool {
        self.info() >> 31 == 1
    }

    /// The size of the type; for a pointer, an alias and the like, the number of the
    /// type that it refers to.
    pub fn size_or_type(&self) -> u32 {
        word(self.0, 8).unwrap_or_default()
    }

    /// Its bytes; `None` for a kind that is not known here.
    fn length(&self) -> Option<usize> {
        self.0.get(..TYPE)?;
        let parts = size(self.parts());
        let behind = match self.kind() {
            kind::INT | kind::VAR | kind::DECL_TAG => 4,
            kind::PTR | kind::FWD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
            kind::ARRAY => MEMBER,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => MEMBER * parts,
            kind::ENUM | kind::FUNC_PROTO => 8 * parts,
            _ => return None,
        };
        Some(TYPE + behind)
    }

    /// Three words that follow a description, such as a member or an array's.
    pub fn member(&self, index: u32) -> Option<[u32; 3]> {
        let at = TYPE + size(index) * MEMBER;
        Some([word(self.0, at)?, word(self.0, at + 4)?, word(self.0, at + 8)?])
    }
}

/// A string up to its end.
pub fn cut(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The bytes of a value of type `id` that the kernel does not show.
pub fn hidden(btf: &[u8], id: u32, value_size: u32) -> Vec<HiddenBytes> {
    let walk = || {
        let types = Types::parse(btf)?;
        let mut walk = TypeWalk { types, visits: 0, value_size, found: Vec::new() };
        walk.at(id, 0, 0)?;
        Some(walk.found)
    };
    walk().unwrap_or_else(|| vec![HiddenBytes { first: 0, size: value_size }])
}

struct TypeWalk<'a> {
    types: Types<'a>,
    visits: usize,
    value_size: u32,
    found: Vec<HiddenBytes>,
}

impl TypeWalk<'_> {
    /// Looks through a value of type `id` at byte `offset`; `None` if it cannot
    /// be followed.
    fn at(&mut self, id: u32, offset: u32, depth: usize) -> Option<()> {
        self.visits += 1;
        if self.visits > MAX_VISITS || depth > MAX_DEPTH {
            return None;
        }
        let here = self.types.get(id)?;
        match here.kind() {
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::VAR | kind::TYPE_TAG => {
                self.at(here.size_or_type(), offset, depth + 1)
            }
            kind::PTR if self.is_tagged(here.size_or_type(), 0)? => {
                self.hide(offset, 8);
                Some(())
            }
            kind::STRUCT | kind::UNION if self.name(here).starts_with(b"bpf_") => {
                self.hide(offset, here.size_or_type());
                Some(())
            }
            kind::STRUCT | kind::UNION => (0..here.parts()).try_for_each(|index| {
                let [_, id, bits] = here.member(index)?;
                let bits = if here.has_bitfields() { bits & 0xff_ffff } else { bits };
                self.at(id, offset.checked_add(bits / 8)?, depth + 1)
            }),
            kind::DATASEC => (0..here.parts()).try_for_each(|index| {
                let [id, start, _] = here.member(index)?;
                self.at(id, offset.checked_add(start)?, depth + 1)
            }),
            kind::ARRAY => self.array(here, offset, depth),
            _ => Some(()),
        }
    }

    /// The name of a type, with what comes behind it.
    fn name(&self, of: Type<'_>) -> &[u8] {
        self.types.text(of.name()).unwrap_or_default()
    }

    /// Every element of an array, if the first hides anything.
    fn array(&mut self, array: Type<'_>, offset: u32, depth: usize) -> Option<()> {
        let [element, _, count] = array.member(0)?;
        let before = self.found.len();
        if count == 0 {
            return Some(());
        }
        self.at(element, offset, depth + 1)?;
        if self.found.len() > before {
            // The rest of the value: an array of such things is rare.
            self.hide(offset, self.value_size.saturating_sub(offset));
        }
        Some(())
    }

    /// Whether a pointer's target has a tag of the kernel (`kptr`, `uptr`, …).
    fn is_tagged(&mut self, id: u32, depth: usize) -> Option<bool> {
        self.visits += 1;
        if self.visits > MAX_VISITS || depth > MAX_DEPTH {
            return None;
        }
        // Type 0 is void.
        let Some(target) = self.types.get(id) else { return (id == 0).then_some(false) };
        match target.kind() {
            kind::TYPE_TAG => Some(true),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => {
                self.is_tagged(target.size_or_type(), depth + 1)
            }
            _ => Some(false),
        }
    }

    fn hide(&mut self, first: u32, size: u32) {
        self.found.push(HiddenBytes { first, size });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, `types` and `strings`.
    fn btf(types: &[u32], strings: &[u8]) -> Vec<u8> {
        let length = types.len() as u32 * 4;
        let header = [24, 0, length, length, strings.len() as u32];
        let words = [u32::from(MAGIC) | 1 << 16].into_iter().chain(header).chain(types.iter().copied());
        words.flat_map(u32::to_ne_bytes).chain(strings.iter().copied()).collect()
    }

    /// `struct { u64; struct task __kptr *; struct bpf_timer; }` by its parts.
    fn value() -> Vec<u8> {
        let types = [
            [0, kind::INT << 24, 8, 64].as_slice(),
            &[0, kind::STRUCT << 24, 4],
            &[1, kind::TYPE_TAG << 24, 2],
            &[0, kind::PTR << 24, 3],
            &[6, kind::STRUCT << 24, 16],
            &[0, kind::STRUCT << 24 | 3, 32, 0, 1, 0, 0, 4, 64, 0, 5, 128],
        ];
        btf(&types.concat(), b"\0kptr\0bpf_timer\0")
    }

    /// Make sure that pointers of the kernel and its structures are found.
    #[test]
    fn fields_are_found() {
        let expected = [HiddenBytes { first: 8, size: 8 }, HiddenBytes { first: 16, size: 16 }];
        assert_eq!(hidden(&value(), 6, 32), expected);
        assert_eq!(hidden(&value(), 1, 8), []);
    }

    /// Make sure that what cannot be followed hides the whole value, and that
    /// no bytes upset the walk.
    #[test]
    fn hostile_types() {
        let all = [HiddenBytes { first: 0, size: 32 }];
        assert_eq!(hidden(&value(), 7, 32), all);
        assert_eq!(hidden(b"", 1, 32), all);
        // A type that contains itself.
        let endless = btf(&[0, kind::CONST << 24, 1], b"\0");
        assert_eq!(hidden(&endless, 1, 32), all);
        let whole = value();
        for cut in 0..whole.len() {
            let _ = hidden(&whole[..cut], 6, 32);
            let mut changed = whole.clone();
            changed[cut] ^= 0xff;
            let _ = hidden(&changed, 6, 32);
        }
    }
}
