//! What is known of one process when its limits are judged, and whether the library has it in
//! its region: the checks that memory and SM limits share, in the order in which they rule
//! each other out.

use std::cmp::Ordering;

use super::limits;
use super::limits::Meant;
use crate::model::InForce::{No, Unknown};
use crate::model::{InForce, LimitCode, RegionLayout};
use crate::observation::{Answer, Environment, FileFacts, MappedFile, VgpuTraces};
use crate::report::{LimitVerdict, Region, RegionProcess};

/// `initialized_flag` of a region.
const MAGIC: u32 = super::layout::MAGIC;

/// The entry of the process in the region, or why its limits are not in force.
pub(super) fn check<'a>(case: &Case<'a>) -> Result<Registered<'a>, LimitVerdict> {
    if case.traces.cut {
        let why =
            "it has more mappings than are looked at: there may be another library or region among them";
        return Err(verdict(Unknown, LimitCode::Unread, why));
    }
    let library = library(case)?;
    if let Some(why) = &case.traces.unread {
        return Err(verdict(Unknown, LimitCode::Unread, why));
    }
    let region = region(case, library)?;
    let Some(inner) = case.traces.pids.last() else {
        return Err(verdict(Unknown, LimitCode::Unread, "its pids could not be read"));
    };
    let outer_pid = case.traces.pids.first().copied().unwrap_or(*inner);
    entry(region, *inner, outer_pid)
}

/// The one library that is loaded, and that nobody but root can have written.
fn library<'a>(case: &Case<'a>) -> Result<&'a MappedFile, LimitVerdict> {
    let mut loaded = case.traces.libraries.iter().filter(|library| library.executable);
    let library = match (loaded.next(), loaded.next()) {
        (None, _) if case.traces.libraries.is_empty() && has_entry(case) => {
            let why = "a region has it, and no file that is named like the library is mapped: whether there is \
                       one under another name is not known";
            return Err(verdict(Unknown, LimitCode::LibraryUnnamed, why));
        }
        (None, _) => return Err(not_loaded(case)),
        (Some(library), None) => library,
        (Some(_), Some(_)) => {
            return Err(verdict(Unknown, LimitCode::MixedLibraries, "it has several such libraries loaded"));
        }
    };
    match &library.file {
        Answer::Known(file) if !file.is_of_root_alone() => {
            Err(verdict(Unknown, LimitCode::LibraryOfUser, of_user(library, file)))
        }
        Answer::Known(_) => Ok(library),
        Answer::Missing(why) => {
            let why = format!("the owner of {} is not known: {why}", library.path.lossy());
            Err(verdict(Unknown, LimitCode::Unread, why))
        }
    }
}

/// Whether a region that it maps has an entry with its pid.
fn has_entry(case: &Case<'_>) -> bool {
    let entries = case.regions.iter().flatten().flat_map(|region| region.procs.iter().flatten());
    let own = case.traces.pids.last().copied();
    entries.filter(|entry| entry.status != 0).any(|entry| u32::try_from(entry.pid).ok() == own)
}

fn of_user(library: &MappedFile, file: &FileFacts) -> String {
    let path = library.path.lossy();
    match file.uid {
        0 => format!("others than root can write {path}: what code it is cannot be told from its name"),
        uid => format!("{path} belongs to uid {uid}: what code it is cannot be told from its name"),
    }
}

fn not_loaded(case: &Case<'_>) -> LimitVerdict {
    let preload = case.traces.preload.known().and_then(Option::as_ref);
    let why = match preload {
        Some(preload) if !preload.missing.is_empty() => {
            "its loader is told to load a library that is not there".to_owned()
        }
        Some(_) => {
            "the library is not loaded, although the loader of its root is told to: a static program, \
                    one of another C library, or one that began earlier"
                .to_owned()
        }
        None => "the library is not loaded: nothing is between it and the driver".to_owned(),
    };
    verdict(No, LimitCode::NotLoaded, why)
}

