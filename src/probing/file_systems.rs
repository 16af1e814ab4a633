//! What a file lies on: whether reading it can wait for a user, whether its owner can be
//! believed, and which file an overlay shows.
//!
//! While the kernel puts a breakpoint into a file it reads the page, and lets no
//! process of the node fork meanwhile. So a file that a user serves (FUSE, or
//! an overlay that a user made of such) is not touched at all. fstatfs(2) is no
//! way to tell: it asks the server too. The mount table is: the kernel answers
//! for it alone.
//!
//! Containers of one image have overlays of their own, and each shows the same library as
//! a file with other numbers. The kernel puts a probe into the file beneath, so that one
//! which is attached through two overlays counts each call twice. The files beneath tell
//! who shares probes.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::look::Mapped;
use crate::observe::mountinfo::{MountLine, OWN_TABLE_LIMIT, mounts};
use crate::sys::dir::{Dir, read_all};
use crate::sys::regular_file::RegularFile;
use crate::sys::stat::stat_at;
use crate::sys::{file_handle, namespace};

/// Bytes that are read of a process's mount table: some ten thousand mounts. A user can
/// make more of them, and reading them is work.
const LIMIT: usize = 4 << 20;

/// `LOOP_MAJOR` of `linux/major.h`.
const LOOP: u32 = 7;

/// File systems that only root of the node can mount, or that hold files in
/// memory: nobody is asked for a page but a disk, or a server that root chose.
const ANSWER: [&[u8]; 39] = [
    b"9p",
    b"afs",
    b"bcachefs",
    b"beegfs",
    b"btrfs",
    b"ceph",
    b"cifs",
    b"cramfs",
    b"erofs",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"gfs2",
    b"gpfs",
    b"iso9660",
    b"jffs2",
    b"jfs",
    b"lustre",
    b"nfs",
    b"nfs4",
    b"nilfs2",
    b"ocfs2",
    b"orangefs",
    b"panfs",
    b"pvfs2",
    b"ramfs",
    b"reiserfs",
    b"romfs",
    b"rootfs",
    b"smb3",
    b"squashfs",
    b"tmpfs",
    b"ubifs",
    b"udf",
    b"virtiofs",
    b"wekafs",
    b"xfs",
    b"zfs",
];

/// Shows files of other file systems: what these are, its maker chose.
const OVERLAY: &[u8] = b"overlay";

/// The mount tables of this process and of others.
#[derive(Debug)]
pub(super) struct FileSystems {
    own: Vec<u8>,
    other: Vec<u8>,
    /// This process's user namespace.
    user: Option<u64>,
}

/// What is known of the place of a file that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbedFileSystem {
    /// The file system, as `/proc/PID/maps` shows it.
    pub(super) device: (u32, u32),
    /// Whether maps show the same inode number as statx(2).
    pub(super) numbered: bool,
    /// Whether root mounted it and believes in its owners: set-user-ID bits are
    /// heeded there, so who could forge an owner would be root already.
    pub(super) believed: bool,
}

impl FileSystems {
    /// Nothing read yet.
    pub(super) fn new() -> Self {
        let user =
            Dir::open("/proc/self/ns".as_ref()).and_then(|dir| inode(&namespace::open(&dir, c"user")?));
        // Without it every file system counts as a user's, which is the careful side.
        Self { own: Vec::new(), other: Vec::new(), user: user.ok() }
    }

    /// The user namespace of this process, by its inode number.
    pub(super) fn user(&self) -> Option<u64> {
        self.user
    }

    /// What a file lies on that is held open, found in this process's mount
    /// table or in that of `process`, a directory of `/proc`.
    ///
    /// # Errors
    ///
    /// Why it must not be read.
    pub(super) fn of(
        &mut self,
        file: &RegularFile,
        process: Option<&Dir>,
    ) -> Result<ProbedFileSystem, String> {
        // Anew each time: ids of mounts are used again. That of the file stays
        // as long as it is held.
        own(&mut self.own);
        let Some(id) = file.stat().mount else { return Err(unknown()) };
        if let Some(mount) = by_id(&self.own, id) {
            return judge(&mount, true, !is_nosuid(&mount));
        }
        let roots = process.is_some_and(|process| self.read(process));
        if let Some(mount) = by_id(&self.other, id) {
            // In a namespace of a user's it may be root's all the same: a
            // container engine's, which has another mount of it on the node.
            let known = of_device(&self.own, mount.device).any(|mount| !is_nosuid(&mount));
            return judge(&mount, roots || known, !is_nosuid(&mount));
        }
        let mount = of_device(&self.own, file.stat().dev).next();
        let mount = mount.filter(|mount| mount.kind != OVERLAY).ok_or_else(unknown)?;
        judge(&mount, false, false)
    }

    /// Reads the mount table of a process. Whether it is one of root's: its
    /// mount namespace belongs to this process's user namespace.
    fn read(&mut self, process: &Dir) -> bool {
        // Of a file in no table it is said that its file system is not known.
        if process.read_into(c"mountinfo", &mut self.other, LIMIT).is_err() {
            self.other.clear();
            return false;
        }
        // Afterwards: a process leaves root's namespace for one of its own, and
        // never comes back.
        let owner = Dir::child(process, c"ns").and_then(|ns| namespace::open(&ns, c"mnt"));
        let owner = owner.and_then(namespace::owner).and_then(|owner| inode(&owner));
        // One that cannot be asked counts as a user's, which is the careful side.
        owner.is_ok_and(|owner| Some(owner) == self.user)
    }
}

fn own(table: &mut Vec<u8>) {
    let file = Dir::open("/proc/self".as_ref()).and_then(|dir| dir.open_file(c"mountinfo"));
    // Of a file in no table it is said that its file system is not known.
    if file.and_then(|file| read_all(file, table, OWN_TABLE_LIMIT)).is_err() {
        table.clear();
    }
}

