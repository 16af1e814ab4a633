//! What the files of `/proc/PID` say, as bytes, each line by itself.
//!
//! The crate procfs-core reads what the kernel alone writes (`GpuFacts::drivers`). It is not
//! used here, because users choose names in these files and could hide processes with them
//! (seen in its version 0.18): `maps`, `mountinfo` and `cgroup` are lost as a whole where one
//! name is not UTF-8, mount points keep their escapes, the name in `stat` loses such bytes,
//! and a line of `stat` without a pid is a panic. Of `/proc/stat` it wants fields that
//! containers do not always have, where gpumap needs the boot time alone.

use std::path::Path;

use crate::observation::Text;
use crate::sys::dir::Dir;
use crate::sys::stat::stat_at;

/// Bytes of a path that `/proc/PID/cgroup` shows at most: `PATH_MAX` of
/// `linux/limits.h` without the final NUL. Of a longer path some kernels show the
/// beginning (6.18), and others show nothing and fail with `ENAMETOOLONG`. Whoever may
/// make cgroups can nest them so deeply.
const SHOWN: usize = 4095;

/// `PF_KTHREAD` of `linux/sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// `PF_EXITING` of `linux/sched.h`.
const EXITING: u32 = 0x4;

/// The fields of `stat` that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Field 2, without the parentheses.
    pub(crate) comm: Text,
    /// Field 3: one letter.
    pub(crate) state: u8,
    /// Field 4.
    pub(crate) parent: u32,
    /// Field 9, `PF_` of `linux/sched.h`.
    pub(crate) flags: u32,
    /// Field 20.
    pub(crate) threads: u32,
    /// Field 22, clock ticks since boot.
    pub(crate) start_time: u64,
    /// Fields 26 and 28, where code and stack begin: with addresses made at
    /// random they are others in every program that is executed. Not to be
    /// known without the right to look.
    pub(crate) starts: (u64, u64),
    /// Fields 48 and 49, since Linux 3.5: where the arguments begin and end; 0
    /// if that is not to be known.
    pub(crate) arguments: (u64, u64),
    /// Fields 50 and 51: the same of the environment.
    pub(crate) environment: (u64, u64),
}

/// Reads a `stat` line. The name may hold anything, `)` and newlines included,
/// but no field after it can, so it ends at the last `)`.
pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = text.get(open + 1..close)?.into();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // Field 3 is the first after the name; nth() counts from there.
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let flags = fields.nth(9 - 5)?.parse().ok()?;
    let threads = fields.nth(20 - 10)?.parse().ok()?;
    let start_time = fields.nth(22 - 21)?.parse().ok()?;
    let mut address = |skip| fields.nth(skip).and_then(|one| one.parse().ok()).unwrap_or(0);
    let starts = (address(26 - 23), address(28 - 27));
    let arguments = (address(48 - 29), address(0));
    let environment = (address(0), address(0));
    Some(Stat { comm, state, parent, flags, threads, start_time, starts, arguments, environment })
}

impl Stat {
    /// Whether this is a thread of the kernel.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether it has ended or is ending: it will not run again, and releases what
    /// it holds, which can take time.
    pub(crate) fn is_ending(&self) -> bool {
        self.has_ended() || self.flags & EXITING != 0
    }

    /// Whether it can have no memory: a thread of the kernel, or one that is ending.
    pub(crate) fn has_no_memory(&self) -> bool {
        self.is_kernel_thread() || self.is_ending()
    }

    /// Whether it has ended, and waits to be reaped or is being removed.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// The text of `cgroup`: a line for each hierarchy.
#[derive(Clone, Debug)]
pub(crate) struct CgroupLines(Vec<u8>);

impl CgroupLines {
    /// Takes the text of the file.
    pub(crate) fn new(text: Vec<u8>) -> Self {
        Self(text)
    }

    /// The path in cgroup2 (`0::`).
    pub(crate) fn unified(&self) -> Option<&[u8]> {
        self.path(|id, controllers| id == b"0" && controllers.is_empty())
    }

    /// The path in the hierarchy of the v1 devices controller.
    pub(crate) fn devices(&self) -> Option<&[u8]> {
        self.path(|_, controllers| controllers.split(|byte| *byte == b',').any(|one| one == b"devices"))
    }