/// The one region, if its layout is known.
fn region<'a>(case: &Case<'a>, library: &MappedFile) -> Result<&'a Region, LimitVerdict> {
    let is_region = |region: &&Result<&Region, String>| {
        region.as_ref().is_ok_and(|region| region.initialized_flag == Some(MAGIC))
    };
    let (mut inside, all) = (case.regions.iter().filter(is_region), case.regions);
    let region = match (inside.next(), inside.next(), all) {
        (Some(region), None, _) | (None, _, [region]) => region,
        (None, _, []) => return Err(without_region(case, library)),
        _ => return Err(verdict(Unknown, LimitCode::SeveralRegions, "it maps several regions")),
    };
    let region = match region {
        Ok(region) => *region,
        Err(why) => return Err(verdict(Unknown, LimitCode::RegionUnread, format!("its region: {why}"))),
    };
    let why = region.why.as_deref().unwrap_or_default();
    match region.layout {
        RegionLayout::Mixed => {
            Err(verdict(Unknown, LimitCode::MixedRegion, format!("its region cannot be read: {why}")))
        }
        RegionLayout::Unknown => {
            Err(verdict(Unknown, LimitCode::LayoutUnknown, format!("its region cannot be read: {why}")))
        }
        _ if case.libraries_differ => Err(verdict(
            Unknown,
            LimitCode::MixedLibraries,
            "processes use its region with different files of the library, and not all builds read each other's",
        )),
        _ => Ok(region),
    }
}

/// Why the library has made no region.
fn without_region(case: &Case<'_>, library: &MappedFile) -> LimitVerdict {
    let softmig = library.path.as_bytes().windows(limits::SOFTMIG.len()).any(|part| part == limits::SOFTMIG);
    if !softmig || !case.is_in_job {
        let why = "the library is loaded, but no call of CUDA or NVML has gone through it";
        return verdict(No, LimitCode::NoRegion, why);
    }
    let Some(file) = case.traces.job_files.first() else {
        let why = "SoftMig has no file of limits for its job, and limits nothing without one";
        return verdict(No, LimitCode::NoJobFile, why);
    };
    let path = file.path.lossy();
    let why = match (file.outside, file.regular, file.file.uid, case.traces.other_user_namespace) {
        (true, ..) => format!("its root does not show {path}"),
        (_, false, ..) => format!("SoftMig does not take {path}: it is no regular file"),
        (_, _, uid, _) if uid != 0 => {
            format!("SoftMig does not take {path}: it belongs to uid {uid}, not to root")
        }
        (.., Some(true)) => format!("SoftMig does not take {path}: in its user namespace it is not root's"),
        _ => {
            return verdict(
                No,
                LimitCode::NoRegion,
                "the library is loaded, but no call of CUDA or NVML has gone through it",
            );
        }
    };
    verdict(No, LimitCode::JobFileRefused, why)
}

/// The entry with the process's own pid.
fn entry(region: &Region, inner: u32, outer_pid: u32) -> Result<Registered<'_>, LimitVerdict> {
    let all = region.procs.as_deref().unwrap_or_default();
    let is_own = |entry: &&RegionProcess| u32::try_from(entry.pid) == Ok(inner);
    let counted = all.iter().filter(is_own).filter(|entry| entry.in_range);
    // An earlier process with the same pid may have left an entry.
    let best = |entry: &&RegionProcess| (u32::try_from(entry.hostpid) == Ok(outer_pid), entry.status != 0);
    let entry = counted.max_by_key(best);
    // One that ran before the container was started again had another pid on the node.
    let is_possible = |entry: &&RegionProcess| {
        !entry.in_range
            && entry.status != 0
            && (entry.hostpid == 0 || u32::try_from(entry.hostpid) == Ok(outer_pid))
    };
    let old: Vec<&RegionProcess> = all.iter().filter(is_own).filter(is_possible).collect();
    let Some(entry) = entry else {
        return Err(match old.first() {
            Some(_) => verdict(No, LimitCode::MovedEntry, "the library counts its entry no longer"),
            None => verdict(No, LimitCode::NoEntry, "the region has no entry with its pid"),
        });
    };
    if entry.status == 0 {
        return Err(verdict(
            Unknown,
            LimitCode::EntryGone,
            "its entry is marked as that of a process that is gone",
        ));
    }
    let moves = matches!(region.layout, RegionLayout::V1_1Post | RegionLayout::V1_2);
    let places = old.iter().filter(|_| moves).map(|old| place(entry, old));
    let place = places.max_by_key(|place| match place {
        UsedEntry::Counted => 0,
        UsedEntry::Unknown => 1,
        UsedEntry::Left => 2,
    });
    Ok(Registered { region, entry, place: place.unwrap_or(UsedEntry::Counted), outer_pid })
}

