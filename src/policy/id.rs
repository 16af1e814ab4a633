//! Computes a name for a policy: equal policies have equal names.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::decoder::Decoder;
use super::diagram::{Bdd, Diagram};
use super::types::Policy;

/// Hex digits of an id: 96 bits.
const DIGITS: usize = 24;

impl Decoder {
    /// A hash of everything the policy says: equal ids are equal policies, in
    /// every run of every gpumap that numbers the question's bits alike.
    pub fn id(&self, policy: Policy) -> String {
        let mut hasher = Sha256::new();
        let mut numbers = HashMap::new();
        for function in [policy.allow, policy.deny] {
            let number = number(&self.diagram, function, &mut numbers, &mut hasher);
            hasher.update(number.to_le_bytes());
        }
        let digest = hasher.finalize();
        let mut id: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        id.truncate(DIGITS);
        id
    }
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
