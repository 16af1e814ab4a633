//! Reads the fields of a structure that the kernel wrote, at a place or in their order, in
//! this machine's byte order. A structure that ends too early has no field there.

/// The 2 bytes at a place as a number.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Fields(bytes.get(at..)?).half()
}

/// The 4 bytes at a place as a number.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Fields(bytes.get(at..)?).word()
}

/// The 8 bytes at a place as a number.
pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Fields(bytes.get(at..)?).long()
}

/// Takes numbers from the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next 8 bytes as a number.
    pub fn long(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    /// The next 4.
    pub fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    /// The next 2.
    pub fn half(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_ne_bytes)
    }

    /// The next numbers of 8 bytes each.
    pub fn longs<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.long()?;
        }
        Some(numbers)
    }

    /// The next numbers of 4 bytes each.
    pub fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.word()?;
        }
        Some(numbers)
    }

    /// The next bytes.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// The next bytes of a text that ends with the first zero among them.
    pub fn text<const N: usize>(&mut self) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        bytes.split(|byte| *byte == 0).next()
    }
}
