//! Keys, and the bytes that terminals send for them.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key with a character on it.
    Char(char),
    /// A character together with Ctrl, in lower case.
    Ctrl(char),
    /// A function key.
    F(u8),
    /// Enter.
    Enter,
    /// Esc alone.
    Esc,
    /// Tab.
    Tab,
    /// The key that deletes the character before the cursor.
    Backspace,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
}

/// The longest sequence of bytes that a key may send.
const LONGEST: usize = 32;

/// Reads keys from what a terminal sends, in whatever pieces it comes.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The beginning of a sequence whose end has not come.
    rest: Vec<u8>,
}

impl Keys {
    /// The keys in `bytes` and in what was left of those before. Sequences that mean no
    /// key are dropped.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((used, key)) = first(&self.rest) {
            keys.extend(key);
            self.rest.drain(..used.min(self.rest.len()));
        }
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        keys
    }

    /// Whether more has to come before it is known which key it is.
    pub fn is_pending(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Nothing more came: a beginning that is an Esc by itself is that key.
    pub fn settle(&mut self) -> Option<Key> {
        let rest = std::mem::take(&mut self.rest);
        (rest.first() == Some(&ESC)).then_some(Key::Esc)
    }
}

const ESC: u8 = 0x1b;

/// The first key, with how many bytes it took; `None` if more bytes have to come.
fn first(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let (byte, rest) = bytes.split_first()?;
    match *byte {
        ESC => escaped(rest),
        b'\r' | b'\n' => Some((1, Some(Key::Enter))),
        b'\t' => Some((1, Some(Key::Tab))),
        0x7f | 0x08 => Some((1, Some(Key::Backspace))),
        control @ 1..=26 => Some((1, Some(Key::Ctrl(char::from(control + b'a' - 1))))),
        0..=31 => Some((1, None)),
        _ => character(bytes),
    }
}

/// A character in UTF-8; a byte that belongs to none is dropped.
fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let start = bytes.get(..bytes.len().min(4)).unwrap_or_default();
    match std::str::from_utf8(start) {
        Ok(text) => text.chars().next().map(|c| (c.len_utf8(), Some(Key::Char(c)))),
        Err(error) if error.valid_up_to() > 0 => {
            let text = start.get(..error.valid_up_to()).and_then(|part| std::str::from_utf8(part).ok());
            let c = text.and_then(|text| text.chars().next());
            c.map(|c| (c.len_utf8(), Some(Key::Char(c))))
        }
        Err(error) => error.error_len().map(|length| (length, None)),
    }
}

/// What follows an Esc: a sequence, or another key.
fn escaped(rest: &[u8]) -> Option<(usize, Option<Key>)> {
    match rest.first()? {
        b'[' => {
            let (length, key) = bracketed(rest.get(1..).unwrap_or_default())?;
            Some((length + 2, key))
        }
        b'O' => Some((3, single(*rest.get(1)?))),
        // Two keys that came together, or a key with Alt: the Esc counts.
        _ => Some((1, Some(Key::Esc))),
    }
}

/// `ESC [`, parameters, and a final byte.
fn bracketed(rest: &[u8]) -> Option<(usize, Option<Key>)> {
    if rest.first()? == &b'[' {
        // The console of Linux: F1 to F5.
        let key = match rest.get(1)? {
            letter @ b'A'..=b'E' => Some(Key::F(letter - b'A' + 1)),
            _ => None,
        };
        return Some((2, key));
    }
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let (parameters, last) = (rest.get(..end).unwrap_or_default(), *rest.get(end)?);
    let number = parameters.split(|byte| *byte == b';').next().unwrap_or_default();
    let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u8>().ok());
    let key = match (last, number) {
        (b'~', Some(number)) => numbered(number),
        (b'~', None) => None,
        (letter, _) => single(letter),
    };
    Some((end + 1, key))
}

/// The last letter of a sequence.
fn single(letter: u8) -> Option<Key> {
    Some(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        b'P'..=b'S' => Key::F(letter - b'P' + 1),
        _ => return None,
    })
}

/// `ESC [ NUMBER ~`.
fn numbered(number: u8) -> Option<Key> {
    Some(match number {
        1 | 7 => Key::Home,
        4 | 8 => Key::End,
        5 => Key::PageUp,
        6 => Key::PageDown,
        11..=15 => Key::F(number - 10),
        17..=21 => Key::F(number - 11),
        23 | 24 => Key::F(number - 12),
        _ => return None,
    })
}
