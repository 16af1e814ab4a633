//! What jobs did from begin to end, and what may be missing of it: counts of processes of
//! which the owner is not known, and calls that were not counted.

use super::totals;
use crate::model::CountTable;
use crate::observation::{ActivityReading, Observation, OwnerTotals};
use crate::owner::JobName;
use crate::report::{self, OwnerWork, Unattributed};

/// The totals of some jobs, or of all owners where none is named. Whether something is not
/// known: numbers of a job that is there are the least that it did, and one that is not there
/// may have made calls.
pub(super) fn of(
    observation: &Observation,
    reading: &ActivityReading,
    frame: report::Activity,
    jobs: &[JobName],
) -> (report::Activity, bool) {
    let is_asked = |job: &JobName, one: &OwnerWork| one.owner.as_ref().is_some_and(|owner| job.is(owner));
    let mut shown = totals::of(observation);
    shown.retain(|one| jobs.is_empty() || jobs.iter().any(|job| is_asked(job, one)));
    let is_there = |job: &JobName| shown.iter().any(|one| is_asked(job, one));
    let mut unattributed = Unattributed::default();
    if !jobs.iter().all(is_there) {
        unattributed = anybodys(reading, None);
        unattributed.forgotten_owners = reading.forgotten_totals;
        unattributed.is_part_of_node = !reading.whole_node;
    }
    for one in &mut shown {
        let whose = reading.totals.iter().find(|totals| one.owner.is_some() && totals.owner == one.owner);
        let its = whose.map(|whose| anybodys(reading, Some(whose))).unwrap_or_default();
        one.partial |= its != Unattributed::default();
        unattributed = unattributed.most(&its);
    }
    let is_partial = shown.iter().any(|one| one.partial || !one.lost.is_empty());
    let is_unknown = is_partial || unattributed != Unattributed::default();
    let unattributed = Some(unattributed).filter(|it| *it != Unattributed::default());
    (report::Activity { totals: shown, unattributed, ..frame }, is_unknown)
}

/// What may be an owner's: of the same user, or of one who is not known. `None`: of an owner
/// of whom nothing was counted.
fn anybodys(reading: &ActivityReading, owner: Option<&OwnerTotals>) -> Unattributed {
    let user = owner.and_then(|owner| owner.account);
    let is_perhaps_its = |account: Option<u32>| user.is_none() || account.is_none() || account == user;
    let unknown = reading.totals.iter().filter(|one| one.owner.is_none() && !one.is_nobodys);
    let unknown = unknown.filter(|one| is_perhaps_its(one.account)).map(|one| one.processes);
    // What else found no room marks its process, or, of one without an owner, that one's row.
    let concerns = |map: &CountTable| owner.is_none() || *map == CountTable::Processes;
    let lost = reading.sums.lost.iter().filter(|lost| concerns(&lost.map) && is_perhaps_its(lost.uid));
    let uncovered = reading.sums.uncovered.iter().filter(|one| one.function.is_none());
    Unattributed {
        processes: unknown.fold(0, u64::saturating_add),
        lost: lost.map(|lost| lost.count).fold(0, u64::saturating_add),
        uncovered: uncovered.count(),
        ..Unattributed::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Owner, OwnerKind};
    use crate::observation::{Activity, LostRoom};

    const USER: u32 = 1000;

    fn job(number: u64) -> OwnerTotals {
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(number), ..Owner::default() };
        OwnerTotals { owner: Some(owner), account: Some(USER), processes: 1, ..OwnerTotals::default() }
    }

    fn nameless(account: u32, is_nobodys: bool) -> OwnerTotals {
        OwnerTotals { account: Some(account), processes: 2, is_nobodys, ..OwnerTotals::default() }
    }

    /// Whether the summary of job 4711 has unknown parts, and is marked; and what may be its.
    fn told(totals: Vec<OwnerTotals>, lost: Vec<LostRoom>) -> (bool, Option<bool>, Option<Unattributed>) {
        let sums = Activity { lost, ..Activity::default() };
        let reading = ActivityReading { whole_node: true, sums, totals, ..ActivityReading::default() };
        let observation = Observation { activity: Some(Box::new(reading.clone())), ..Observation::default() };
        let names = [JobName::parse("4711").unwrap()];
        let (answer, is_unknown) = of(&observation, &reading, report::Activity::default(), &names);
        (is_unknown, answer.totals.first().map(|one| one.partial), answer.unattributed)
    }

    /// Make sure that counts of which the owner is not known mark a job of their user's, and
    /// counts of nobody, or of another user, do not.
    #[test]
    fn of_nobody_knows_whom() {
        let unknown = |processes| Some(Unattributed { processes, ..Unattributed::default() });
        assert_eq!(told(vec![job(4711), nameless(7, true)], Vec::new()), (false, Some(false), None));
        assert_eq!(told(vec![job(4711), nameless(7, false)], Vec::new()), (false, Some(false), None));
        assert_eq!(told(vec![job(4711), nameless(USER, false)], Vec::new()), (true, Some(true), unknown(2)));
        assert_eq!(told(vec![nameless(7, true), job(4712)], Vec::new()), (false, None, None));
        assert_eq!(told(vec![nameless(7, false)], Vec::new()), (true, None, unknown(2)));
    }

    /// Make sure that a process that found no room marks the jobs of its user.
    #[test]
    fn of_processes_without_room() {
        let lost = |map, uid| vec![LostRoom { map, count: 3, uid: Some(uid) }];
        let found = |map, uid| told(vec![job(4711)], lost(map, uid)).0;
        assert!(found(CountTable::Processes, USER) && !found(CountTable::Processes, 7));
        assert!(!found(CountTable::Streams, USER));
        assert!(told(Vec::new(), lost(CountTable::Streams, 7)).0);
    }
}
