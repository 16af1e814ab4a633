//! The answers of `gpumap check`: many questions about one policy.

use crate::model::Verdicts;
use crate::observation::Observation;
use crate::policy::{Combination, Decoder, Policy, Question};
use crate::report::Check;

use super::policies::Policies;
use super::{AnalyseError, Subject};

/// Answers many questions about one policy; what `gpumap check` streams through.
#[derive(Debug)]
pub struct Checker {
    decoder: Decoder,
    policy: Policy,
    /// Whether the kernel may be one that asks about making whiteouts.
    asks_all: bool,
}

impl Checker {
    /// Decodes the subject's policy once.
    pub fn new(observation: &Observation, subject: &Subject) -> Result<Self, AnalyseError> {
        let mut decoder = Decoder::new();
        let policy = Policies::new(observation).of_subject(subject, &mut decoder)?;
        let combination = Combination::of_kernel(&observation.host.kernel);
        Ok(Self { decoder, policy, asks_all: combination == Combination::AllMustAllow })
    }

    /// The verdict alone; for a device without wildcards this allocates
    /// nothing and takes tens of nanoseconds.
    pub fn verdict(&self, question: &Question) -> Verdicts {
        if let Some(device) = question.device()
            && question.requests.iter().all(|request| device.is_never_asked(request, self.asks_all))
        {
            return Verdicts::Allow;
        }
        self.decoder.verdict_of_all(self.policy, question).map_or(Verdicts::Mixed, Verdicts::from)
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

    fn why_unknown(&self, question: &Question) -> String {
        let mut reasons = match (question.device(), question.requests.iter().next()) {
            (Some(device), Some(request)) => self.decoder.why(self.policy, device, request),
            _ => Vec::new(),
        };
        if reasons.is_empty() {
            reasons = self.decoder.reasons(self.policy).into_iter().map(str::to_owned).collect();
        }
        reasons.join("; ")
    }

    /// Which requests get which verdict, or that it is the numbers that differ.
    fn why_mixed(&self, question: &Question) -> String {
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
