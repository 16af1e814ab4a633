//! What a watch does not cover from its beginning, in sentences: processes with
//! the same reason share one.

use crate::report::Event;

/// Processes that a sentence names.
const NAMED: usize = 8;

/// A sentence for each reason that these `uncovered` events have.
pub fn not_seen(uncovered: &[Event]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for event in uncovered {
        let why = event.why.as_deref().unwrap_or_default();
        let who = event.process.as_ref().map(|one| format!("{} {}", one.pid, one.comm));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, processes)) => processes.extend(who),
            None => reasons.push((why, who.into_iter().collect())),
        }
    }
    reasons.into_iter().map(|(why, processes)| sentence(why, &processes)).collect()
}

/// The sentence of a reason; one that is of no process says itself what is not seen.
fn sentence(why: &str, processes: &[String]) -> String {
    let count = match processes.len() {
        0 => return why.to_owned(),
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let named = processes.get(..NAMED).unwrap_or(processes).join(", ");
    let more = match processes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("changes of {count} ({named}{more}) are not seen as they happen: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EventProcess;

    /// Make sure that a thousand processes with one reason are one sentence, which
    /// counts those that it does not name.
    #[test]
    fn one_sentence_for_a_reason() {
        let event = |pid, why: &str| Event {
            process: Some(EventProcess { pid, comm: "go".to_owned(), ..EventProcess::default() }),
            why: Some(why.to_owned()),
            ..Event::default()
        };
        let mut events: Vec<Event> = (1..=1000).map(|pid| event(pid, "no symbols")).collect();
        events.push(event(2000, "a lease"));
        events.push(Event { why: Some("process 9 cannot be read".to_owned()), ..Event::default() });
        let found = not_seen(&events);
        assert_eq!((found.len(), found[2].as_str()), (3, "process 9 cannot be read"));
        assert!(found[0].starts_with("changes of 1000 processes (1 go, 2 go,"), "{}", found[0]);
        assert!(found[0].ends_with("8 go and 992 more) are not seen as they happen: no symbols"));
        assert_eq!(found[1], "changes of 1 process (2000 go) are not seen as they happen: a lease");
    }
}
