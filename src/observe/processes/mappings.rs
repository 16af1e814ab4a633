//! Parses the lines of `/proc/PID/maps` that name a file.

/// A mapping of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Offset of `start` in the file.
    pub(crate) offset: u64,
    pub(crate) executable: bool,
    /// Whether what is written there goes into the file (`w` and `s`).
    pub(crate) writes_file: bool,
    /// Major and minor number of the file system.
    pub(crate) dev: (u32, u32),
    pub(crate) inode: u64,
    /// The path in the process's root directory; newlines are escaped, and `
    /// (deleted)` follows that of a removed file.
    pub(crate) path: &'a [u8],
}

/// The mappings of files in the text of `maps`; lines that are malformed or cut are
/// left out.
pub(crate) fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| parse(line.strip_suffix(b"\n")?))
}

/// `START-END PERMS OFFSET MAJOR:MINOR INODE    PATH`; anonymous memory has
/// inode 0.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = number(line, b'-', 16)?;
    let (end, rest) = number(rest, b' ', 16)?;
    let (executable, writes_file) = (*rest.get(2)? == b'x', *rest.get(1)? == b'w' && *rest.get(3)? == b's');
    let rest = rest.get(5..)?;
    let (offset, rest) = number(rest, b' ', 16)?;
    let (major, rest) = number(rest, b':', 16)?;
    let (minor, rest) = number(rest, b' ', 16)?;
    let (inode, rest) = number(rest, b' ', 10)?;
    if inode == 0 {
        return None;
    }
    let dev = (u32::try_from(major).ok()?, u32::try_from(minor).ok()?);
    let path = rest.trim_ascii_start();
    Some(Mapping { start, end, offset, executable, writes_file, dev, inode, path })
}

/// A number up to `end`, and the rest after it.
fn number(text: &[u8], end: u8, base: u32) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    for (at, byte) in text.iter().enumerate() {
        if *byte == end {
            return (at > 0).then_some((value, text.get(at + 1..)?));
        }
        let digit = char::from(*byte).to_digit(base)?;
        value = value.checked_mul(base.into())?.checked_add(digit.into())?;
    }
    None
}

impl<'a> Mapping<'a> {
    /// The last part of the path, without the mark of a removed file.
    pub(crate) fn name(&self) -> &'a [u8] {
        let path = self.path.strip_suffix(b" (deleted)").unwrap_or(self.path);
        path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
    }

    /// Which file it is.
    pub(crate) fn file(&self) -> ((u32, u32), u64) {
        (self.dev, self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only whole lines of files are taken, with any path.
    #[test]
    fn lines() {
        let text = b"7f10-7f20 r-xp 0000a000 fd:1f 17      /a b\\012/libc.so.6 (deleted)\n\
            7f20-7f30 rw-p 00000000 00:00 0       [heap]\n7f30-7f40 rw-s 0 00:05 9 \nx\n\
            ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]\n7f40-7f50 r--p 0 00:01 7 /cut";
        let found: Vec<_> = mappings(text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let path = &b"/a b\\012/libc.so.6 (deleted)"[..];
        let (start, end, offset, dev) = (0x7f10, 0x7f20, 0xa000, (0xfd, 0x1f));
        let (executable, writes_file) = (true, false);
        assert_eq!(found[0], Mapping { start, end, offset, executable, writes_file, dev, inode: 17, path });
        assert_eq!(found[0].name(), b"libc.so.6");
        assert!(found[1].path.is_empty() && !found[1].executable && found[1].writes_file);
    }
}
