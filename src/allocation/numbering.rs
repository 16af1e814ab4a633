//! Slurm's numbering of a node's GPUs: which GPU each number means.

use crate::observation::Slurm;
use crate::report::Gpu;

use super::gres::{self, Names};
use super::order;
use super::slot::Slot;

/// The advice where Slurm's numbers cannot be resolved.
const HELP: &str = "allocations by UUID are certain";

/// Slurm's numbering on one node: what each number means, or why that is not
/// determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// The device of each number, or why the numbers cannot be resolved.
    pub(super) meaning: Result<Vec<Slot>, String>,
    /// Whether `slurm.conf` is taken to configure every GPU found.
    all: bool,
    /// Names that Slurm may have for this node.
    pub(super) names: Vec<String>,
}

impl Numbering {
    /// The numbering that the node's `gres.conf` fixes. `host` is the node's
    /// name as `uname -n` gives it; the hook environment may know Slurm's own
    /// name for the node.
    pub fn new(slurm: &Slurm, host: &str, gpus: &[Gpu]) -> Self {
        let names = names(slurm, host);
        let found = meaning(slurm, &names, gpus);
        let all = found.as_ref().is_ok_and(|(_, all)| *all);
        Self { meaning: found.map(|(slots, _)| slots), all, names: names.any }
    }

    /// Slurm's number of a whole GPU; `None` where that is not determined, or
    /// where Slurm numbers the GPU's MIG instances.
    pub fn index_of(&self, key: &str) -> Option<u32> {
        let slots = self.meaning.as_ref().ok()?;
        let place = slots.iter().position(|slot| matches!(slot, Slot::Whole(whole) if whole == key))?;
        u32::try_from(place).ok()
    }

    /// Why the numbers cannot be resolved.
    pub fn undetermined(&self) -> Option<&str> {
        self.meaning.as_ref().err().map(String::as_str)
    }

    /// The assumption that the numbering rests on, besides the file that was read.
    /// Slurm's list has only as many of the GPUs that AutoDetect finds as
    /// `slurm.conf` configures. With fewer than all of them the numbers could mean
    /// other GPUs, if the order of file names differs from that of PCI addresses.
    pub fn assumes(&self) -> Option<&'static str> {
        self.all.then_some("slurm.conf configures every GPU that gres.conf lists or AutoDetect finds")
    }
}

/// Names of the node: Slurm's own if a hook tells it, else the host name and
/// its first label.
fn names(slurm: &Slurm, host: &str) -> Names {
    let told = slurm.hook.as_ref().and_then(|hook| hook.get("SLURMD_NODENAME"));
    let told = told.filter(|name| !name.cut && !name.value.is_empty());
    if let Some(name) = told {
        return Names { any: vec![name.value.lossy().into_owned()], sure: true };
    }
    let short = host.split('.').next().unwrap_or_default();
    let mut any: Vec<String> =
        [host, short].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
    any.dedup();
    Names { any, sure: false }
}

fn meaning(slurm: &Slurm, names: &Names, gpus: &[Gpu]) -> Result<(Vec<Slot>, bool), String> {
    let Some(file) = &slurm.gres_conf else {
        let places = "the directory of SLURM_CONF in a hook, /run/slurm/conf, /etc/slurm, /etc/slurm-llnl, /usr/local/etc";
        return Err(format!(
            "no gres.conf was found (looked in {places}); --gres-conf FILE names it, and {HELP}"
        ));
    };
    let gres = gres::read(&file.text.lossy(), names);
    let slots = gres.and_then(|gres| order::slots(&gres, gpus));
    slots.map_err(|why| format!("{}: {why}; {HELP}", file.path))
}
