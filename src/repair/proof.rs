//! The proof of a change: what every cgroup that it touches must look like
//! afterwards, compared with what it does look like.

use std::collections::HashMap;

use crate::analyse;
use crate::model::CgroupPath;
use crate::observation::{Answer, Cgroup, Observation, Text};
use crate::policy::{Decoder, Policy};

/// One program that went out of a cgroup's list.
#[derive(Clone, Copy, Debug)]
pub struct Swapped<'a> {
    /// The cgroup that it was attached to.
    pub level: &'a Text,
    /// The cgroup whose verdicts, and those of all below it, are meant to change;
    /// `None` if none may.
    pub meant: Option<&'a Text>,
    /// The program that went.
    pub old: u32,
    /// The one in its place; `None` if there is none.
    pub new: Option<u32>,
}

/// What is not as it must be: each a sentence. With the empty answer every cgroup of
/// `before` at or below the level that is still there has, own and in force, the list
/// of programs that it had, with the one program swapped; decides what that list
/// decides; and, unless it was meant to change, decides the same as before.
///
/// `after` holds the new program; what became of cgroups that were not there before
/// is not judged, but that none of them still has the old program in force.
pub fn differences(before: &Observation, after: &Observation, swapped: Swapped<'_>) -> Vec<String> {
    let expected = expected(before, after, swapped);
    let wrong = lists(&expected, after, swapped);
    if !wrong.is_empty() {
        return wrong;
    }
    let mut decoder = Decoder::new();
    let is_now = |(cgroup, policy): (&Cgroup, Policy)| ((cgroup.path.clone(), cgroup.id), policy);
    let now: HashMap<_, _> =
        analyse::policies_below(after, swapped.level, &mut decoder).into_iter().map(is_now).collect();
    let wanted = analyse::policies_below(&expected, swapped.level, &mut decoder);
    let then = analyse::policies_below(before, swapped.level, &mut decoder);
    let mut wrong = Vec::new();
    for ((cgroup, wanted), (was, then)) in wanted.into_iter().zip(then) {
        let Some(now) = now.get(&(cgroup.path.clone(), cgroup.id)) else { continue };
        let may_change = swapped
            .meant
            .is_some_and(|meant| CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(meant)));
        // What was unknown before and is ruled by the very same programs is left aside.
        let is_touched = was.effective.known().is_none_or(|ids| ids.contains(&swapped.old));
        let (is_now, is_wanted) = (decoder.is_known(*now), decoder.is_known(wanted));
        if !is_touched && !is_now && !is_wanted {
            continue;
        }
        let is_known = is_now && is_wanted;
        if !is_known || *now != wanted {
            wrong.push(format!("{} does not decide what was planned", cgroup.path.lossy()));
        } else if !may_change && wanted != then && !is_mere_passage(cgroup, swapped) {
            wrong.push(format!("{} would decide otherwise than before", cgroup.path.lossy()));
        }
    }
    wrong
}

/// What would be decided otherwise once the change is made, and is not meant to be:
/// a sentence for each cgroup.
pub fn changes(before: &Observation, swapped: Swapped<'_>) -> Vec<String> {
    let after = expected(before, before, swapped);
    differences(before, &after, swapped)
}

/// Whether nobody is in a cgroup, which lies between the program's and the one that
/// is meant: nothing asks there.
fn is_mere_passage(cgroup: &Cgroup, swapped: Swapped<'_>) -> bool {
    let is_above = |meant: &Text| CgroupPath::new(meant).is_below(CgroupPath::new(&cgroup.path));
    swapped.meant.is_some_and(is_above) && cgroup.is_empty()
}

/// `before` with the one program swapped in every list where it counts, and with the
/// programs of both.
fn expected(before: &Observation, after: &Observation, swapped: Swapped<'_>) -> Observation {
    let swap = |ids: &mut Vec<u32>| match swapped.new {
        Some(new) => ids.iter_mut().filter(|id| **id == swapped.old).for_each(|id| *id = new),
        None => ids.retain(|id| *id != swapped.old),
    };
    let mut expected = before.clone();
    for cgroup in &mut expected.cgroups {
        if !CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(swapped.level)) {
            continue;
        }
        if let Answer::Known(ids) = &mut cgroup.effective {
            swap(ids);
        }
        if let (Answer::Known(own), true) = (&mut cgroup.own, cgroup.path == *swapped.level) {
            swap(&mut own.programs);
            if let (Some(link), Some(new)) = (own.links.remove(&swapped.old), swapped.new) {
                own.links.insert(new, link);
            }
        }
    }
    let is_new = |id: u32| !before.programs.iter().any(|program| program.id == id);
    expected.programs.extend(after.programs.iter().filter(|program| is_new(program.id)).cloned());
    let is_new = |id: u32| !before.maps.iter().any(|map| map.id == id);
    expected.maps.extend(after.maps.iter().filter(|map| is_new(map.id)).cloned());
    expected
}

