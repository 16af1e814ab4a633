//! Computes a name for a policy: equal policies have equal names.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::decoder::Decoder;
use super::diagram::{Bdd, Diagram};
use super::types::Policy;

/// How the id of a policy begins of which not every verdict is known.
pub const INEXACT: &str = "inexact-";

impl Decoder {
    /// The name of a policy, the same in every run of every gpumap that numbers the
    /// question's bits alike. That of an exact policy is a hash of everything that it
    /// says: equal ids are equal verdicts, and other ids are others. That of a policy
    /// which is not exact begins with `inexact-` and is a hash of what it was made of:
    /// equal ids are equal verdicts.
    pub fn id(&mut self, policy: Policy) -> String {
        if let Some(digest) = self.origins.digest(policy.origin) {
            return format!("{INEXACT}{}", digits(digest));
        }
        let drawing = self.drawing(policy);
        if self.is_known(policy) { drawing } else { format!("{INEXACT}{drawing}") }
    }

    /// A hash of what is drawn of a policy.
    fn drawing(&self, policy: Policy) -> String {
        let mut hasher = Sha256::new();
        let mut numbers = HashMap::new();
        for function in [policy.allow, policy.deny] {
            let number = number(&self.diagram, function, &mut numbers, &mut hasher);
            hasher.update(number.to_le_bytes());
        }
        digits(&hasher.finalize())
    }
}

/// All of a digest: what is compared by its id could be made to collide with fewer digits.
fn digits(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number of a function in order of first visit; each is hashed once, by
/// its variable and the numbers of its two sides.
fn number(diagram: &Diagram, function: Bdd, numbers: &mut HashMap<Bdd, u32>, hasher: &mut Sha256) -> u32 {
    if let Some(value) = function.as_constant() {
        return value.into();
    }
    if let Some(known) = numbers.get(&function) {
        return *known;
    }
    let Some(variable) = diagram.top(function) else { return 0 };
    let (low, high) = diagram.cofactors(function, variable);
    let (low, high) = (number(diagram, low, numbers, hasher), number(diagram, high, numbers, hasher));
    for part in [variable, low, high] {
        hasher.update(part.to_le_bytes());
    }
    let number = numbers.len() as u32 + 2;
    numbers.insert(function, number);
    number
}
