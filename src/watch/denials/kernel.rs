//! The programs of `bpf/denials.bpf.c`, and the sums that they keep.

use std::collections::{BTreeSet, HashMap};

use nix::errno::Errno;

use super::record::{DenialKey, DenialSum};
use crate::loader::interface::{CHECK, DENIALS};
use crate::loader::{self, LoadError, Loaded, ObjectSpec, Ring};
use crate::model::DeviceType;
use crate::probing::ProcessScope;
use crate::sys::caps::{Capabilities, Capability};
use crate::sys::fields::Fields;
use crate::sys::test_hook;

/// The ways to see the kernel's answer, the best first: programs that are attached, in this
/// order, and the name of the way.
const WAYS: [(&[&str], &str); 2] =
    [(&["on_answer"], "fexit"), (&["leave_check", "enter_check"], "kretprobe")];
/// The variable with which tests choose a way (docs/testing.md).
const CHOICE: &str = "GPUMAP_TEST_DENIALS";
/// The maps that are written by turns.
const SUMS: [&str; 2] = ["even", "odd"];
/// `OTHERS`: the account of all whose losses are not counted by themselves.
pub(super) const OTHERS: u32 = u32::MAX;

/// A type of device, as the kernel numbers it, and a major number.
pub(super) type Major = (DeviceType, u32);

/// Which devices count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Those with these major numbers.
    Majors(BTreeSet<Major>),
    /// All.
    All,
}

/// The loaded programs.
pub(super) struct Kernel {
    loaded: Box<dyn Loaded>,
    way: &'static str,
    programs: &'static [&'static str],
    /// The number of the turn, whose map is written now.
    turn: u64,
    counted: Counted,
    /// What was read of the map of the turn before.
    read: HashMap<Vec<u8>, u64>,
    /// How many refusals of each account were lost, as they were reported.
    lost: HashMap<u32, u64>,
    /// How often programs were not run, as it was reported.
    missed: u64,
}

/// Why a way does not work. For a caller with all rights it is the kernel that has no such
/// way, and not that something is not permitted.
fn plain(refusal: String) -> String {
    let may_load = Capabilities::effective().is_some_and(|own| {
        own.has(Capability::SysAdmin) || own.has(Capability::Bpf) && own.has(Capability::Perfmon)
    });
    // Of a lockdown and of a limit the error says so itself.
    let is_said = refusal.contains("locked");
    let says = |errno: Errno| refusal.contains(&format!("(os error {})", errno as i32));
    match may_load && !is_said {
        true if says(Errno::EPERM) => "this kernel takes no such program".to_owned(),
        true if says(Errno::ENOENT) => "this kernel has none".to_owned(),
        _ => refusal,
    }
}

