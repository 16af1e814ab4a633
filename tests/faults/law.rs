//! The law: an answer is the one without the fault, or it is incomplete and says so.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;

use nix::errno::Errno;

use super::answer::{Answer, Facts, is_of_the_moment, kind_of};
use super::command::{Kind, Line};
use super::engine::Failed;
use super::stage::Run;

/// What a command answers without a fault.
pub struct Normal {
    pub code: i32,
    pub answer: Answer,
    /// Kinds of facts that differ from run to run: times.
    pub restless: BTreeSet<String>,
}

/// How a run breaks the law, and what differs.
#[derive(Clone, Debug)]
pub struct Breach {
    pub how: &'static str,
    pub what: Vec<String>,
}

fn breach(how: &'static str, what: impl IntoIterator<Item = String>) -> Option<Breach> {
    Some(Breach { how, what: what.into_iter().take(4).collect() })
}

/// Judges a run of a command in which a call failed.
pub fn judge(normal: &Normal, line: &Line, run: &Run, failed: &Failed, error: Errno) -> Option<Breach> {
    let said = || run.complaint.lines().next().unwrap_or_default().to_owned();
    if run.has_hung() {
        return breach("hangs", []);
    }
    let Some(code) = run.status.code() else {
        return breach("is killed", [format!("signal {:?}", run.status.signal())]);
    };
    if run.complaint.contains("panicked") || run.answer.errors.iter().any(|why| why.contains("panic")) {
        return breach("panics", [run.complaint.clone()]);
    }
    if !(0..=3).contains(&code) {
        return breach("has no exit code", [format!("{code}"), said()]);
    }
    // An interrupted call is made again, and nobody sees it.
    if error == Errno::EINTR && line.kind != Kind::Doctor && (code == 2 || code == 3) {
        return breach(
            "does not call again",
            std::iter::once(said()).chain(run.answer.errors.iter().cloned()),
        );
    }
    if code == 2 {
        let is_told = !run.complaint.trim().is_empty() || !run.answer.errors.is_empty();
        return if is_told { None } else { breach("fails without a word", []) };
    }
    if let Some(why) = &run.answer.broken {
        return breach("writes no document", [why.clone(), said()]);
    }
    if line.kind == Kind::Doctor {
        return doctor(normal, run);
    }
    let is_incomplete = match run.answer.is_complete {
        Some(is_complete) => !is_complete,
        None => code == 3,
    };
    let changes = differences(normal, &run.answer.facts);
    let is_absent = failed.may_say_absent(error);
    if is_incomplete {
        return incomplete(normal, line, run, code, &changes, is_absent);
    }
    let is_same = changes.is_empty() && code == normal.code;
    let is_allowed = match error {
        _ if is_absent => changes.flips().next().is_none(),
        // It is the answer of the kernel to a device that may not be opened.
        Errno::EPERM | Errno::EACCES => failed.call == "faccessat",
        // And to the question for a page of memory that went.
        Errno::EIO => failed.call == "pread64" && failed.target.ends_with("/mem"),
        _ => false,
    };
    // A saved observation says of each of its facts why it is not known.
    let is_told = line.kind == Kind::Saved && changes.says_why() && code == normal.code;
    match is_same || is_allowed || is_told {
        true => None,
        false => {
            let exit = format!("exit {code}, was {}", normal.code);
            breach("is silent", std::iter::once(exit).chain(changes.told()))
        }
    }
}

/// An incomplete answer has exit code 3, or that of what it found, and names the loss; what
/// went while it was looked at is none.
fn incomplete(
    normal: &Normal,
    line: &Line,
    run: &Run,
    code: i32,
    changes: &Changes,
    is_absent: bool,
) -> Option<Breach> {
    let has_found = code == 1 && normal.code == 1;
    // The exit code of `check` is that of its verdicts.
    let are_verdicts = line.name.starts_with("check") && code == normal.code && !changes.concern("checks[");
    if code != 3 && !has_found && !are_verdicts {
        let exit = format!("exit {code}, was {}", normal.code);
        let told = std::iter::once(exit).chain(run.answer.errors.iter().cloned());
        return breach("is incomplete with another exit code", told);
    }
    let is_told = run.answer.errors.difference(&normal.answer.errors).next().is_some()
        || changes.says_why()
        || (line.kind == Kind::Text && !run.complaint.trim().is_empty());
    if !is_told && !is_absent {
        return breach("names no loss", changes.told());
    }
    let flips: Vec<String> = changes.flips().collect();
    if flips.is_empty() { None } else { breach("turns a verdict round", flips) }
}

/// `doctor` tells of failures: none may make it say that more is well.
fn doctor(normal: &Normal, run: &Run) -> Option<Breach> {
    let better = run.answer.facts.iter().filter(|(place, state)| {
        place.ends_with(".state")
            && state.as_str() == "\"ok\""
            && normal.answer.facts.get(*place).is_some_and(|before| before != "\"ok\"")
    });
    let better: Vec<String> = better.map(|(place, _)| place.clone()).collect();
    if better.is_empty() { None } else { breach("says that more is well", better) }
}

/// Facts that are not what they were: place, before, now.
#[derive(Default)]
pub struct Changes(Vec<(String, Option<String>, Option<String>)>);

pub fn differences(normal: &Normal, now: &Facts) -> Changes {
    let before = &normal.answer.facts;
    let places: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let differ = places.into_iter().filter(|place| before.get(*place) != now.get(*place));
    let counts =
        differ.filter(|place| !is_of_the_moment(place) && !normal.restless.contains(&kind_of(place)));
    Changes(
        counts.map(|place| (place.clone(), before.get(place).cloned(), now.get(place).cloned())).collect(),
    )
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn places(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(place, _, _)| place.as_str())
    }

    fn told(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(place, before, now)| {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
            let mut line = format!("{place}: {} -> {}", text(before), text(now));
            if line.len() > 220 {
                line.truncate((0..=220).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0));
            }
            line
        })
    }

    /// Whether a fact now says in words why it is not known, or with a question mark that
    /// it is not.
    fn says_why(&self) -> bool {
        let says = |text: &str| text.contains('?') || text.contains("unknown") || text.split(' ').count() > 3;
        self.0.iter().any(|(place, before, now)| match now {
            Some(now) if before.is_none() => says(now) || says(place),
            Some(now) => says(now),
            None => false,
        })
    }

    /// Whether a fact whose place begins so is another.
    fn concern(&self, place: &str) -> bool {
        self.0.iter().any(|(one, _, _)| one.starts_with(place))
    }

    /// Verdicts that were allow and are deny, or the other way round.
    fn flips(&self) -> impl Iterator<Item = String> {
        let is = |value: &Option<String>, word: &str| value.as_deref() == Some(word);
        // What has a number in its list may be something else now.
        let is_same_thing = |place: &str| !place.contains("[#");
        let flipped = self.0.iter().filter(move |(place, before, now)| {
            let is_flipped = (is(before, "\"allow\"") && is(now, "\"deny\""))
                || (is(before, "\"deny\"") && is(now, "\"allow\""));
            is_flipped && is_same_thing(place)
        });
        flipped.map(|(place, before, now)| format!("{place}: {before:?} -> {now:?}"))
    }
}
