//! Finds what shows of HAMi-core and SoftMig in a process: their library among
//! its mappings, the shared region it maps, what the loader of its root loads.
//!
//! A process of a node without them costs three searches in the text of its
//! mappings.

mod files;
mod settings;
mod variables;

use nix::errno::Errno;

use super::credentials::{own_namespace, responsible_user};
use super::memory::Memory;
use crate::model::{DeviceType, LIMIT_VARIABLES};
use crate::observation::{Answer, Detail, VgpuTraces};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::sys::dir::Dir;
use crate::sys::namespace;
use crate::sys::stat::stat_at;

/// Major number of NVIDIA's devices (`linux/major.h` keeps it for local use).
const NVIDIA: u32 = 195;

/// Finds traces in one process after another.
#[derive(Debug, Default)]
pub(super) struct TraceReader {
    regions: files::RegionReader,
    variables: variables::VariableReader,
    /// The inode number of gpumap's user namespace.
    own: Option<Option<u64>>,
}

/// A process whose traces are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked<'a> {
    /// The process, or a thread that lives.
    pub(super) process: &'a PinnedProcess,
    /// The text of its mappings, and whether there is more.
    pub(super) maps: &'a [u8],
    pub(super) cut: bool,
    /// What else was read of it.
    pub(super) detail: &'a Detail,
}

impl TraceReader {
    /// The traces in a process, if there are any.
    pub(super) fn read(
        &mut self,
        looked: Looked<'_>,
        memory: Option<&mut Memory>,
    ) -> Result<Option<Box<VgpuTraces>>, NotRead> {
        let (process, dir) = (looked.process, looked.process.dir());
        let named = environment_path(looked.detail);
        let found = files::may_have_any(looked.maps).then(|| files::candidates(looked.maps, named));
        // Every program with a locale maps a file that is called as regions are.
        let found = found.filter(|found| looked.cut || !found.is_empty());
        let has_limits = has_limits(looked.detail);
        if found.is_none() && !has_limits && !holds_gpu(looked.detail) {
            return Ok(None);
        }
        let mut traces = VgpuTraces { cut: looked.cut, ..VgpuTraces::default() };
        if let Some(found) = found {
            traces.cut |= found.more;
            traces.libraries = found.libraries.iter().map(|one| files::library(dir, one)).collect();
            let user = responsible_user(dir, self.own_namespace());
            let region = |one| self.regions.region(dir, one, user);
            traces.regions = found.regions.iter().filter_map(region).collect();
            traces.variables = match memory {
                Some(memory) => self.variables.read(dir, looked.maps, memory, &traces.libraries),
                None => Answer::Missing("its memory cannot be read".to_owned()),
            };
        }
        traces.preload = settings::preload(dir);
        traces.job_files = settings::job_files(process, looked.detail, &mut traces.unread)?;
        traces.override_file = settings::override_file(dir, &mut traces.unread)?;
        let overrides = traces.override_file.as_ref().and_then(|file| file.variables.known());
        let has_limits = has_limits || overrides.is_some_and(|limits| !limits.is_empty());
        let shows = !traces.libraries.is_empty() || !traces.regions.is_empty() || has_limits;
        let is_preloaded = traces.preload.known().is_some_and(Option::is_some);
        if !shows && !is_preloaded && traces.job_files.is_empty() {
            return Ok(None);
        }
        fill(&process.status()?, &mut traces);
        traces.other_user_namespace = is_elsewhere(dir, self.own_namespace());
        Ok(Some(Box::new(traces)))
    }

    fn own_namespace(&mut self) -> Option<u64> {
        *self.own.get_or_insert_with(own_namespace)
    }
}

fn has_limits(detail: &Detail) -> bool {
    let environments = [&detail.at_exec, &detail.live].into_iter().filter_map(Answer::known);
    environments
        .flat_map(|one| &one.variables)
        .any(|variable| LIMIT_VARIABLES.binary_search(&variable.name.as_str()).is_ok())
}

/// The path of the region that the environment names.
fn environment_path(detail: &Detail) -> Option<&[u8]> {
    let variable = detail.at_exec.known()?.get("CUDA_DEVICE_MEMORY_SHARED_CACHE")?;
    Some(variable.value.as_bytes())
}

fn holds_gpu(detail: &Detail) -> bool {
    let devices = detail.devices.known().map(Vec::as_slice).unwrap_or_default();
    devices.iter().any(|device| device.kind == DeviceType::Char && device.major == NVIDIA)
}

/// Fills in pids, umask and caught signals.
pub(super) fn fill(text: &[u8], traces: &mut VgpuTraces) {
    let field = |name: &str| {
        let mut lines = text.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
        str::from_utf8(line).ok().map(str::trim)
    };
    // `NSpid` is the number of the thread that is asked.
    let pids = field("NStgid").unwrap_or_default().split_ascii_whitespace();
    traces.pids = pids.map_while(|pid| pid.parse().ok()).collect();
    traces.umask = field("Umask").and_then(|umask| u32::from_str_radix(umask, 8).ok());
    traces.caught = field("SigCgt").and_then(|caught| u64::from_str_radix(caught, 16).ok());
}

/// Whether a process is in another user namespace than the one with this inode
/// number.
pub(super) fn is_elsewhere(dir: &Dir, own: Option<u64>) -> Option<bool> {
    let user = dir.child(c"ns").and_then(|ns| namespace::open(&ns, c"user"));
    let inode = user.and_then(|user| stat_at(&user, c"")).map(|stat| stat.inode);
    match inode {
        Ok(inode) => Some(inode != own?),
        Err(Errno::ENOENT) => Some(false),
        // It is not known, which is what `None` says.
        Err(_) => None,
    }
}
