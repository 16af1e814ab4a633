//! Which GPUs a list of Slurm's numbers means on one node.

use std::collections::BTreeSet;

use super::gres::{self, Names};
use super::order::{self, Slot};
use crate::model::GpuKey;
use crate::observation::Slurm;
use crate::report::{Gpu, GpuSet, MigInstance};
use crate::slurm_conf::short;

/// More entries than any list of Slurm's has.
const ENTRY_LIMIT: usize = 4096;

/// A bound on the numbers of one list; lists of Slurm's never have as many.
const NUMBER_LIMIT: usize = 1 << 17;

/// A set while it is collected.
#[derive(Debug, Default)]
pub(super) struct SetBuilder {
    keys: BTreeSet<GpuKey>,
    instances: BTreeSet<GpuKey>,
    maybe: BTreeSet<GpuKey>,
    /// Whether any GPU may be meant.
    any: bool,
    why: Vec<String>,
    /// Which of Slurm's numbers were taken in.
    taken: Vec<bool>,
    /// How many numbers the entries contain, repetitions included.
    numbers: usize,
}

impl SetBuilder {
    fn unknown(&mut self, why: String) {
        self.any = true;
        self.explain(why);
    }

    fn explain(&mut self, why: String) {
        if !self.why.contains(&why) && self.why.len() < 8 {
            self.why.push(why);
        }
    }

    fn slot(&mut self, slot: &Slot) {
        match slot {
            Slot::Whole(key) => _ = self.keys.insert(key.clone()),
            Slot::Part(key, instances) => {
                self.keys.insert(key.clone());
                self.instances.extend(instances.iter().cloned());
            }
            Slot::Strange(file) => {
                self.unknown(format!("gres.conf lists {}, which is no GPU of the inventory", short(file)))
            }
        }
    }

    /// The set, GPUs in inventory order.
    pub(super) fn set(self, gpus: &[Gpu]) -> GpuSet {
        let Self { keys, instances, maybe, any, why, .. } = self;
        let pick = |test: &dyn Fn(&GpuKey) -> bool| {
            gpus.iter().map(|gpu| gpu.key.clone()).filter(|key| test(key)).collect::<Vec<_>>()
        };
        let certain = pick(&|key| keys.contains(key));
        let unknown = pick(&|key| !keys.contains(key) && (any || maybe.contains(key)));
        let nothing = certain.is_empty() && !why.is_empty();
        let gpus = if nothing { None } else { Some(certain) };
        GpuSet { gpus, instances: instances.into_iter().collect(), unknown, why, source: None }
    }
}

/// A set of which nothing is known.
pub(super) fn unknown(why: String, gpus: &[Gpu]) -> GpuSet {
    let mut found = SetBuilder::default();
    found.unknown(why);
    found.set(gpus)
}

impl Numbering {
    /// The GPUs of a list as Slurm writes it: numbers and ranges of them,
    /// UUIDs, MIG ids. What it names in another way makes the set unknown.
    pub fn resolve(&self, text: &str, gpus: &[Gpu]) -> GpuSet {
        list(text, self, gpus)
    }

    /// All GPUs and MIG instances that have a number: those that Slurm manages.
    pub fn listed(&self, gpus: &[Gpu]) -> GpuSet {
        let mut found = SetBuilder::default();
        match &self.meaning {
            Ok(slots) => slots.iter().for_each(|slot| found.slot(slot)),
            Err(why) => found.unknown(why.clone()),
        }
        found.set(gpus)
    }
}

/// The set that a list names.
pub(super) fn list(text: &str, numbering: &Numbering, gpus: &[Gpu]) -> GpuSet {
    let mut found = SetBuilder::default();
    // Releases up to 18.08 set this word for a job without GPUs.
    if text.trim().is_empty() || text.trim() == "NoDevFiles" {
        return found.set(gpus);
    }
    for (count, entry) in text.split(',').map(str::trim).enumerate() {
        if count == ENTRY_LIMIT {
            found.unknown(format!("the list has more than {ENTRY_LIMIT} entries"));
            break;
        }
        one(entry, numbering, gpus, &mut found);
    }
    found.set(gpus)
}

fn one(entry: &str, numbering: &Numbering, gpus: &[Gpu], found: &mut SetBuilder) {
    if let Some(uuid) = entry.strip_prefix("MIG-") {
        mig(entry, uuid, gpus, found);
    } else if is_uuid(entry) {
        uuid(entry, gpus, found);
    } else if let Some((first, last)) = range(entry) {
        numbers(first, last, numbering, found);
    } else {
        found.unknown(format!("`{}` is neither a number nor a UUID", short(entry)));
    }
}

fn range(entry: &str) -> Option<(u32, u32)> {
    let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok());
    let (first, last) = (number(first)??, number(last)??);
    (first <= last).then_some((first, last))
}