impl Kernel {
    /// Loads and attaches the programs in the first way that this kernel takes. Since Linux
    /// 5.8 with BTF. The ring has the keys of sums that are new.
    ///
    /// # Errors
    ///
    /// Why no way works: the kernel is too old or has no BTF, is built without both
    /// (`CONFIG_FUNCTION_TRACER`, `CONFIG_KPROBES`), or a right is missing (`CAP_BPF` and
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN`).
    pub(super) fn start(scope: &ProcessScope, counted: Counted) -> Result<(Self, Box<dyn Ring>), LoadError> {
        let loader = loader::shared()?;
        let mut why = Vec::new();
        let wanted = test_hook::read(CHOICE);
        for (programs, way) in WAYS {
            if wanted.as_ref().is_some_and(|wanted| wanted != way) {
                continue;
            }
            let others = WAYS.iter().filter(|(_, other)| *other != way);
            let left_out: Vec<&str> = others.flat_map(|(programs, _)| *programs).copied().collect();
            let spec = ObjectSpec { left_out: &left_out, ..ObjectSpec::whole(&DENIALS) };
            let begun =
                loader.load(&spec).and_then(|loaded| Self::begin(loaded, (programs, way), scope, &counted));
            let attached = begun.and_then(|(mut kernel, ring)| {
                programs.iter().try_for_each(|program| kernel.loaded.attach_kernel(program, CHECK))?;
                Ok((kernel, ring))
            });
            match attached {
                Ok(begun) => return Ok(begun),
                Err(LoadError::Refused(refusal) | LoadError::Forbidden(refusal)) => {
                    why.push(format!("{way}: {}", plain(refusal)))
                }
                Err(error) => return Err(error),
            }
        }
        Err(LoadError::Refused(why.join("; ")))
    }

    /// Fills the maps before anything is attached.
    fn begin(
        mut loaded: Box<dyn Loaded>,
        (programs, way): (&'static [&'static str], &'static str),
        scope: &ProcessScope,
        counted: &Counted,
    ) -> Result<(Self, Box<dyn Ring>), LoadError> {
        scope.put(&mut *loaded, std::process::id())?;
        loaded.put("losses", &OTHERS.to_ne_bytes(), &0_u64.to_ne_bytes())?;
        let ring = loaded.ring("fresh")?;
        let counts_nothing = Counted::Majors(BTreeSet::new());
        let (read, lost) = (HashMap::new(), HashMap::new());
        let mut kernel =
            Self { loaded, way, programs, turn: 0, counted: counts_nothing, read, lost, missed: 0 };
        kernel.count(counted.clone())?;
        kernel.begin_turn()?;
        Ok((kernel, ring))
    }

    /// The interface of the kernel that serves.
    pub(super) fn way(&self) -> &'static str {
        self.way
    }

    /// Counts these devices from now on.
    ///
    /// # Errors
    ///
    /// That of the map.
    pub(super) fn count(&mut self, counted: Counted) -> Result<(), LoadError> {
        let majors = |counted: &Counted| match counted {
            Counted::Majors(majors) => majors.clone(),
            Counted::All => BTreeSet::new(),
        };
        let (before, now) = (majors(&self.counted), majors(&counted));
        let key = |(kind, major): &Major| [*kind as u32, *major].map(u32::to_ne_bytes).concat();
        for gone in before.difference(&now) {
            self.loaded.remove("majors", &key(gone))?;
        }
        for new in now.difference(&before) {
            self.loaded.put("majors", &key(new), &1_u32.to_ne_bytes())?;
        }
        self.counted = counted;
        Ok(())
    }

    /// The refusals since the last call, each sum once. The map that was written until now
    /// is read, and the other one is written from now on; what a program that was at work
    /// then still added to the first one comes with the next call.
    ///
    /// # Errors
    ///
    /// That of a map.
    pub(super) fn take(&mut self) -> Result<Vec<(DenialKey, DenialSum)>, LoadError> {
        let mut taken = Vec::new();
        // It was read in the last call, and is emptied before its turn comes.
        let before = self.map(self.turn + 1);
        let read = std::mem::take(&mut self.read);
        for (key, value) in self.loaded.entries(before)? {
            let known = read.get(&key).copied().unwrap_or_default();
            taken.extend(sum(&key, &value, known));
            self.loaded.remove(before, &key)?;
        }
        let ended = self.map(self.turn);
        self.turn += 1;
        self.begin_turn()?;
        for (key, value) in self.loaded.entries(ended)? {
            let Some((who, sum)) = sum(&key, &value, 0) else { continue };
            self.read.insert(key, sum.count);
            taken.push((who, sum));
        }
        Ok(taken)
    }

    /// How many refusals of each account were not summed since the last call: these had more
    /// different ones than there was room for. `None`: of accounts that are not counted by
    /// themselves.
    ///
    /// # Errors
    ///
    /// That of a map.
    pub(super) fn lost(&mut self) -> Result<Vec<(Option<u32>, u64)>, LoadError> {
        let mut lost = Vec::new();
        for (account, count) in self.loaded.entries("losses")? {
            let Some((account, count)) = Fields(&account).word().zip(Fields(&count).long()) else { continue };
            let known = self.lost.insert(account, count).unwrap_or_default();
            if count > known {
                lost.push(((account != OTHERS).then_some(account), count - known));
            }
        }
        Ok(lost)
    }

    /// How many checks of devices were not seen since the last call, because the kernel did not
    /// run a program: as far as it counts that (see [`Loaded::missed`]). One of which two
    /// programs were not run counts twice.
    ///
    /// # Errors
    ///
    /// That of bpf(2).
    pub(super) fn missed(&mut self) -> Result<u64, LoadError> {
        let each = self.programs.iter().map(|program| self.loaded.missed(program));
        let all = each.sum::<Result<u64, LoadError>>()?;
        let before = std::mem::replace(&mut self.missed, all);
        Ok(all.saturating_sub(before))
    }

    /// Says to the programs which map to write.
    fn begin_turn(&mut self) -> Result<(), LoadError> {
        let everything = u64::from(self.counted == Counted::All);
        let turn = [self.turn, everything, 0].map(u64::to_ne_bytes).concat();
        self.loaded.put("turn", &0_u32.to_ne_bytes(), &turn)
    }

    fn map(&self, turn: u64) -> &'static str {
        let [even, odd] = SUMS;
        if turn.is_multiple_of(2) { even } else { odd }
    }
}

/// An entry of a map, less what is known of it; `None` where nothing is left.
fn sum(key: &[u8], value: &[u8], known: u64) -> Option<(DenialKey, DenialSum)> {
    let (key, mut sum) = DenialKey::read(key).zip(DenialSum::read(value))?;
    sum.count = sum.count.checked_sub(known).filter(|count| *count > 0)?;
    Some((key, sum))
}
