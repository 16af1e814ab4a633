//! What is known of one process when its limits are judged.

use super::meant::Meant;
use crate::model::{InForce, LimitCode, RegionLayout};
use crate::observation::{Environment, VgpuTraces};
use crate::report::{LimitVerdict, Region, RegionProcess};

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