    fn path(&self, is_it: impl Fn(&[u8], &[u8]) -> bool) -> Option<&[u8]> {
        self.0.split(|byte| *byte == b'\n').find_map(|line| {
            let mut fields = line.splitn(3, |byte| *byte == b':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            is_it(id, controllers).then_some(path)
        })
    }
}

/// The numbers of the line `Uid:` of `status`: real, effective, saved and of the file system.
pub(in crate::observe) fn uids(status: &[u8]) -> Option<[u32; 4]> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let mut numbers = str::from_utf8(line).ok()?.split_ascii_whitespace().map_while(|one| one.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?])
}

/// How many pid namespaces a process is in, from that of the proc file system down to its
/// own: numbers of the line `NSpid:` of `status`; 0 before Linux 4.1, which has none.
pub(in crate::observe) fn pid_namespaces(status: &[u8]) -> usize {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    line.map_or(0, |line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count())
}

/// Whether a path from the text of `cgroup` may be the beginning of a longer one.
pub(in crate::observe) fn may_be_cut(path: &[u8]) -> bool {
    path.len() >= SHOWN
}

/// Whether a cgroup in which a process was found, by its path below the mount, can be
/// the one of which this is shown: the whole path of the hierarchy `whole` may be longer
/// than `shown`, which is `None` where nothing is shown.
pub(in crate::observe) fn can_be(whole: &[u8], shown: Option<&[u8]>) -> bool {
    whole.len() >= SHOWN && shown.is_none_or(|shown| whole.starts_with(shown))
}

/// Whether a proc file system is gpumap's own.
pub(in crate::observe) fn is_own(proc: &Path) -> bool {
    let place = |path: &Path| {
        // One that cannot be looked at is not taken for gpumap's own: reading takes longer, and
        // gpumap's own processes are among those that are read.
        let stat = stat_at(&Dir::open(path).ok()?, c"").ok()?;
        Some((stat.dev, stat.inode))
    };
    let usual = Path::new("/proc");
    proc == usual || place(proc).is_some_and(|one| Some(one) == place(usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &[u8]) -> Vec<u8> {
        let rest = " S 1 2 3 4 5 7 7 8 9 10 11 12 13 14 15 16 17 18 8675309 20 21 22 26 24 28";
        let more: String = (29..53).map(|field| format!(" {field}")).collect();
        [b"17 (", comm, b")", rest.as_bytes(), more.as_bytes(), b"\n"].concat()
    }

    /// Make sure that no name can forge the fields after it.
    #[test]
    fn hostile_names() {
        for comm in [&b"bash"[..], b") S 1 2 (", b"a\nb)", b"\xff\x1b[2J", b"", b"((", b"))"] {
            let text = stat(comm);
            let (state, parent, flags, threads, start_time) = (b'S', 1, 7, 17, 8675309);
            let (starts, arguments, environment) = ((26, 28), (48, 49), (50, 51));
            let expected = Stat {
                comm: comm.into(),
                state,
                parent,
                flags,
                threads,
                start_time,
                starts,
                arguments,
                environment,
            };
            assert_eq!(parse_stat(&text), Some(expected), "{}", comm.escape_ascii());
        }
        for bad in [&b""[..], b"17 (x) S 1 2", b"17 x", b")(", b"17 (x"] {
            assert_eq!(parse_stat(bad), None);
        }
    }

    /// Make sure that names with colons and foreign bytes stay whole.
    #[test]
    fn cgroup_lines() {
        let text = b"9:name=devices:/no\n5:cpu,devices:/a:b\n0::/x\xff/0::y\nrubbish\n";
        let lines = CgroupLines::new(text.to_vec());
        assert_eq!(lines.devices(), Some(&b"/a:b"[..]));
        assert_eq!(lines.unified(), Some(&b"/x\xff/0::y"[..]));
        assert_eq!(CgroupLines::new(b"1:name=systemd:/\n".to_vec()).unified(), None);
    }

    /// Make sure that all four uids are read, or none.
    #[test]
    fn owners() {
        assert_eq!(uids(b"Name:\ta\nUid:\t7\t8\t9\t10\nGid:\t1\n"), Some([7, 8, 9, 10]));
        assert_eq!((uids(b"Name:\tUid:\n"), uids(b"Uid:\t7\n")), (None, None));
        let namespaces = [b"NSpid:\t7\t1\n" as &[u8], b"a\nNSpid:\t7\nb\n", b"Pid:\t7\n"].map(pid_namespaces);
        assert_eq!(namespaces, [2, 1, 0]);
    }
}
