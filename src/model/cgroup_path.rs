//! Paths of cgroups, and whether one is at or below another.

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

    /// A path that begins with a slash, and those of all cgroups around it, the
    /// innermost first; the last one is `/`.
    pub fn upwards(path: &str) -> impl Iterator<Item = &str> {
        let inside = path.trim_end_matches('/');
        let named = std::iter::successors(Some(inside), |path| path.get(..path.rfind('/')?));
        let named = named.take_while(|path| !path.is_empty());
        named.chain(std::iter::once("/"))
    }

    /// The path without the slash at its beginning, to be opened in the directory
    /// of the root; empty for the root itself.
    #[must_use]
    pub fn relative(self) -> &'a [u8] {
        self.0.strip_prefix(b"/").unwrap_or(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let all = |path| CgroupPath::upwards(path).collect::<Vec<_>>();
        assert_eq!(all("/a/b/c"), ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!((all("/"), all("")), (vec!["/"], vec!["/"]));
    }

    /// Make sure that the root has no name to be opened.
    #[test]
    fn relative() {
        assert_eq!(CgroupPath::new("/").relative(), b"");
        assert_eq!(CgroupPath::new("/a/b/").relative(), b"a/b");
        assert_eq!(CgroupPath::new(b"/\xff").relative(), b"\xff");
    }
}
