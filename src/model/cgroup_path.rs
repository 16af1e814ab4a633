//! Paths of cgroups: what a user's path means, and whether one cgroup is at or below
//! another.
//!
//! There is one grammar for a path that somebody typed, [`CgroupPathBuf::typed`], whether
//! the cgroup is looked for on the node or in a saved observation. A path that the kernel
//! told is a path already ([`CgroupPath::new`], [`CgroupPathBuf::observed`]) and is never
//! read by that grammar: a cgroup may be called `sys` or `0::`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// A cgroup's path from the cgroup root: `/` is the root, and slashes at the end are
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupPath<'a>(&'a [u8]);

impl<'a> CgroupPath<'a> {
    /// The path with these bytes.
    pub fn new(path: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let path = path.as_ref();
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        Self(path.get(..end).unwrap_or_default())
    }

    /// Whether it is `top` or inside of it.
    #[must_use]
    pub fn is_at_or_below(self, top: CgroupPath<'_>) -> bool {
        self.0.strip_prefix(top.0).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }

    /// Whether it is inside of `top`, and not that itself.
    #[must_use]
    pub fn is_below(self, top: CgroupPath<'_>) -> bool {
        self.is_at_or_below(top) && self.0.len() > top.0.len()
    }

    /// The bytes of the path, without slashes at the end; `/` for the root.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        if self.0.is_empty() { b"/" } else { self.0 }
    }

    /// The last name of the path; empty for the root.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Whether somebody may mean this cgroup who calls it so: by its last name, with or without
    /// the kind of a unit, or by the id of a container or pod, or the beginning of one, in it.
    #[must_use]
    pub fn may_be_called(self, word: &[u8]) -> bool {
        let name = self.name();
        let unit = name.rsplitn(2, |byte| *byte == b'.').last().unwrap_or(name);
        if word.is_empty() || name == word || unit == word {
            return !word.is_empty();
        }
        // systemd has '_' for the '-' of a pod's id.
        let as_unit: Vec<u8> = word.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte }).collect();
        let has = |id: &[u8]| name.windows(id.len()).any(|part| part == id);
        is_id(word) && (has(word) || has(&as_unit))
    }

    /// The cgroup around it; `None` for the root.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        self.0.get(..slash).map(Self)
    }

    /// The path and those of all cgroups around it, the innermost first; the last one
    /// is the root.
    pub fn upwards(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |path| path.parent())
    }

    /// The paths from the root's child down to this one, the outermost first. The root
    /// itself is not among them.
    pub fn downwards(self) -> impl Iterator<Item = Self> {
        let slashes = self.0.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let ends = slashes.chain((!self.0.is_empty()).then_some(self.0.len()));
        ends.filter_map(move |end| self.0.get(..end).map(Self))
    }

    /// The bytes of the path of its child with this name.
    #[must_use]
    pub fn child(self, name: &[u8]) -> Vec<u8> {
        [self.0, b"/", name].concat()
    }

    /// The path without the slash at its beginning, to be opened in the directory
    /// of the root; empty for the root itself.
    #[must_use]
    pub fn relative(self) -> &'a [u8] {
        self.0.strip_prefix(b"/").unwrap_or(self.0)
    }

    /// The names on the way from the root; none for the root itself.
    pub fn names(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }
}

/// A cgroup's path from the cgroup root, owned: `/`, or names with a `/` before each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupPathBuf(Vec<u8>);

impl CgroupPathBuf {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self(b"/".to_vec())
    }

    /// The path of a cgroup that was observed.
    pub fn observed(path: impl AsRef<[u8]>) -> Self {
        Self(CgroupPath::new(&path).as_bytes().to_vec())
    }

    /// The path with these names.
    pub fn of_names(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let path =
            names.into_iter().fold(Vec::new(), |path, name| [&path, &b"/"[..], name.as_ref()].concat());
        if path.is_empty() { Self::root() } else { Self(path) }
    }

    /// A path as it was typed, without the `0::` of a line of `/proc/PID/cgroup`.
    #[must_use]
    pub fn pasted(text: &OsStr) -> &Path {
        let path = text.as_bytes().strip_prefix(b"0::").unwrap_or(text.as_bytes());
        Path::new(OsStr::from_bytes(path))
    }

    /// What a path means that somebody typed, where the hierarchy is mounted at `mount`: a
    /// path below that, or a path from the root, with or without a `/` before it. `.` and
    /// `..` are resolved in the text. `None` if it leads above the root.
    #[must_use]
    pub fn typed(path: &Path, mount: &Path) -> Option<Self> {
        let below =
            if mount.as_os_str().is_empty() { path } else { path.strip_prefix(mount).unwrap_or(path) };
        let mut names = Vec::new();
        for component in below.components() {
            match component {
                Component::Normal(name) => names.push(name.as_bytes()),
                Component::ParentDir => drop(names.pop()?),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Some(Self::of_names(names))
    }

    /// The path, borrowed.
    #[must_use]
    pub fn as_path(&self) -> CgroupPath<'_> {
        CgroupPath::new(&self.0)
    }
}

impl From<CgroupPathBuf> for Vec<u8> {
    fn from(path: CgroupPathBuf) -> Self {
        path.0
    }
}

/// For messages, and for what takes paths of files.
impl From<&CgroupPathBuf> for PathBuf {
    fn from(path: &CgroupPathBuf) -> Self {
        OsStr::from_bytes(&path.0).into()
    }
}

