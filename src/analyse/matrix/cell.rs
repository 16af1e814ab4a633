//! One cell: the four sets of an owner or a process, asked about one GPU or instance.

use crate::model::{CellState, GpuKey, Membership, Severity, Verdict};
use crate::report::{Cgroup, GpuSet, MatrixCell, OwnerSets, Process};

/// A GPU, or an instance on one.
#[derive(Clone, Debug)]
pub(in crate::analyse) struct Column {
    /// Its key.
    pub(in crate::analyse) key: GpuKey,
    /// The GPU that it is on, if it is an instance.
    pub(in crate::analyse) gpu: Option<GpuKey>,
    /// Place of the GPU in the inventory, and of the instance among those of the GPU.
    pub(in crate::analyse) place: (usize, Option<usize>),
}

impl Column {
    /// Whether it is in a set of which these GPUs and instances are known.
    fn is_in(&self, gpus: &[GpuKey], instances: &[GpuKey]) -> bool {
        let all = if self.gpu.is_some() { instances } else { gpus };
        all.contains(&self.key)
    }

    fn is_in_set(&self, set: &GpuSet) -> Membership {
        let Some(gpus) = &set.gpus else { return Membership::Unknown };
        let is_unknown = |key: &GpuKey| set.unknown.contains(key);
        match self.is_in(gpus, &set.instances) {
            true => Membership::Yes,
            false if is_unknown(&self.key) || self.gpu.as_ref().is_some_and(is_unknown) => {
                Membership::Unknown
            }
            false => Membership::No,
        }
    }

    /// An environment that only the owner wrote says nothing against it, and of a GPU
    /// that was allocated as a whole nobody knows which instance is meant.
    fn is_allocated(&self, set: &GpuSet) -> Membership {
        let is_whole = self.gpu.as_ref().is_some_and(|gpu| {
            let is_on_it = |key: &GpuKey| key.is_on(gpu);
            set.gpus.iter().flatten().any(|key| key == gpu) && !set.instances.iter().any(is_on_it)
        });
        allocation(self.is_in_set(set), set.is_trusted(), is_whole)
    }
}

/// What an allocation says of a column. `is_trusted`: whether somebody else than the
/// owner says it. `is_whole`: of an instance, whether its GPU was allocated as a whole,
/// so that nobody knows which instance is meant.
pub fn allocation(is_in: Membership, is_trusted: bool, is_whole: bool) -> Membership {
    match is_in {
        Membership::No if is_whole => Membership::Unknown,
        Membership::Yes if !is_trusted => Membership::Claimed,
        Membership::No if !is_trusted => Membership::Unknown,
        known => known,
    }
}

/// The cell of an owner that has these to do with a GPU: whether it is allocated,
/// allowed, asked for and held. `is_denied`: whether it is held although the rules deny it
/// now.
pub fn of_memberships(sets: [Membership; 4], is_denied: bool) -> MatrixCell {
    let [allocated, allowed, asked, held] = sets;
    settled(MatrixCell { allocated, allowed, asked, held, ..MatrixCell::default() }, is_denied)
}

/// What an owner has to do with it.
pub(in crate::analyse) fn of_owner(
    column: &Column,
    sets: &OwnerSets,
    finding: Option<Severity>,
) -> MatrixCell {
    let cell = MatrixCell {
        state: CellState::Nothing,
        allocated: column.is_allocated(&sets.allocated),
        allowed: column.is_in_set(&sets.allowed),
        asked: column.is_in_set(&sets.visible),
        held: column.is_in_set(&sets.held),
        finding,
    };
    settled(cell, sets.held_denied.contains(&column.key))
}

/// What a process has to do with it. Its allocation is that of its owner.
pub(super) fn of_process(
    column: &Column,
    process: &Process,
    cgroup: &Cgroup,
    allocated: &GpuSet,
    finding: Option<Severity>,
) -> MatrixCell {
    let cell = MatrixCell {
        state: CellState::Nothing,
        allocated: column.is_allocated(allocated),
        allowed: allowed(column, cgroup),
        asked: asked(column, process),
        held: held(column, process),
        finding,
    };
    settled(cell, process.held_denied.contains(&column.key))
}

fn allowed(column: &Column, cgroup: &Cgroup) -> Membership {
    let instances = cgroup.gpus.iter().flat_map(|gpu| &gpu.instances);
    let of_instance = instances.filter(|one| one.instance == column.key).map(|one| one.verdict).next();
    let of_gpu = cgroup.gpus.iter().filter(|one| one.gpu == column.key).map(|one| one.verdict).next();
    match of_instance.or(of_gpu) {
        Some(Verdict::Allow) => Membership::Yes,
        Some(Verdict::Deny) => Membership::No,
        Some(Verdict::Unknown) | None => Membership::Unknown,
    }
}

fn asked(column: &Column, process: &Process) -> Membership {
    if process.kernel_thread || process.has_ended() {
        return Membership::No;
    }
    let asked = process.visible.as_ref().map(|visible| &visible.live);
    match asked.and_then(|asked| Some((asked.gpus.as_ref()?, &asked.instances))) {
        Some((gpus, instances)) if column.is_in(gpus, instances) => Membership::Yes,
        Some(_) => Membership::No,
        None => Membership::Unknown,
    }
}

fn held(column: &Column, process: &Process) -> Membership {
    let is_certain = process.held_unknown.is_none();
    match &process.held {
        Some(gpus) if column.is_in(gpus, &process.held_instances) => Membership::Yes,
        Some(_) if is_certain => Membership::No,
        _ => Membership::Unknown,
    }
}

/// The cell with all of it in one word. `is_denied`: whether it is held although the
/// rules deny it now.
fn settled(cell: MatrixCell, is_denied: bool) -> MatrixCell {
    use Membership::{Claimed, No, Unknown, Yes};
    let state = match (cell.held, cell.allowed, cell.allocated) {
        (Yes, ..) if is_denied => CellState::HeldDenied,
        (Yes, _, Yes) => CellState::GrantedHeld,
        (Yes, _, No) => CellState::BeyondHeld,
        (Yes, ..) => CellState::Held,
        (_, Yes, Yes) if cell.asked == Yes => CellState::GrantedAsked,
        (_, Yes, Yes) => CellState::Granted,
        (_, Yes, No) => CellState::Beyond,
        (_, Yes, _) if cell.asked == Yes => CellState::Asked,
        (_, Yes, _) => CellState::Allowed,
        (_, Unknown | Claimed, _) => CellState::Unknown,
        (_, No, Yes) => CellState::Lost,
        (_, No, Claimed) => CellState::Claimed,
        (_, No, _) => CellState::Nothing,
    };
    // A GPU that may not be opened cannot be used, so an unknown request for it does not
    // make the cell unsure.
    let asked = if cell.allowed == No && cell.asked == Unknown { No } else { cell.asked };
    MatrixCell { state, asked, ..cell }
}
