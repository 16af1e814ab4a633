//! Reads strings from a process's memory. The strings of an environment mostly lie
//! side by side, so each part that was read is kept for the next string.

use super::{Fault, Memory};

/// Bytes of a page: each read goes at least to the end of one. The most bytes of a read.
const PAGE: usize = 4096;
const MOST: usize = 64 << 10;

/// A part of memory.
#[derive(Debug, Default)]
pub(in crate::observe::processes) struct StringReader {
    start: u64,
    bytes: Vec<u8>,
    size: usize,
}

impl StringReader {
    /// The string at `address` with its terminator, or its first `length`
    /// bytes, or as much as can be read.
    pub(in crate::observe::processes) fn text(
        &mut self,
        memory: &mut Memory,
        address: u64,
        length: usize,
    ) -> Result<&[u8], Fault> {
        if !self.holds(address, length) {
            self.load(memory, address, length)?;
        }
        let text = self.from(address);
        let text = text.get(..length).unwrap_or(text);
        let end = text.iter().position(|byte| *byte == 0).map_or(text.len(), |end| end + 1);
        Ok(text.get(..end).unwrap_or_default())
    }

    fn from(&self, address: u64) -> &[u8] {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    fn holds(&self, address: u64, length: usize) -> bool {
        let text = self.from(address);
        text.len() >= length || text.contains(&0)
    }

    /// Reads on where the last part ended with ever larger steps.
    fn load(&mut self, memory: &mut Memory, address: u64, length: usize) -> Result<(), Fault> {
        let near = address.wrapping_sub(self.start) <= (self.bytes.len() + PAGE) as u64;
        self.size = if near { (self.size * 4).clamp(PAGE, MOST) } else { PAGE };
        let rest = self.size - (address % PAGE as u64) as usize;
        self.start = address;
        memory.fill(address, rest.max(length), &mut self.bytes)
    }
}