/// Which of two entries of a process it writes to. Both were one when the entry was
/// moved; each write adds to its lock's number, in builds that move entries.
fn place(counted: &RegionProcess, old: &RegionProcess) -> UsedEntry {
    match old.seqlock.cmp(&counted.seqlock) {
        _ if old.hostpid == 0 && counted.hostpid != 0 => UsedEntry::Unknown,
        Ordering::Greater => UsedEntry::Left,
        Ordering::Less => UsedEntry::Counted,
        Ordering::Equal => UsedEntry::Unknown,
    }
}

/// One process, as it shows from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// Effective uid.
    pub(super) uid: u32,
    pub(super) at_exec: Option<&'a Environment>,
    pub(super) live: Option<&'a Environment>,
    pub(super) traces: &'a VgpuTraces,
    pub(super) meant: &'a Meant,
    /// Whether it is in a job of Slurm, by its cgroup or by what it says.
    pub(super) is_in_job: bool,
    /// The regions that it maps, as far as they could be read.
    pub(super) regions: &'a [Result<&'a Region, String>],
    /// Whether other processes use one of them with another library.
    pub(super) libraries_differ: bool,
}

/// A process that the library has in its region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered<'a> {
    pub(super) region: &'a Region,
    pub(super) entry: &'a RegionProcess,
    /// Where the process writes its use.
    pub(super) place: UsedEntry,
    /// Its pid on the node.
    pub(super) outer_pid: u32,
}

/// Where a process writes its use: the library may move its entry while it goes on
/// writing to the old place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedEntry {
    /// The entry that is counted.
    Counted,
    /// An entry that is not counted any more.
    Left,
    /// One of the two: neither was written to since.
    Unknown,
}

impl UsedEntry {
    pub(super) fn is_counted(self) -> bool {
        self == Self::Counted
    }
}

impl Registered<'_> {
    /// The verdict on limits of a layout of which no build was ever seen at work.
    pub(super) fn untested(&self) -> Option<LimitVerdict> {
        let why =
            "its region has the layout of SoftMig 2.0, and whether that build holds limits was never seen";
        let is_untested = self.region.layout == RegionLayout::Softmig2_0;
        is_untested.then(|| verdict(InForce::Unknown, LimitCode::Untested, why))
    }
}

impl<'a> Case<'a> {
    /// A variable that the library reads when it begins. `Err` where that is
    /// not known.
    pub(super) fn variable(&self, name: &str) -> Result<Option<&'a [u8]>, LimitVerdict> {
        let find = |environment: &'a Environment| match environment.get(name) {
            Some(variable) if variable.cut => Err(()),
            Some(variable) => Ok(Some(variable.value.as_bytes())),
            None if environment.cut.is_some() => Err(()),
            None => Ok(None),
        };
        let moments = [self.at_exec, self.live].into_iter().flatten().map(find);
        let mut values = moments.collect::<Vec<_>>().into_iter();
        let first = values.next().unwrap_or(Err(()));
        match first {
            Ok(value) if values.all(|other| other == Ok(value)) => Ok(value),
            Ok(_) => Err(verdict(
                InForce::Unknown,
                LimitCode::EnvironmentUnknown,
                format!(
                    "{name} was changed after the program began, and when the library read it is not known"
                ),
            )),
            Err(()) => Err(verdict(
                InForce::Unknown,
                LimitCode::EnvironmentUnknown,
                format!("its environment could not be read, so that {name} is not known"),
            )),
        }
    }
}

/// A verdict with its sentence.
pub(super) fn verdict(in_force: InForce, code: LimitCode, why: impl Into<String>) -> LimitVerdict {
    LimitVerdict { in_force, code, why: why.into() }
}
