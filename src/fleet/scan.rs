//! Finds where a JSON object ends, however its bytes arrive.

use memchr::memchr2;

/// How far an object was followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Bytes that were looked at.
    at: usize,
    /// Braces and brackets that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Follows the object that begins at the first byte of `bytes`, from where the
    /// last call stopped. Returns the end of the object if it is there. Each byte is
    /// looked at once, over all calls.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            if self.in_string {
                self.string(rest);
            } else if self.outside(rest) {
                return Some(self.at);
            }
        }
        None
    }

    /// Whether the last byte was inside a string, where no line can end.
    pub(super) fn is_in_string(&self) -> bool {
        self.in_string
    }

    fn string(&mut self, rest: &[u8]) {
        if self.is_escaped {
            self.is_escaped = false;
            self.at += 1;
            return;
        }
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            self.at += rest.len();
            return;
        };
        self.at += found + 1;
        self.is_escaped = rest.get(found) == Some(&b'\\');
        self.in_string = self.is_escaped;
    }

    /// Follows what is outside of strings; whether the object ends.
    fn outside(&mut self, rest: &[u8]) -> bool {
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.at += index + 1;
                    return false;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.at += index + 1;
                        return true;
                    }
                }
                _ => {}
            }
        }
        self.at += rest.len();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the end is found wherever the bytes are cut.
    #[test]
    fn ends() {
        let text = br#"{"a\"}":[{"b":"]\\"},1],"c":{}}"#;
        let all = [text.as_slice(), b" {}"].concat();
        for cut in 0..all.len() {
            let mut scan = Scan::default();
            let first = scan.end(&all[..cut]);
            assert_eq!(first, (cut >= text.len()).then_some(text.len()), "{cut}");
            assert_eq!(first.or_else(|| scan.end(&all)), Some(text.len()));
        }
        assert_eq!(Scan::default().end(b"{\"a"), None);
    }
}
