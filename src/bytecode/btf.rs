//! Reads the types of map values (BTF) as far as they say which bytes the kernel
//! does not show to user space.
//!
//! The kernel keeps locks, timers, lists and pointers to its own objects in map
//! values, finds them by type (`btf_parse_fields`, `kernel/bpf/btf.c`), and gives
//! user space zeros in their place (`check_and_init_map_value`). The user who made the
//! map wrote its types, so they may be wrong in any way. Where this module cannot
//! follow them, it reports the whole value as hidden.

use crate::observation::HiddenBytes;

const MAGIC: u16 = 0xeb9f;
/// `struct btf_header` (`linux/btf.h`) as far as it is needed.
const HEADER: usize = 24;
/// Most steps through types for one map.
const MAX_VISITS: usize = 1 << 14;
/// Deepest nesting of types; the kernel looks 15 deep (`MAX_RESOLVE_DEPTH`).
const MAX_DEPTH: usize = 32;

/// `BTF_KIND_*` (`linux/btf.h`).
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// The bytes of a value of type `id` that the kernel does not show.
pub fn hidden(btf: &[u8], id: u32, value_size: u32) -> Vec<HiddenBytes> {
    let walk = || {
        let types = Types::new(btf)?;
        let mut walk = TypeWalk { types, visits: 0, value_size, found: Vec::new() };
        walk.at(id, 0, 0)?;
        Some(walk.found)
    };
    walk().unwrap_or_else(|| vec![HiddenBytes { first: 0, size: value_size }])
}

/// The types of one BTF object.
struct Types<'a> {
    /// The offset of each type; numbers start at 1.
    starts: Vec<usize>,
    types: &'a [u8],
    strings: &'a [u8],
}

#[derive(Clone, Copy)]
struct Type {
    /// The offset of its first byte.
    at: usize,
    name: u32,
    kind: u32,
    members: u32,
    /// Whether the structure has bit fields. Then the low 24 bits of a member's offset
    /// are the offset, and the upper 8 are the width.
    has_bitfields: bool,
    /// The size of the type; for a pointer, an alias and the like, the number of the
    /// type that it refers to.
    size_or_type: u32,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

impl<'a> Types<'a> {
    fn new(btf: &'a [u8]) -> Option<Self> {
        let magic = btf.first_chunk().map(|magic| u16::from_ne_bytes(*magic))?;
        let header = word(btf, 4)? as usize;
        if magic != MAGIC || header < HEADER {
            return None;
        }
        let section = |offset: usize, length: usize| {
            let start = header.checked_add(word(btf, offset)? as usize)?;
            btf.get(start..start.checked_add(word(btf, length)? as usize)?)
        };
        let (types, strings) = (section(8, 12)?, section(16, 20)?);
        let mut all = Self { starts: Vec::new(), types, strings };
        let mut at = 0;
        while at < types.len() {
            all.starts.push(at);
            at = at.checked_add(all.length(all.read(at)?)?)?;
        }
        Some(all)
    }

    fn read(&self, at: usize) -> Option<Type> {
        let info = word(self.types, at.checked_add(4)?)?;
        Some(Type {
            at,
            name: word(self.types, at)?,
            kind: info >> 24 & 0x1f,
            members: info & 0xffff,
            has_bitfields: info >> 31 == 1,
            size_or_type: word(self.types, at.checked_add(8)?)?,
        })
    }

    /// Bytes of a type's description.
    fn length(&self, of: Type) -> Option<usize> {
        let members = of.members as usize;
        Some(match of.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => 16,
            kind::ARRAY => 24,
            kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 + members * 12,
            kind::ENUM | kind::FUNC_PROTO => 12 + members * 8,
            1..=18 => 12,
            _ => return None,
        })
    }

    fn get(&self, id: u32) -> Option<Type> {
        let start = self.starts.get((id as usize).checked_sub(1)?)?;
        self.read(*start)
    }

    fn name(&self, of: Type) -> &'a [u8] {
        let rest = self.strings.get(of.name as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Three words that follow a description, such as a member.
    fn words(&self, of: Type, index: u32) -> Option<[u32; 3]> {
        let at = of.at.checked_add(12 + index as usize * 12)?;
        Some([word(self.types, at)?, word(self.types, at + 4)?, word(self.types, at + 8)?])
    }
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
        match here.kind {
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::VAR | kind::TYPE_TAG => {
                self.at(here.size_or_type, offset, depth + 1)
            }
            kind::PTR if self.is_tagged(here.size_or_type, 0)? => {
                self.hide(offset, 8);
                Some(())
            }
            kind::STRUCT | kind::UNION if self.types.name(here).starts_with(b"bpf_") => {
                self.hide(offset, here.size_or_type);
                Some(())
            }
            kind::STRUCT | kind::UNION => (0..here.members).try_for_each(|index| {
                let [_, id, bits] = self.types.words(here, index)?;
                let bits = if here.has_bitfields { bits & 0xff_ffff } else { bits };
                self.at(id, offset.checked_add(bits / 8)?, depth + 1)
            }),
            kind::DATASEC => (0..here.members).try_for_each(|index| {
                let [id, start, _] = self.types.words(here, index)?;
                self.at(id, offset.checked_add(start)?, depth + 1)
            }),
            kind::ARRAY => self.array(here, offset, depth),
            _ => Some(()),
        }
    }

    /// Every element of an array, if the first hides anything.
    fn array(&mut self, array: Type, offset: u32, depth: usize) -> Option<()> {
        let [element, _, count] = self.types.words(array, 0)?;
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
        match target.kind {
            kind::TYPE_TAG => Some(true),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => {
                self.is_tagged(target.size_or_type, depth + 1)
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