fn inode(namespace: &OwnedFd) -> Result<u64, Errno> {
    stat_at(namespace, c"").map(|stat| stat.inode)
}

/// The mount with this id.
fn by_id(table: &[u8], id: u64) -> Option<MountLine<'_>> {
    mounts(table).find(|mount| mount.id == id)
}

/// The mounts of a file system.
fn of_device(table: &[u8], device: (u32, u32)) -> impl Iterator<Item = MountLine<'_>> {
    mounts(table).filter(move |mount| mount.device == device)
}

/// Whether set-user-ID bits are ignored.
fn is_nosuid(mount: &MountLine<'_>) -> bool {
    mount.has_option(b"nosuid")
}

/// Whether a file holds the file system.
fn is_image(mount: &MountLine<'_>) -> bool {
    mount.device.0 == LOOP || mount.source.starts_with(b"/dev/loop")
}

/// What is known of files on a mount; `roots`: whether root made the mount; `suid`: whether
/// set-user-ID bits of its files count, as far as is known.
fn judge(mount: &MountLine<'_>, roots: bool, suid: bool) -> Result<ProbedFileSystem, String> {
    let overlay = mount.kind == OVERLAY;
    if is_image(mount) && !suid {
        // As starters of containers with the right to mount do it for users.
        return Err("it lies in a disk image that may be a user's".to_owned());
    }
    if overlay && (!roots || !suid) {
        return Err(
            "it lies on an overlay that a user made, of file systems that may never answer".to_owned()
        );
    }
    if !overlay && !ANSWER.contains(&mount.kind) {
        let kind = String::from_utf8_lossy(mount.kind).into_owned();
        return Err(format!("it lies on a file system ({kind}) that may never answer"));
    }
    Ok(ProbedFileSystem { device: mount.device, numbered: !overlay, believed: roots && suid })
}

fn unknown() -> String {
    "the file system that it lies on is in no mount table (a file in memory, or an unmounted one)".to_owned()
}

/// A file beneath an overlay, with the time of the last change of its inode: no user can
/// set that, and a file that an overlay copied into its upper layer has another one, though
/// it may keep the handle of what it is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Beneath {
    number: Number,
    changed: (i64, u32),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Number {
    /// Device and inode, which maps show on older kernels.
    Inode((u32, u32), u64),
    /// The handle.
    Handle(Vec<u8>),
    /// The inode number that the overlay shows, which is that of the file beneath, with the
    /// time of the last change of its contents and its size: where nothing else tells it.
    Shown(u64, (i64, u32), u64),
}

impl Beneath {
    /// The file that an overlay of this device shows as `file`, which a process has mapped
    /// as `mapped`. Where neither tells it, what the overlay shows has to do: before Linux
    /// 6.6 for a file that no process has mapped, and for all on kernels whose maps show
    /// the overlay (Ubuntu's 5.15); above file systems without handles.
    ///
    /// # Errors
    ///
    /// Why the kernel does not tell, although it could.
    pub(super) fn of(
        file: &RegularFile,
        overlay: (u32, u32),
        mapped: Option<Mapped>,
    ) -> Result<Self, String> {
        let stat = file.stat();
        let number = match mapped.filter(|mapped| mapped.device != overlay) {
            Some(mapped) => Number::Inode(mapped.device, mapped.inode),
            None => match file_handle::of(file) {
                Ok(handle) => Number::Handle(handle),
                Err(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => {
                    Number::Shown(stat.inode, stat.modified, stat.size)
                }
                Err(errno) => return Err(format!("the file beneath it is not known ({})", errno.desc())),
            },
        };
        Ok(Self { number, changed: stat.changed })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::observe::processes::mapped_files::mappings;

    /// Make sure that a mapped file is the same by its map and by itself.
    #[test]
    fn as_in_maps() {
        let maps = fs::read("/proc/self/maps").unwrap();
        let exe = fs::canonicalize("/proc/self/exe").unwrap();
        let mapping = mappings(&maps).find(|mapping| mapping.path == exe.as_os_str().as_bytes()).unwrap();
        let file = RegularFile::find_path(&exe).unwrap();
        let file_system = FileSystems::new().of(&file, None).unwrap();
        assert_eq!(file_system.device, mapping.dev);
        assert!(!file_system.numbered || file.stat().inode == mapping.inode);
    }

    /// Make sure that what a user can serve is not read, and that owners are
    /// believed only where root does.
    #[test]
    fn judged() {
        let judged = |text: &str, roots| {
            let line = format!("7 1 0:9 / / {text} rw\n");
            by_id(line.as_bytes(), 7)
                .map(|mount| judge(&mount, roots, !is_nosuid(&mount)).map(|file_system| file_system.believed))
        };
        assert_eq!(judged("rw - ext4 /dev/sda1", true), Some(Ok(true)));
        assert_eq!(judged("rw,nosuid - nfs4 server:/home", true), Some(Ok(false)));
        assert_eq!(judged("rw - tmpfs none", false), Some(Ok(false)));
        assert_eq!(judged("rw - overlay overlay", true), Some(Ok(true)));
        assert_eq!(judged("rw - squashfs /dev/loop0", true), Some(Ok(true)));
        for (served, roots) in [
            ("rw - overlay overlay", false),
            ("rw,nosuid - overlay overlay", true),
            ("rw,nosuid - squashfs /dev/loop0", true),
            ("rw - fuse server", true),
            ("rw - fuse.sshfs server", true),
            ("rw - fuseblk /dev/sda1", true),
            ("rw - something new", true),
        ] {
            assert!(judged(served, roots).unwrap().is_err(), "{served}");
        }
    }
}
