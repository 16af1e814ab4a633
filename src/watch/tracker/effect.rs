//! Whether a change of a variable has an effect: the driver's library that
//! reads it does so once, when it is initialised.
//!
//! CUDA says so of `cuInit`; HIP and ROCr set up their lists of devices in
//! `hipInit` and `hsa_init`, and HIP initialises ROCr. Of other variables no
//! library is watched, so nothing is said.

use std::time::Duration;

use crate::probing::driver::{Driver, Drivers};

/// How long a process that maps a library is not looked at again. The answer is
/// "not known" meanwhile, which is never wrong.
const MAPPED: Duration = Duration::from_millis(100);

/// Who reads a variable.
struct Readers {
    drivers: Drivers,
    /// Whether it is known that they never read it again.
    once: bool,
}

/// What is known of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effect {
    initialised: Drivers,
    /// The libraries that it mapped, and when that was seen, in nanoseconds
    /// since boot.
    mapped: Drivers,
    looked: u64,
}

fn readers(name: &str) -> Option<Readers> {
    let (drivers, once): (&[Driver], bool) = match name {
        // HIP takes it where HIP_VISIBLE_DEVICES is not set.
        "CUDA_VISIBLE_DEVICES" => (&[Driver::Cuda, Driver::Hip], true),
        "CUDA_DEVICE_ORDER" => (&[Driver::Cuda], true),
        "CUDA_MPS_PIPE_DIRECTORY" | "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" => (&[Driver::Cuda], false),
        "HIP_VISIBLE_DEVICES" => (&[Driver::Hip], true),
        "ROCR_VISIBLE_DEVICES" => (&[Driver::Hsa], true),
        _ => return None,
    };
    Some(Readers { drivers: Drivers::of(drivers), once })
}

impl Effect {
    /// A library was initialised.
    pub(super) fn initialise(&mut self, driver: Driver) {
        self.initialised = self.initialised.and(driver);
        if driver == Driver::Hip {
            self.initialised = self.initialised.and(Driver::Hsa);
        }
    }

    /// The same for a child that was forked.
    pub(super) fn inherited(self) -> Self {
        Self { initialised: self.initialised, ..Self::default() }
    }

    /// Whether a change at this moment has an effect; `None` if that is not
    /// known, as where a library is mapped that may have been initialised
    /// before anybody watched. `look` tells what is mapped `now`; `None` of a
    /// process that is gone, which will initialise nothing more.
    pub(super) fn of(
        &mut self,
        name: &str,
        at: u64,
        now: u64,
        look: impl FnOnce() -> Option<Drivers>,
    ) -> Option<bool> {
        let Readers { drivers, once } = readers(name)?;
        let late = once.then_some(false);
        let done = self.initialised.both(drivers);
        if done == drivers {
            return late;
        }
        if self.looked < at {
            let recent = u128::from(now.saturating_sub(self.looked)) < MAPPED.as_nanos();
            if recent && done.is_empty() && !self.mapped.both(drivers).is_empty() {
                return None;
            }
            match look() {
                Some(mapped) => (self.mapped, self.looked) = (mapped, now),
                None => return late.filter(|_| !done.is_empty()),
            }
        }
        let open = self.mapped.both(drivers).without(done);
        match (open.is_empty(), done.is_empty()) {
            (false, _) => None,
            (true, true) => Some(true),
            (true, false) => late,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDA: &str = "CUDA_VISIBLE_DEVICES";
    const HIP: &str = "HIP_VISIBLE_DEVICES";
    const ROCR: &str = "ROCR_VISIBLE_DEVICES";

    fn at(effect: &mut Effect, name: &str, moment: u64, mapped: &[Driver]) -> Option<bool> {
        effect.of(name, moment, moment + 1, || Some(Drivers::of(mapped)))
    }

    /// Make sure that a driver takes the effect of its own variables alone.
    #[test]
    fn own_variables() {
        let mut effect = Effect::default();
        effect.initialise(Driver::Cuda);
        let mapped = [Driver::Cuda];
        assert_eq!(at(&mut effect, CUDA, 10, &mapped), Some(false));
        assert_eq!(at(&mut effect, "CUDA_DEVICE_ORDER", 20, &mapped), Some(false));
        assert_eq!(at(&mut effect, "CUDA_MPS_PIPE_DIRECTORY", 30, &mapped), None);
        assert_eq!(at(&mut effect, HIP, 40, &mapped), Some(true));
        assert_eq!(at(&mut effect, ROCR, 50, &mapped), Some(true));
        assert_eq!(at(&mut effect, "ZE_AFFINITY_MASK", 60, &mapped), None);
    }

    /// Make sure that HIP initialises ROCr, and that CUDA's variable stays open
    /// where only one of its readers is done.
    #[test]
    fn both_readers() {
        let mut effect = Effect::default();
        effect.initialise(Driver::Hip);
        let mapped = [Driver::Hip, Driver::Hsa, Driver::Cuda];
        assert_eq!(at(&mut effect, HIP, 10, &mapped), Some(false));
        assert_eq!(at(&mut effect, ROCR, 20, &mapped), Some(false));
        assert_eq!(at(&mut effect, CUDA, 30, &mapped), None);
        effect.initialise(Driver::Cuda);
        assert_eq!(at(&mut effect, CUDA, 40, &mapped), Some(false));
    }

    /// Make sure that what a process did before it ended decides.
    #[test]
    fn ended() {
        let mut effect = Effect::default();
        assert_eq!(effect.of(CUDA, 10, 11, || None), None);
        effect.initialise(Driver::Cuda);
        assert_eq!(effect.of(CUDA, 20, 21, || None), Some(false));
        assert_eq!(effect.of("CUDA_MPS_PIPE_DIRECTORY", 20, 21, || None), None);
    }

    /// Make sure that a library that is mapped may have been initialised unseen,
    /// and that one that was not mapped later was not.
    #[test]
    fn mapped() {
        let mut effect = Effect::default();
        assert_eq!(at(&mut effect, CUDA, 10, &[Driver::Cuda]), None);
        // Not looked at again so soon.
        assert_eq!(at(&mut effect, CUDA, 20, &[]), None);
        let later = 20 + u64::try_from(MAPPED.as_nanos()).unwrap();
        assert_eq!(at(&mut effect, CUDA, later, &[]), Some(true));
        assert_eq!(effect.of(CUDA, later, later, || None), Some(true));
        assert_eq!(effect.of(CUDA, 2 * later, 2 * later, || None), None);
    }
}
