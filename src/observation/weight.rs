//! Counts the parts of a JSON document while it comes in, before anything is made of it:
//! three bytes of text can be a row of a table that takes hundreds.

use memchr::memchr2;

/// How deep the elements of a document's own lists lie: the document, a list, an element.
const ROW: usize = 3;
/// Memory that a row takes at most, such as a process, a part of one, and a number or
/// word of a list.
const ROW_BYTES: usize = 512;
const OBJECT_BYTES: usize = 128;
const MEMBER_BYTES: usize = 16;
/// Memory that the parts of one observation may take. A node of 5000 cgroups and 2000
/// processes takes 20 MiB, the largest map that gpumap reads 150.
const MEMORY: usize = 192 << 20;

/// The parts of the text that was read so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weight {
    /// Elements of the document's own lists.
    pub rows: usize,
    /// Objects and lists, rows among them.
    pub objects: usize,
    /// Members and elements, of which a list of numbers or words has nothing else.
    pub members: usize,
    depth: usize,
    place: Place,
}

/// Where in the text the next byte stands.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Between,
    InString,
    /// Behind a backslash in a string.
    Escaped,
}

impl Weight {
    /// The weight of a whole text.
    pub fn of(json: &[u8]) -> Self {
        let mut weight = Self::default();
        weight.add(json);
        weight
    }

    /// Counts a further piece of the text.
    pub fn add(&mut self, mut json: &[u8]) {
        while let Some((byte, after)) = json.split_first() {
            json = match self.place {
                Place::Between => {
                    self.count(*byte);
                    after
                }
                Place::InString => self.behind_string(json),
                Place::Escaped => {
                    self.place = Place::InString;
                    after
                }
            };
        }
    }

    /// Whether an observation with these parts is larger than that of any node.
    pub fn is_too_large(&self) -> bool {
        let (rows, objects) = (self.rows, self.objects.saturating_sub(self.rows));
        let parts = [(rows, ROW_BYTES), (objects, OBJECT_BYTES), (self.members, MEMBER_BYTES)];
        let memory = parts.iter().map(|(count, bytes)| count.saturating_mul(*bytes));
        memory.fold(0, usize::saturating_add) > MEMORY
    }

    fn count(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.objects += 1;
                self.rows += usize::from(self.depth == ROW);
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.members += 1,
            b'"' => self.place = Place::InString,
            _ => {}
        }
    }

    /// What follows the string that this text begins in.
    fn behind_string<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let Some(at) = memchr2(b'"', b'\\', text) else { return b"" };
        self.place = if text.get(at) == Some(&b'"') { Place::Between } else { Place::Escaped };
        text.get(at + 1..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that parts are counted outside of strings, in whatever pieces the text
    /// comes.
    #[test]
    fn parts() {
        let text = br#"{"a":[{"b":[1,2,3]},[]],"c{[,":"\"{[,\\"}"#;
        for size in 1..text.len() {
            let mut weight = Weight::default();
            text.chunks(size).for_each(|piece| weight.add(piece));
            assert_eq!((weight.rows, weight.objects, weight.members), (2, 5, 4), "{size}");
        }
        assert_eq!(Weight::of(b"\"\\").objects, 0);
    }

    /// Make sure that the largest map that is read is no excess, and that as many rows are.
    #[test]
    fn excess() {
        let times = |part: &str, count: usize| Weight::of(part.repeat(count).as_bytes()).is_too_large();
        assert!(!times("{}{}", 2) && times("{[{},{}]}", 1 << 18) && times(",", 1 << 24));
        let map = format!("[[[[[{}]]]]]", "{,},".repeat(1 << 20));
        assert!(!Weight::of(map.as_bytes()).is_too_large());
    }
}
