//! The monitored cgroups by path.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use crate::model::CgroupPath;
use crate::observation::{Cgroup, Scope, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::dir::{Dir, DirStat};

/// One cgroup.
#[derive(Debug)]
pub(super) struct CgroupNode {
    pub(super) cgroup: Cgroup,
    /// Revision of the own list; 0 in most kernels before 6.17.
    pub(super) revision: u64,
    /// Link count of the directory: it changes with its children.
    pub(super) links: u64,
    /// Whether it was asked for, or is only an ancestor.
    pub(super) requested: bool,
    /// Held open if the limit of open files permits.
    dir: Option<Dir>,
}

/// All monitored cgroups.
#[derive(Debug)]
pub(super) struct Nodes {
    all: BTreeMap<Text, CgroupNode>,
    by_id: HashMap<u64, Text>,
    scope: Vec<Scope>,
    /// The most cgroups that are monitored.
    most: usize,
    /// How many more directories may stay open.
    room: u64,
}

impl CgroupNode {
    /// Sets the revision; returns how many changes lie between, if that is known.
    pub(super) fn advance(&mut self, revision: u64) -> u64 {
        let count = if self.revision == 0 { 0 } else { revision.saturating_sub(self.revision) };
        self.revision = self.revision.max(revision);
        count
    }
}

impl Nodes {
    /// No cgroups yet, and at most so many. Leaves half of the open files to other
    /// uses.
    pub(super) fn new(scope: Vec<Scope>, most: usize) -> Self {
        // Without room directories are opened anew each time, which is only slower.
        let room = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / 2);
        Self { all: BTreeMap::new(), by_id: HashMap::new(), scope, most, room }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.most
    }

    /// Whether a cgroup is asked for (true), leads to one that is (false), or
    /// neither.
    pub(super) fn wanted(&self, path: &Text) -> Option<bool> {
        let asked = |scope: &Scope| scope.path == *path || scope.recursive && is_below(path, &scope.path);
        if self.scope.iter().any(asked) {
            return Some(true);
        }
        let leads = |scope: &Scope| is_below(&scope.path, path);
        self.scope.iter().any(leads).then_some(false)
    }

    pub(super) fn insert(&mut self, cgroup: Cgroup, stat: DirStat, requested: bool, dir: Dir) {
        let dir = (self.room > 0).then_some(dir);
        self.room -= u64::from(dir.is_some());
        let path = cgroup.path.clone();
        self.by_id.insert(cgroup.id, path.clone());
        let node = CgroupNode { cgroup, revision: 0, links: stat.links, requested, dir };
        self.all.insert(path, node);
    }

    /// Removes a cgroup and everything below, and returns them.
    pub(super) fn remove(&mut self, path: &Text) -> Vec<Cgroup> {
        let paths: Vec<Text> = self.below(path);
        let gone: Vec<CgroupNode> = paths.iter().filter_map(|path| self.all.remove(path)).collect();
        self.room += gone.iter().filter(|node| node.dir.is_some()).count() as u64;
        gone.into_iter()
            .map(|node| {
                if self.by_id.get(&node.cgroup.id) == Some(&node.cgroup.path) {
                    self.by_id.remove(&node.cgroup.id);
                }
                node.cgroup
            })
            .collect()
    }

    pub(super) fn get(&self, path: &Text) -> Option<&CgroupNode> {
        self.all.get(path)
    }

    pub(super) fn get_mut(&mut self, path: &Text) -> Option<&mut CgroupNode> {
        self.all.get_mut(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Text, &CgroupNode)> {
        self.all.iter()
    }

    pub(super) fn path_of(&self, id: u64) -> Option<&Text> {
        self.by_id.get(&id)
    }

    /// A cgroup and everything below, parents first.
    pub(super) fn below(&self, path: &Text) -> Vec<Text> {
        if path.as_bytes() == b"/" {
            return self.all.keys().cloned().collect();
        }
        let end = |last: u8| Text::from([path.as_bytes(), &[last]].concat());
        // '0' is the byte after '/'.
        let below = self.all.range(end(b'/')..end(b'0')).map(|(path, _)| path.clone());
        self.all.contains_key(path).then(|| path.clone()).into_iter().chain(below).collect()
    }

    /// The monitored children.
    pub(super) fn children(&self, path: &Text) -> Vec<Text> {
        let own = |below: &Text| parent(below).as_ref() == Some(path);
        self.below(path).into_iter().filter(own).collect()
    }

    /// Calls `visit` with the directory of a cgroup, which is opened again if it is
    /// not kept open.
    pub(super) fn with_dir<T>(
        &self,
        hierarchy: &Hierarchy,
        path: &Text,
        visit: impl FnOnce(&Dir) -> T,
    ) -> Result<T, Errno> {
        match self.get(path) {
            Some(CgroupNode { dir: Some(dir), .. }) => Ok(visit(dir)),
            Some(node) => {
                let dir = open(hierarchy, path)?;
                // Another cgroup of the same name is another cgroup.
                let same = dir.stat()?.inode == node.cgroup.id;
                if same { Ok(visit(&dir)) } else { Err(Errno::ENOENT) }
            }
            None => open(hierarchy, path).map(|dir| visit(&dir)),
        }
    }

    /// Opens a cgroup that is not monitored yet.
    pub(super) fn open(&self, hierarchy: &Hierarchy, path: &Text) -> Result<Dir, Errno> {
        let above = parent(path).and_then(|above| self.get(&above));
        match above {
            Some(CgroupNode { dir: Some(dir), .. }) => {
                dir.child(OsStr::from_bytes(CgroupPath::new(path).name()))
            }
            _ => open(hierarchy, path),
        }
    }
}

fn open(hierarchy: &Hierarchy, path: &Text) -> Result<Dir, Errno> {
    let below = CgroupPath::new(path).relative();
    let below = if below.is_empty() { b".".as_slice() } else { below };
    hierarchy.handle.child(&PathBuf::from(OsStr::from_bytes(below)))
}

fn is_below(path: &Text, top: &Text) -> bool {
    CgroupPath::new(path).is_below(CgroupPath::new(top))
}

/// The cgroup above.
pub(super) fn parent(path: &Text) -> Option<Text> {
    CgroupPath::new(path).parent().map(|above| above.as_bytes().into())
}

/// The path of a child.
pub(super) fn child(path: &Text, name: &[u8]) -> Text {
    CgroupPath::new(path).child(name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that neighbours of a path are not taken for its children, and that
    /// of ancestors only the requested children are followed.
    #[test]
    fn paths() {
        let scope = vec![
            Scope { path: "/a/b".into(), recursive: true },
            Scope { path: "/c".into(), recursive: false },
        ];
        let mut nodes = Nodes::new(scope, 100);
        let wanted = |path: &str| nodes.wanted(&path.into());
        assert_eq!(
            [wanted("/"), wanted("/a"), wanted("/a/b"), wanted("/a/b/c")].map(Option::unwrap),
            [false, false, true, true]
        );
        assert_eq!([wanted("/a/bb"), wanted("/c/d"), wanted("/d")], [None; 3]);
        assert_eq!(wanted("/c"), Some(true));
        let stat = DirStat { inode: 0, links: 2, uid: 0 };
        for (id, path) in ["/", "/a", "/a-b", "/a/b", "/a/b/c", "/a0"].into_iter().enumerate() {
            let dir = Dir::open(std::path::Path::new("/")).unwrap();
            let answer = crate::observation::Answer::Known(Vec::new());
            let cgroup = Cgroup {
                path: path.into(),
                id: id as u64,
                effective: answer,
                own: Default::default(),
                pids: Vec::new(),
                unseen: None,
                uid: None,
            };
            nodes.insert(cgroup, stat, true, dir);
        }
        assert_eq!(nodes.below(&"/a".into()), ["/a".into(), "/a/b".into(), "/a/b/c".into()]);
        assert_eq!(nodes.children(&"/".into()), ["/a".into(), "/a-b".into(), "/a0".into()]);
        assert_eq!(nodes.remove(&"/a".into()).len(), 3);
        assert_eq!(nodes.path_of(4), None);
        assert_eq!(nodes.path_of(5), Some(&"/a0".into()));
        assert_eq!(child(&"/".into(), b"x"), "/x".into());
        assert_eq!((parent(&"/".into()), parent(&"/x".into())), (None, Some("/".into())));
    }
}
