//! Paths of cgroups by their ids, kept when the cgroups are gone: a process may have begun
//! and ended between two readings, and its cgroup with it.

use std::collections::HashMap;

use crate::observation::Text;

/// Finds the path of a cgroup that is there.
type Resolve = Box<dyn FnMut(u64) -> Option<Text>>;

/// Paths that are kept.
const KEPT: usize = 1 << 16;

/// The paths that are known.
#[derive(Default)]
pub(super) struct CgroupPaths {
    resolve: Option<Resolve>,
    known: HashMap<u64, Option<Text>>,
}

impl CgroupPaths {
    /// Resolves ids in this way from now on.
    pub(super) fn resolve_with(&mut self, resolve: Resolve) {
        self.resolve = Some(resolve);
    }

    /// The path of a cgroup; it is looked for the first time that its id is asked for.
    pub(super) fn path(&mut self, id: u64) -> Option<&Text> {
        let resolve = self.resolve.as_mut()?;
        if self.known.len() >= KEPT && !self.known.contains_key(&id) {
            self.known.clear();
        }
        self.known.entry(id).or_insert_with(|| resolve(id)).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a path stays known when its cgroup is gone.
    #[test]
    fn kept() {
        let mut paths = CgroupPaths::default();
        assert_eq!(paths.path(7), None);
        let mut left = 1;
        paths.resolve_with(Box::new(move |id| {
            left -= 1;
            (left == 0).then(|| Text::from(format!("/{id}").into_bytes()))
        }));
        let path = Text::from(b"/7".to_vec());
        assert_eq!(
            (paths.path(7).cloned(), paths.path(8).cloned(), paths.path(7).cloned()),
            (Some(path.clone()), None, Some(path))
        );
    }
}
