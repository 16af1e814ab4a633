//! The time limit of decoding: the moment by which a decoder must be done.
//!
//! A command makes one and hands it down to where decoders are made; copies are of
//! one limit, in whatever thread they are asked. Every loop of the decoder whose length
//! a user decides asks it from time to time. What is not decoded by then is unknown for
//! the reason [`WHY`]; what was decoded before stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Why a policy that was not decoded in time is unknown.
pub const WHY: &str = "the time limit (--timeout) ran out before gpumap had decoded it";

/// A time limit for decoding; by default there is none.
#[derive(Clone, Debug, Default)]
pub struct TimeLimit(Option<Arc<Limit>>);

#[derive(Debug)]
struct Limit {
    until: Instant,
    was_missed: AtomicBool,
}

impl TimeLimit {
    /// Decoding stops at this moment; never for `None`.
    pub fn at(until: Option<Instant>) -> Self {
        Self(until.map(|until| Arc::new(Limit { until, was_missed: AtomicBool::new(false) })))
    }

    /// Whether some decoding was cut short by this limit.
    pub fn was_missed(&self) -> bool {
        self.0.as_ref().is_some_and(|limit| limit.was_missed.load(Ordering::Relaxed))
    }

    /// Whether the time is over; remembers that somebody had to stop for it.
    pub(super) fn is_over(&self) -> bool {
        let Some(limit) = &self.0 else { return false };
        let is_over = Instant::now() >= limit.until;
        if is_over {
            limit.was_missed.store(true, Ordering::Relaxed);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CompileError, Context, Decoder, Policy, Question};
    use super::*;
    use crate::model::{Device, DeviceType, MAX_MINOR, Request, Span, Verdict, Verdicts};
    use crate::observation::{Answer, HexBytes, Program};

    /// Make sure that copies are of one limit, also in another thread, and that no
    /// limit is never over.
    #[test]
    fn copies_are_one_limit() {
        let limit = TimeLimit::at(Some(Instant::now()));
        assert!(!limit.was_missed());
        let copy = limit.clone();
        assert!(std::thread::spawn(move || copy.is_over()).join().unwrap());
        assert!(limit.was_missed());
        assert!(!TimeLimit::default().is_over() && !TimeLimit::at(None).was_missed());
    }

    /// Make sure that whatever a decoder is asked when its time is over ends as unknown,
    /// for this reason.
    #[test]
    fn every_way_to_ask_ends() {
        let new = || TimeLimit::at(Some(Instant::now()));
        let ask = |what: &str, asks: &dyn Fn(&mut Decoder, Policy) -> bool| {
            let limit = new();
            let decoder = &mut Decoder::within(&limit);
            let policy = decoder.policy_of_text("deny a *:* rwm\nallow c 195:* rw").unwrap();
            assert!(!limit.was_missed(), "{what}");
            assert!(asks(decoder, policy) && limit.was_missed(), "{what}");
        };
        let allows = [[0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]].concat();
        let program = &Program { xlated: Answer::Known(HexBytes(allows)), ..Program::default() };
        let context = &Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Default::default() };
        let (device, request) = (Device { kind: DeviceType::Char, major: 195, minor: 0 }, Request::Read);
        let unknown = |decoder: &Decoder, policy| decoder.why(policy, device, request) == [WHY];
        ask("a policy", &|decoder, _| {
            let policy = decoder.policy(&[program], context);
            unknown(decoder, policy)
        });
        ask("a policy anywhere", &|decoder, _| {
            let policy = decoder.policy_anywhere(program, context).unwrap();
            unknown(decoder, policy)
        });
        ask("rules", &|decoder, policy| decoder.rules(policy).unknown[0].why == WHY);
        ask("a difference", &|decoder, policy| {
            let other = decoder.policy_of_text("deny a *:* rwm\nallow c 1:3 r").unwrap();
            decoder.changes(policy, other).iter().all(|change| change.to == Verdict::Unknown)
        });
        ask("a program", &|decoder, policy| decoder.compile(policy) == Err(CompileError::Late));
        ask("a question with wildcards", &|decoder, policy| {
            let question = Question {
                kind: None,
                major: Span::one(195),
                minor: Span::up_to(MAX_MINOR),
                requests: Request::Read.into(),
            };
            decoder.verdict_of_all(policy, &question) == Verdicts::Unknown
        });
        ask("a proof", &|decoder, _| {
            let proof = decoder.prove(&[program], context, device, request);
            proof.verdict == Verdict::Unknown && proof.why.as_deref() == Some(WHY)
        });
    }
}
