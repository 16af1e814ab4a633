//! What was said before: a sentence that stays true is said once, and not in each interval.

use std::collections::BTreeSet;

/// The sentences that were said.
#[derive(Debug, Default)]
pub struct Told(BTreeSet<String>);

impl Told {
    /// Those of some sentences that were not said yet.
    pub(super) fn new_ones(&mut self, sentences: Vec<String>) -> Vec<String> {
        // A run that lasts for months does not remember each process.
        if self.0.len() > 10_000 {
            self.0.clear();
        }
        sentences.into_iter().filter(|sentence| self.0.insert(sentence.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a sentence is said once, and again when it says something else.
    #[test]
    fn once() {
        let mut told = Told::default();
        let say = |told: &mut Told, text: &str| told.new_ones(vec![text.to_owned()]).len();
        assert_eq!(
            [say(&mut told, "7: twice"), say(&mut told, "7: twice"), say(&mut told, "7: 3 times")],
            [1, 0, 1]
        );
    }
}