/// The cgroups whose lists are not as expected.
fn lists(expected: &Observation, after: &Observation, swapped: Swapped<'_>) -> Vec<String> {
    let is_ruled =
        |cgroup: &&Cgroup| CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(swapped.level));
    let wanted: HashMap<&Text, &Cgroup> =
        expected.cgroups.iter().filter(is_ruled).map(|cgroup| (&cgroup.path, cgroup)).collect();
    let mut wrong = Vec::new();
    if !after.cgroups.iter().any(|cgroup| cgroup.path == *swapped.level) {
        wrong.push(format!("{} is gone", swapped.level.lossy()));
    }
    for now in after.cgroups.iter().filter(is_ruled) {
        let path = now.path.lossy();
        let same = wanted.get(&now.path).filter(|wanted| wanted.id == now.id);
        match same {
            None if *swapped.level == now.path => {
                wrong.push(format!("{path} is another cgroup of that name now"));
            }
            None if now.effective.known().is_none_or(|ids| ids.contains(&swapped.old)) => {
                wrong.push(format!("{path}, which is new, still has program {} in force", swapped.old));
            }
            Some(wanted) if wanted.effective != now.effective => {
                wrong.push(format!("{path} has other programs in force than planned"));
            }
            Some(wanted) if wanted.own != now.own => {
                wrong.push(format!("{path} has other programs attached than planned"));
            }
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Attached, HexBytes, Program};

    fn program(decoder: &mut Decoder, id: u32, rules: &str) -> Program {
        let policy = decoder.policy_of_text(rules).unwrap();
        let compiled = analyse::compiled(decoder, policy).unwrap();
        Program { id, ..compiled }
    }

    fn cgroup(path: &str, id: u64, own: &[u32], effective: &[u32]) -> Cgroup {
        Cgroup {
            path: path.into(),
            id,
            effective: Answer::Known(effective.to_vec()),
            own: Answer::Known(Attached { programs: own.to_vec(), flags: 2, ..Attached::default() }),
            pids: vec![1],
            unseen: None,
            uid: None,
        }
    }

    fn observation(cgroups: &[Cgroup]) -> Observation {
        let decoder = &mut Decoder::new();
        let programs = vec![
            program(decoder, 1, "deny a *:* rwm\nallow c 1:3 rw"),
            program(decoder, 2, "deny a *:* rwm\nallow c 1:3 rw\nallow c 195:0 rw"),
            program(decoder, 3, "allow a *:* rwm"),
        ];
        Observation { cgroups: cgroups.to_vec(), programs, ..Observation::default() }
    }

    fn before() -> Vec<Cgroup> {
        vec![cgroup("/a", 1, &[1], &[1]), cgroup("/a/b", 2, &[3], &[3, 1]), cgroup("/c", 3, &[], &[])]
    }

    fn told(after: &[Cgroup], meant: Option<&str>) -> Vec<String> {
        let meant = meant.map(Text::from);
        let level = Text::from("/a");
        let swapped = Swapped { level: &level, meant: meant.as_ref(), old: 1, new: Some(2) };
        differences(&observation(&before()), &observation(after), swapped)
    }

    /// Make sure that exactly the planned change passes.
    #[test]
    fn only_the_planned_change() {
        let after = [cgroup("/a", 1, &[2], &[2]), cgroup("/a/b", 2, &[3], &[3, 2])];
        assert_eq!(told(&after, Some("/a")), [""; 0]);
        for (wrong, why) in [
            // The kernel wrote the wrong slot of a list in force.
            ([after[0].clone(), cgroup("/a/b", 2, &[3], &[2, 1])], "in force"),
            ([after[0].clone(), cgroup("/a/b", 2, &[3], &[2, 3])], "in force"),
            // Somebody attached another one beside it.
            ([cgroup("/a", 1, &[2, 3], &[2, 3]), after[1].clone()], "in force"),
            ([cgroup("/a", 1, &[2, 3], &[2]), after[1].clone()], "attached"),
            ([cgroup("/a", 9, &[2], &[2]), after[1].clone()], "another cgroup"),
            ([after[0].clone(), cgroup("/a/new", 7, &[], &[1])], "which is new"),
        ] {
            let told = told(&wrong, Some("/a"));
            assert!(told.iter().any(|told| told.contains(why)), "{why}: {told:?}");
        }
        assert!(told(&after[1..], Some("/a"))[0].contains("gone"));
    }

    /// Make sure that nobody else may gain, and that a program whose policy is
    /// another than that of the plan is seen in the verdicts.
    #[test]
    fn nobody_else_gains() {
        let after = [cgroup("/a", 1, &[2], &[2]), cgroup("/a/b", 2, &[3], &[3, 2])];
        let told = told(&after, Some("/a/b"));
        assert!(told.len() == 1 && told[0].contains("/a would decide otherwise"), "{told:?}");
        assert_eq!(self::told(&after, None).len(), 2);
    }

    /// Make sure that taking a program away is proved by the same means, and that a
    /// program whose instructions are another's counts.
    #[test]
    fn taking_away() {
        let level = Text::from("/a");
        let mut before = observation(&[cgroup("/a", 1, &[1, 2], &[1, 2])]);
        let after = observation(&[cgroup("/a", 1, &[1], &[1])]);
        let swapped = Swapped { level: &level, meant: None, old: 2, new: None };
        assert_eq!(differences(&before, &after, swapped), [""; 0]);
        let narrower = before.programs[0].xlated.clone();
        before.programs[0].xlated = before.programs[2].xlated.clone();
        assert_eq!(differences(&before, &after, swapped).len(), 1);
        before.programs[0].xlated = narrower;
        let mut lying = after.clone();
        lying.programs[0].xlated = Answer::Known(HexBytes(Vec::new()));
        assert_eq!(differences(&before, &lying, swapped).len(), 1);
    }
}
