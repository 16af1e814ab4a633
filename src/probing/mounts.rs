//! The lines of a mount table: `/proc/PID/mountinfo`, proc_pid_mountinfo(5).

/// Bytes that are read of gpumap's own table: as many as for cgroups.
pub(super) const OWN_LIMIT: usize = 64 << 20;
/// Bytes that are read of a process's: some ten thousand mounts. A user can
/// make more of them, and reading them is work.
pub(super) const LIMIT: usize = 4 << 20;

/// `LOOP_MAJOR` of `linux/major.h`.
const LOOP: u32 = 7;

/// A mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mount<'a> {
    /// Major and minor number of its file system, as `/proc/PID/maps` shows
    /// it. On btrfs those of fstat(2) are others (each subvolume has its own),
    /// and on overlayfs they can be.
    pub(super) device: (u32, u32),
    /// Whether set-user-ID bits are ignored.
    pub(super) nosuid: bool,
    /// The type of the file system.
    pub(super) kind: &'a [u8],
    /// What is mounted.
    source: &'a [u8],
    id: u64,
}

impl Mount<'_> {
    /// The same file system by a mount of which no more is known.
    pub(super) fn unbelieved(self) -> Self {
        Self { nosuid: true, ..self }
    }

    /// Whether a file holds the file system.
    pub(super) fn is_image(&self) -> bool {
        self.device.0 == LOOP || self.source.starts_with(b"/dev/loop")
    }
}

/// The mount with this id.
pub(super) fn by_id(table: &[u8], id: u64) -> Option<Mount<'_>> {
    mounts(table).find(|mount| mount.id == id)
}

/// The mounts of a file system.
pub(super) fn of_device(table: &[u8], device: (u32, u32)) -> impl Iterator<Item = Mount<'_>> {
    mounts(table).filter(move |mount| mount.device == device)
}

fn mounts(table: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(parse)
}

/// `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS TAG… - KIND SOURCE OPTIONS`; white
/// space in a field is escaped.
fn parse(line: &[u8]) -> Option<Mount<'_>> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let device = str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let nosuid = fields.nth(2)?.split(|byte| *byte == b',').any(|option| option == b"nosuid");
    fields.find(|field| *field == b"-")?;
    Some(Mount { device, nosuid, kind: fields.next()?, source: fields.next()?, id })
}

fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a mount is found by its whole number, and that rubbish
    /// says nothing.
    #[test]
    fn lines() {
        let table = b"2 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            22 2 0:45 /a /b\\040c ro,nosuid shared:1 master:2 - overlay none rw,lowerdir=/a - b\n\
            3\n4 1 x:y / / rw - ext4 a rw\n5 1 \xff:1 / / rw - ext4 a rw\n6 1 8:2 / / rw - ext4\n\
            9 2 7:3 / /x rw,nosuidx - squashfs /dev/loop3 ro\n9 2 0:3 / /x rw - btrfs /dev/loop0 ro\n";
        let found = by_id(table, 22).unwrap();
        assert_eq!((found.device, found.nosuid, found.kind), ((0, 45), true, &b"overlay"[..]));
        assert_eq!(by_id(table, 2).unwrap().device, (8, 1));
        for nothing in [3, 4, 5, 6, 1] {
            assert_eq!(by_id(table, nothing), None);
        }
        assert_eq!(of_device(table, (8, 1)).count(), 1);
        assert!(by_id(table, 9).unwrap().is_image() && !by_id(table, 9).unwrap().nosuid);
        assert!(of_device(table, (0, 3)).all(|mount| mount.is_image()) && !found.is_image());
    }
}
