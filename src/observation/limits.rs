//! Bounds of saved observations: what a small file may make gpumap do.

use super::Observation;

/// Cells of the table of GPUs by cgroups and processes. A node of 5000 cgroups
/// and 2000 processes with 16 GPUs of seven instances has some three million.
const TABLE: usize = 1 << 25;
/// Bytes that are compared to find every ancestor of every cgroup: the length
/// of each path times its levels. 5000 paths of usual length need two million.
const PATHS: usize = 1 << 31;
/// Shared regions that are put together again, each of 2 MB. A node has one for
/// each container with a GPU.
const REGIONS: usize = 4096;

impl Observation {
    /// Why the observation asks for far more work than its size justifies;
    /// `None` for every node that can be.
    pub fn excess(&self) -> Option<String> {
        if let Some(why) = self.excess_of(TABLE) {
            return Some(why);
        }
        let (nodes, files) = (self.gpu_facts.nodes.len(), self.gpu_facts.files.len());
        let counted = self.activity.iter().flat_map(|reading| &reading.sums.processes);
        let work = counted.map(|process| {
            let devices = process.devices.len().saturating_mul(process.contexts.len());
            devices.saturating_add(process.contexts.len()).saturating_mul(nodes.saturating_add(files).max(1))
        });
        if work.fold(0, usize::saturating_add) > TABLE {
            return Some("the devices of its processes' contexts are too many".to_owned());
        }
        if self.regions.len() > REGIONS {
            return Some(format!("{} shared regions are too many", self.regions.len()));
        }
        let paths = self.cgroups.iter().map(|cgroup| &cgroup.path);
        let paths = paths.chain(self.processes.iter().map(|process| &process.cgroup));
        let work = paths.map(|path| {
            let levels = path.as_bytes().iter().filter(|byte| **byte == b'/').count();
            levels.saturating_mul(path.as_bytes().len())
        });
        let work = work.fold(0, usize::saturating_add);
        (work > PATHS).then(|| "its cgroups are nested too deeply".to_owned())
    }

    /// Why the table of GPUs by cgroups and processes may have more than `cells`; `None` if
    /// it has not.
    pub fn excess_of(&self, cells: usize) -> Option<String> {
        let rows = self.cgroups.len().saturating_add(self.processes.len());
        let (nodes, files) = (self.gpu_facts.nodes.len(), self.gpu_facts.files.len());
        let is_excess = rows.saturating_mul(nodes.saturating_add(files)) > cells;
        is_excess.then(|| format!("{rows} cgroups and processes and {nodes} device nodes are too many"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Cgroup, GpuFacts};

    /// Make sure that a large node is not too large, and that a long path and
    /// many nodes are.
    #[test]
    fn bounds() {
        let cgroup = |path: &str| Cgroup { path: path.into(), ..Cgroup::default() };
        let path = "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0";
        let facts = |count: u32| {
            let files = (0..count).map(|number| (number.to_string(), String::new()));
            GpuFacts { files: files.collect(), ..GpuFacts::default() }
        };
        let mut all = Observation { cgroups: vec![cgroup(path); 10_000], ..Observation::default() };
        all.gpu_facts = facts(1000);
        assert_eq!(all.excess(), None);
        all.gpu_facts = facts(10_000);
        assert!(all.excess().is_some());
        let region = crate::observation::SharedRegion::default();
        all.gpu_facts = facts(1000);
        all.regions = vec![region; REGIONS + 1];
        assert!(all.excess().is_some());
        let deep = Observation { cgroups: vec![cgroup(&"/a".repeat(100_000))], ..Observation::default() };
        assert!(deep.excess().is_some());
    }
}