impl AsRef<[u8]> for CgroupPathBuf {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Letters of the shortest id that is taken for one: so many are shown of a commit, and fewer
/// than any tool shows of a container.
const ID: usize = 7;

/// Whether a word may be the id of a container or pod, or its beginning: hexadecimal digits,
/// with a letter, so that no job's number is taken for one.
#[must_use]
pub fn is_id(word: &[u8]) -> bool {
    word.len() >= ID
        && word.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
        && word.iter().any(u8::is_ascii_alphabetic)
        && word.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a cgroup is found by its name, by a unit's name without its kind, and by
    /// an id in it, and by no job's number.
    #[test]
    fn called() {
        let is = |path: &str, word: &str| CgroupPath::new(path.as_bytes()).may_be_called(word.as_bytes());
        assert!(is("/system.slice/job_2", "job_2") && is("/system.slice/sshd.service", "sshd"));
        assert!(is("/docker/bc5e403af8fee1700869", "bc5e403af8fe"));
        assert!(is("/system.slice/docker-bc5e403af8fee1700869.scope", "bc5e403af8fe"));
        assert!(is("/kubepods.slice/kubepods-pod3a5b1c7e_1111_2222.slice", "3a5b1c7e-1111-2222"));
        assert!(
            !is("/slurm/job_12345678", "12345678") && !is("/docker/bc5e403af8fe", "bc5e") && !is("/a", "")
        );
    }

    /// Make sure that a name which only starts alike is not inside, and that
    /// everything is inside of the root.
    #[test]
    fn places() {
        let below = |path: &str, top: &str| CgroupPath::new(path).is_below(CgroupPath::new(top));
        let at_or_below = |path: &str, top: &str| CgroupPath::new(path).is_at_or_below(CgroupPath::new(top));
        for (path, top) in [("/a/b", "/a"), ("/a/b/c", "/a/"), ("/a", "/"), ("/a", "")] {
            assert!(below(path, top) && at_or_below(path, top), "{path} {top}");
        }
        for (path, top) in [("/a", "/a"), ("/a/", "/a"), ("/a", "/a//"), ("/", "/"), ("", "/")] {
            assert!(!below(path, top) && at_or_below(path, top), "{path} {top}");
        }
        for (path, top) in [("/ab", "/a"), ("/a", "/a/b"), ("/", "/a"), ("/b", "/a")] {
            assert!(!below(path, top) && !at_or_below(path, top), "{path} {top}");
        }
    }

    /// Make sure that every cgroup around a path is named once, the root last.
    #[test]
    fn upwards() {
        let all = |path| {
            let paths = CgroupPath::new(path).upwards();
            paths.map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(all("/a/b/c"), ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!((all("/"), all("")), (vec!["/".to_owned()], vec!["/".to_owned()]));
    }

    /// Make sure that the levels of a path are named once, the outermost first, and
    /// that the root has none.
    #[test]
    fn downwards() {
        let all = |path| CgroupPath::new(path).downwards().map(CgroupPath::as_bytes).collect::<Vec<_>>();
        assert_eq!(all("/a/b/c"), [b"/a".as_slice(), b"/a/b", b"/a/b/c"]);
        assert_eq!((all("/"), all("")), (vec![], vec![]));
    }

    /// Make sure that the root has no parent and no name, and that a child's parent is
    /// the cgroup that it was made of.
    #[test]
    fn relatives() {
        let root = CgroupPath::new("/");
        assert_eq!((root.parent(), root.name()), (None, b"".as_slice()));
        assert_eq!((root.child(b"x"), CgroupPath::new("/y").child(b"x")), (b"/x".to_vec(), b"/y/x".to_vec()));
        let inner = CgroupPath::new("/y/x/");
        assert_eq!((inner.parent(), inner.name()), (Some(CgroupPath::new("/y")), b"x".as_slice()));
        assert_eq!(CgroupPath::new("/y").parent(), Some(root));
    }

    /// Make sure that the root has no name to be opened.
    #[test]
    fn relative() {
        assert_eq!(CgroupPath::new("/").relative(), b"");
        assert_eq!(CgroupPath::new("/a/b/").relative(), b"a/b");
        assert_eq!(CgroupPath::new(b"/\xff").relative(), b"\xff");
    }

    /// Make sure that a typed path means one cgroup however it is written, and that none
    /// leads out of the hierarchy.
    #[test]
    fn typed() {
        let of = |path: &str, mount: &str| CgroupPathBuf::typed(Path::new(path), Path::new(mount));
        let root = "/sys/fs/cgroup";
        for (path, expected) in [
            ("/sys/fs/cgroup/a/b", "/a/b"),
            ("/sys/fs/cgroup/", "/"),
            ("/sys/fs/cgroup", "/"),
            ("/sys/fs/cgroupx/a", "/sys/fs/cgroupx/a"),
            ("/a//b/./c/../d/", "/a/b/d"),
            ("/a/../a", "/a"),
            ("a/./b", "/a/b"),
            ("/", "/"),
            (".", "/"),
        ] {
            assert_eq!(of(path, root), Some(CgroupPathBuf::observed(expected)), "{path}");
        }
        for path in ["..", "a/../..", "/..", "/sys/fs/cgroup/.."] {
            assert_eq!(of(path, root), None, "{path}");
        }
        for mount in ["", "/"] {
            assert_eq!(of("/a", mount), Some(CgroupPathBuf::observed("/a")));
        }
    }

    /// Make sure that a path that was observed is the one that its names make.
    #[test]
    fn names() {
        for path in ["/", "/a", "/a/b"] {
            let path = CgroupPathBuf::observed(path);
            assert_eq!(CgroupPathBuf::of_names(path.as_path().names()), path);
        }
        assert_eq!(
            (CgroupPathBuf::observed(""), CgroupPathBuf::observed("/a/")),
            (CgroupPathBuf::root(), CgroupPathBuf::of_names(["a"]))
        );
    }
}
