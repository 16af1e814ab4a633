//! Decides which cgroup names root's daemons gave.
//!
//! Anyone who may make a cgroup may call it anything: a container that makes
//! `slurmstepd.scope/job_71` below its own cgroup is not Slurm's job 71. So a
//! name counts only where root's daemons put such names: right below the root,
//! or in slices there. Two facts that no path tells change what is trusted:
//!
//! - gpumap's own cgroup. In a container that sees the host's hierarchy the
//!   container's own Slurm is below the container. Whoever made the directories
//!   above gpumap rules gpumap itself, and is believed.
//! - Directories that do not belong to root. Their owner makes the names below.

use std::collections::BTreeMap;

use crate::observation::{Observation, OwnerPattern, Text};

/// The facts that decide which names in a hierarchy are trusted.
#[derive(Clone, Debug, Default)]
pub struct TrustedNames {
    /// Names of gpumap's own cgroup and those above it.
    own: Vec<Vec<u8>>,
    /// The owners of directories that are not root's, by path.
    delegated: BTreeMap<Vec<u8>, u32>,
    /// Owners that the site's configuration describes.
    pub(super) patterns: Vec<OwnerPattern>,
}

impl TrustedNames {
    /// The trusted names of a hierarchy in which gpumap is at `own`, if it is in it.
    pub fn around(own: Option<&Text>) -> Self {
        let own = own.map(|path| split(path.as_bytes()).0.into_iter().map(<[u8]>::to_vec).collect());
        Self { own: own.unwrap_or_default(), ..Self::default() }
    }

    /// The same with owners that the site's configuration describes.
    #[must_use]
    pub fn with_patterns(self, patterns: &[OwnerPattern]) -> Self {
        Self { patterns: patterns.to_vec(), ..self }
    }

    /// The trusted names that follow from an observation.
    pub fn of(observation: &Observation) -> Self {
        let delegated = observation.cgroups.iter().filter_map(|cgroup| {
            let path = cgroup.path.as_bytes();
            Some((path.strip_suffix(b"/").unwrap_or(path).to_vec(), cgroup.uid?))
        });
        let around = Self::around(observation.own_cgroup.as_ref()).with_patterns(&observation.owner_patterns);
        Self { delegated: delegated.collect(), ..around }
    }

    /// How many names from the top lead to gpumap's own cgroup.
    pub(super) fn shared(&self, names: &[&[u8]]) -> usize {
        self.own.iter().zip(names).take_while(|(own, name)| own.as_slice() == **name).count()
    }

    /// How many names from the top root gave. Names in a directory of another user
    /// are not among them, unless that directory is the hierarchy's root, which the
    /// caller chose.
    pub(super) fn given_by_root(&self, path: &[u8], ends: &[usize]) -> usize {
        if self.delegated.is_empty() {
            return ends.len();
        }
        let is_delegated =
            |end: &usize| path.get(..*end).is_some_and(|directory| self.delegated.contains_key(directory));
        ends.iter().position(is_delegated).map_or(ends.len(), |at| at + 1)
    }
}

/// The names of a path, and where each ends in it.
pub(super) fn split(path: &[u8]) -> (Vec<&[u8]>, Vec<usize>) {
    let mut end = 0;
    let names = path.split(|byte| *byte == b'/').map(|name| {
        end += name.len() + 1;
        (name, end - 1)
    });
    names.filter(|(name, _)| !name.is_empty()).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Cgroup;

    /// Make sure that a directory's own name is root's and those in it are not.
    #[test]
    fn delegation() {
        let cgroup = |path: &str, uid| Cgroup { path: path.into(), uid, ..Cgroup::default() };
        let cgroups = vec![cgroup("/", None), cgroup("/a", None), cgroup("/a/b", Some(1000))];
        let trusted = TrustedNames::of(&Observation { cgroups, ..Observation::default() });
        let given = |path: &str| trusted.given_by_root(path.as_bytes(), &split(path.as_bytes()).1);
        assert_eq!((given("/a"), given("/a/b"), given("/a/b/c/d"), given("/a/bb/c")), (1, 2, 2, 3));
    }

    /// Make sure that names are compared and not beginnings of names.
    #[test]
    fn own() {
        let trusted = TrustedNames::around(Some(&"/a/bc".into()));
        let shared = |path: &str| trusted.shared(&split(path.as_bytes()).0);
        assert_eq!((shared("/a/b"), shared("/a/bc/d"), shared("/x"), shared("/")), (1, 2, 0, 0));
    }
}
