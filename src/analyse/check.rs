//! The answers of `gpumap check`: many questions about one policy.

use super::policies::Policies;
use super::subject::{AnalyseError, Subject};
use crate::model::{Verdict, Verdicts};
use crate::observation::Observation;
use crate::policy::{self, Decoder, Policy, Question, TimeLimit};
use crate::report::Check;

/// Questions that are answered one by one before a policy that may be complex
/// is drawn as a whole.
const ONE_BY_ONE: u32 = 64;

/// Answers many questions about one policy; what `gpumap check` streams through.
#[derive(Debug)]
pub struct Checker {
    observation: Observation,
    subject: Subject,
    decoder: Decoder,
    /// What answers single questions as long as nothing is drawn.
    undrawn: Option<Policy>,
    /// How many questions it still answers.
    left: u32,
    /// The whole policy, once it is drawn.
    policy: Option<Policy>,
    /// Whether the kernel asks about making whiteouts.
    asks_about_whiteouts: bool,
}

impl Checker {
    /// Decodes the subject's policy once, or where that may take long, when it
    /// is needed.
    ///
    /// # Errors
    ///
    /// The subject is not part of the observation.
    pub fn new(observation: Observation, subject: Subject, limit: &TimeLimit) -> Result<Self, AnalyseError> {
        let asks_about_whiteouts = policy::asks_about_whiteouts(&observation.host.kernel);
        let mut decoder = Decoder::within(limit);
        let undrawn = Policies::new(&observation).undrawn(&subject, &mut decoder);
        let mut checker = Self {
            observation,
            subject,
            decoder,
            undrawn,
            left: ONE_BY_ONE,
            policy: None,
            asks_about_whiteouts,
        };
        if undrawn.is_none() {
            let policy =
                Policies::new(&checker.observation).of_subject(&checker.subject, &mut checker.decoder);
            checker.policy = Some(policy?);
        }
        Ok(checker)
    }

    /// The facts behind the answers.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// The verdict alone; for a device without wildcards this allocates
    /// nothing and takes tens of nanoseconds once the policy is drawn.
    pub fn verdict(&mut self, question: &Question) -> Verdicts {
        if let Some(device) = question.device()
            && question
                .requests
                .iter()
                .all(|request| device.is_never_asked(request, self.asks_about_whiteouts))
        {
            return Verdicts::Allow;
        }
        if let Some(known) = self.one_by_one(question) {
            return known;
        }
        let policy = self.drawn();
        self.decoder.verdict_of_all(policy, question)
    }

    /// The verdict by running the programs on nothing but the question, where
    /// that settles it.
    fn one_by_one(&mut self, question: &Question) -> Option<Verdicts> {
        let undrawn = self.undrawn.filter(|_| self.policy.is_none())?;
        let device = question.device()?;
        self.left = self.left.checked_sub(1)?;
        let mut verdicts =
            question.requests.iter().map(|request| self.decoder.verdict(undrawn, device, request));
        let first = verdicts.next()?;
        let mut same = first != Verdict::Unknown;
        for verdict in verdicts {
            if verdict == Verdict::Unknown {
                return None;
            }
            same &= verdict == first;
        }
        match (first, same) {
            (Verdict::Unknown, _) => None,
            (_, true) => Some(first.into()),
            (_, false) => Some(Verdicts::Mixed),
        }
    }

    /// The whole policy.
    fn drawn(&mut self) -> Policy {
        if let Some(policy) = self.policy {
            return policy;
        }
        let policy = Policies::new(&self.observation).of_subject(&self.subject, &mut self.decoder);
        let policy = policy.unwrap_or_else(|error| self.decoder.unknown_policy(&error.to_string()));
        *self.policy.insert(policy)
    }

    /// The verdict with the reason where it is unknown or mixed; `asked` is
    /// the device as the user wrote it.
    pub fn check(&mut self, question: &Question, asked: &str) -> Check {
        let (verdict, why) = match self.verdict(question) {
            Verdicts::Unknown => (Verdicts::Unknown, Some(self.why_unknown(question))),
            Verdicts::Mixed => (Verdicts::Mixed, Some(self.why_mixed(question))),
            settled => (settled, None),
        };
        Check { device: asked.to_owned(), verdict, why }
    }

    fn why_unknown(&mut self, question: &Question) -> String {
        let policy = self.drawn();
        let mut reasons = match (question.device(), question.requests.iter().next()) {
            (Some(device), Some(request)) => self.decoder.why(policy, device, request),
            _ => Vec::new(),
        };
        if reasons.is_empty() {
            reasons = self.decoder.reasons(policy).into_iter().map(str::to_owned).collect();
        }
        reasons.join("; ")
    }

    /// Which requests get which verdict, or that it is the numbers that differ.
    fn why_mixed(&mut self, question: &Question) -> String {
        let parts: Vec<String> = question
            .requests
            .iter()
            .map(|request| {
                let one = Question { requests: request.into(), ..*question };
                let verdict = match self.verdict(&one) {
                    Verdicts::Mixed => "differs by device".to_owned(),
                    verdict => verdict.to_string(),
                };
                format!("{} {verdict}", request.letters())
            })
            .collect();
        parts.join(", ")
    }
}
