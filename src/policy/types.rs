//! A policy, and what it depends on besides its programs.

use super::diagram::Bdd;
use crate::observation::{Cgroup, Host, Map};

/// The inputs of programs besides their arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The maps, with contents.
    pub maps: &'a [Map],
    /// The cgroups, as far as they are known.
    pub cgroups: &'a [Cgroup],
    /// The id of the cgroup asked about; `None` when a program is looked at on
    /// its own.
    pub cgroup_id: Option<u64>,
    /// How this kernel combines several programs.
    pub combination: Combination,
}

impl Context<'_> {
    /// The ids of the cgroups from the root down to the one asked about; empty if one
    /// is not known, or if the first is not the root of all (whose id is 1) but that
    /// of a namespace.
    pub(super) fn path(&self) -> Vec<u64> {
        let Some(id) = self.cgroup_id else { return Vec::new() };
        let Some(asked) = self.cgroups.iter().find(|cgroup| cgroup.id == id) else { return Vec::new() };
        let is_above = |cgroup: &&Cgroup| is_at_or_above(cgroup.path.as_bytes(), asked.path.as_bytes());
        let mut path: Vec<&Cgroup> = self.cgroups.iter().filter(is_above).collect();
        path.sort_by_key(|cgroup| cgroup.path.as_bytes().len());
        let levels =
            asked.path.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count();
        let is_whole = path.len() == levels + 1 && path.first().is_some_and(|root| root.id == ROOT);
        if is_whole { path.into_iter().map(|cgroup| cgroup.id).collect() } else { Vec::new() }
    }
}

/// Whether one path is the other or a part of it.
fn is_at_or_above(path: &[u8], other: &[u8]) -> bool {
    let rest = other.strip_prefix(path.strip_suffix(b"/").unwrap_or(path));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The id of the root of all cgroups: the first inode of its file system
/// (`kernfs_create_root`, `fs/kernfs/dir.c`).
const ROOT: u64 = 1;

/// How the kernel combines the results of several programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combination {
    /// Before Linux 5.18: allowed if every program returns 1.
    AllMustAllow,
    /// Since Linux 5.18: a return of 0 sets `-EPERM` unless an error is
    /// already set, and a program may change the error with `bpf_set_retval`.
    #[default]
    Retval,
}

/// The decisions of one or more programs, for every device and request. Equal
/// policies of one decoder are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Policy {
    /// The questions that are certainly allowed.
    pub(super) allow: Bdd,
    /// The questions that are certainly denied.
    pub(super) deny: Bdd,
    /// What it was made of, if it is not exact.
    pub(super) origin: Origin,
}

impl Combination {
    /// The combination rule of a node's kernel: the older one where it is known that the
    /// helper of the newer one is missing. The newer one claims less.
    pub fn of_host(host: &Host) -> Self {
        if host.has_retval == Some(false) { Self::AllMustAllow } else { Self::Retval }
    }
}

/// Whether a kernel of release `uname -r` asks the programs about making whiteouts, as
/// Linux did before 5.8.
pub fn asks_about_whiteouts(release: &str) -> bool {
    is_before(release, (5, 8))
}

/// Whether a kernel is older, as far as its release tells: not where it is no number, and
/// not of distributors who port back.
fn is_before(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let numbers = numbers.next().zip(numbers.next());
    numbers.is_some_and(|numbers| numbers < version) && !release.contains(".el")
}

/// Number of what a policy was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub(super) usize);

impl Origin {
    /// That of a policy whose drawing is all there is to know.
    pub const NONE: Self = Self(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the older rule is taken where it is known to be the kernel's.
    #[test]
    fn rules() {
        let of = |has_retval| Combination::of_host(&Host { has_retval, ..Host::default() });
        assert_eq!(of(Some(false)), Combination::AllMustAllow);
        assert_eq!([of(Some(true)), of(None)], [Combination::Retval, Combination::Retval]);
    }

    /// Make sure that whiteouts are asked about where the release says so.
    #[test]
    fn whiteouts() {
        for (release, asks) in [
            ("5.4.0-42-generic", true),
            ("5.8.0", false),
            ("6.18.5", false),
            ("4.18.0-553.el8_10.x86_64", false),
            ("", false),
        ] {
            assert_eq!(asks_about_whiteouts(release), asks, "{release}");
        }
    }

    /// Make sure that the path is told only if all of it is known, down from the root of
    /// all cgroups.
    #[test]
    fn paths_are_whole() {
        let cgroup = |path: &str, id| Cgroup { path: path.into(), id, ..Cgroup::default() };
        let path = |cgroups: &[Cgroup]| Context { cgroups, cgroup_id: Some(9), ..Context::default() }.path();
        let all = [cgroup("/a/b", 9), cgroup("/ab", 7), cgroup("/", 1), cgroup("/a", 4), cgroup("/a/b/c", 8)];
        assert_eq!(path(&all), [1, 4, 9]);
        let of_namespace = [cgroup("/a/b", 9), cgroup("/", 30), cgroup("/a", 4)];
        for unknown in [&all[..3], &all[1..], &of_namespace] {
            assert!(path(unknown).is_empty());
        }
    }
}