fn numbers(first: u32, last: u32, numbering: &Numbering, found: &mut SetBuilder) {
    let slots = match &numbering.meaning {
        Ok(slots) => slots,
        Err(why) => return found.unknown(format!("what Slurm's numbers mean is not determined: {why}")),
    };
    let (Ok(start), Ok(end)) = (usize::try_from(first), usize::try_from(last)) else { return };
    found.taken.resize(slots.len(), false);
    for (place, slot) in slots.iter().enumerate().skip(start).take((end - start).saturating_add(1)) {
        found.numbers += 1;
        if found.numbers > NUMBER_LIMIT {
            return found.unknown(format!("the list stands for more than {NUMBER_LIMIT} numbers"));
        }
        // A list may repeat itself thousands of times.
        if found.taken.get_mut(place).is_some_and(|taken| !std::mem::replace(taken, true)) {
            found.slot(slot);
        }
    }
    if end >= slots.len() {
        found.unknown(format!("number {last} is beyond the {} GPUs of gres.conf", slots.len()));
    }
}

/// Whether this has the form of a GPU's UUID.
pub(super) fn is_uuid(entry: &str) -> bool {
    entry.len() > 4 && entry.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("GPU-"))
}

/// The GPUs with this UUID, else those whose UUID starts with the text. GPUs whose
/// UUID is not known are added, since theirs may start with it too.
pub(super) fn by_uuid<'a>(prefix: &str, gpus: &'a [Gpu]) -> Vec<&'a Gpu> {
    let same = |uuid: Option<&str>| uuid.is_some_and(|uuid| uuid.eq_ignore_ascii_case(prefix));
    let whole: Vec<&Gpu> = gpus.iter().filter(|gpu| same(gpu.uuid.as_deref())).collect();
    if !whole.is_empty() {
        return whole;
    }
    let starts = |gpu: &Gpu| same(gpu.uuid.as_deref().and_then(|uuid| uuid.get(..prefix.len())));
    if !gpus.iter().any(starts) {
        return Vec::new();
    }
    gpus.iter().filter(|gpu| starts(gpu) || gpu.uuid.is_none()).collect()
}

fn uuid(entry: &str, gpus: &[Gpu], found: &mut SetBuilder) {
    match by_uuid(entry, gpus)[..] {
        [gpu] => _ = found.keys.insert(gpu.key.clone()),
        [] => found.unknown(format!("no GPU here has the UUID {}", short(entry))),
        ref several => {
            found.maybe.extend(several.iter().map(|gpu| gpu.key.clone()));
            found.explain(format!("{} GPUs have the UUID {}", several.len(), short(entry)));
        }
    }
}

/// `MIG-GPU-UUID/GI/CI`, the form before driver 470, or the UUID of an instance, which
/// no file of the kernel tells, but a list of `nvidia-smi -L` may. Whose instance it is
/// such a list says for certain, and which it is only of a GPU that has one.
fn mig(entry: &str, rest: &str, gpus: &[Gpu], found: &mut SetBuilder) {
    let is_meant =
        |mig: &&MigInstance| mig.uuid.as_deref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(entry));
    if let Some((gpu, mig)) = gpus.iter().find_map(|gpu| Some((gpu, gpu.mig.iter().find(is_meant)?))) {
        match mig.compute_key(gpu).filter(|_| !mig.uuid_assumed) {
            Some(key) => {
                found.keys.insert(gpu.key.clone());
                found.instances.insert(key);
            }
            None => {
                found.maybe.insert(gpu.key.clone());
                found.explain(format!(
                    "{} is an instance of {}, and which one rests on the order of a list",
                    short(entry),
                    gpu.key
                ));
            }
        }
        return;
    }
    let mut fields = rest.split('/');
    let (gpu, gi, ci) = (fields.next().unwrap_or_default(), fields.next(), fields.next());
    let number = |field: Option<&str>| field.and_then(|field| field.parse::<u32>().ok());
    let (Some(gi), Some(ci), None) = (number(gi), number(ci), fields.next()) else {
        let why = match gpus.iter().flat_map(|gpu| &gpu.mig).any(|mig| mig.uuid.is_some()) {
            true => "the list of MIG instances does not have this UUID",
            false => "the kernel does not tell the UUIDs of MIG instances",
        };
        return found.unknown(format!("{}: {why}", short(entry)));
    };
    match by_uuid(gpu, gpus)[..] {
        [gpu] if is_uuid(rest) => {
            found.keys.insert(gpu.key.clone());
            match gpu.mig.iter().any(|mig| mig.gi == gi && mig.ci == Some(ci)) {
                true => _ = found.instances.insert(gpu.key.instance(gi, Some(ci))),
                false => found.explain(format!("{} has no MIG instance {gi}/{ci}", gpu.key)),
            }
        }
        _ => found.unknown(format!("no one GPU here is meant by {}", short(entry))),
    }
}

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
    Names::of_host(host)
}

fn meaning(slurm: &Slurm, names: &Names, gpus: &[Gpu]) -> Result<(Vec<Slot>, bool), String> {
    let Some(file) = &slurm.gres_conf else {
        let places = match slurm.looked_in.as_slice() {
            [] => String::new(),
            places => format!("; it was looked for in {}", places.join(", ")),
        };
        return Err(format!(
            "no gres.conf was found: --gres-conf FILE names it, or [slurm] of /etc/gpumap.toml its directory{places}"
        ));
    };
    let gres = gres::read(&file.text.lossy(), names);
    let slots = gres.and_then(|gres| order::slots(&gres, gpus));
    slots.map_err(|why| format!("{}{}: {why}; {HELP}", file.path, with(&file.included)))
}

/// The files that are included, since lines are counted with theirs.
fn with(included: &[String]) -> String {
    if included.is_empty() { String::new() } else { format!(" with {}", included.join(", ")) }
}
