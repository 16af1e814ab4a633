//! Bounds of observations that other nodes sent. They are read whole and analysed, which
//! takes many times the memory of their text: three bytes can be a row of a table.

use super::refusal::Refusal;
use crate::observation::{Observation, Weight};

/// Objects and lists of an observation. A node of 5000 cgroups and 2000 processes has some
/// 150,000.
const OBJECTS: usize = 1 << 19;
/// Their members and elements, of which a list of numbers or words has nothing else.
const MEMBERS: usize = 1 << 21;
/// Cells of the table of GPUs by cgroups and processes: some 200 bytes each. 7000 cgroups
/// and processes with 16 GPUs have 420,000.
const CELLS: usize = if cfg!(test) { 1 << 14 } else { 1 << 21 };

/// Refuses the text of an observation that has more of something than a node has.
pub(super) fn check_text(json: &[u8]) -> Result<(), Refusal> {
    let weight = Weight::of(json);
    if weight.objects > OBJECTS || weight.members > MEMBERS {
        return Err(Refusal::why("it has more parts than an observation of a node"));
    }
    Ok(())
}

/// Refuses an observation that asks for more work than a node does.
pub(super) fn check(observation: &Observation) -> Result<(), Refusal> {
    let instead = "give fleet the node's own answers: gpumap node --json --compact, audit --json";
    match observation.excess_of(CELLS) {
        Some(why) => Err(Refusal::why(format!("{why}; {instead}"))),
        None => observation.excess().map_or(Ok(()), |why| Err(Refusal::why(why))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that parts are counted outside of strings, and that too many are refused.
    #[test]
    fn texts() {
        let strings = format!("[\"{}\",\"\\\"{}\"]", "[,".repeat(MEMBERS), "{,".repeat(MEMBERS));
        assert!(check_text(strings.as_bytes()).is_ok());
        let lists = format!("[{}1]", "[],".repeat(OBJECTS + 1));
        let numbers = format!("[{}1]", "1,".repeat(MEMBERS + 1));
        for text in [lists, numbers] {
            assert!(check_text(text.as_bytes()).is_err());
            assert!(check_text(&text.as_bytes()[..text.len() / 2]).is_ok());
        }
        assert!(check_text(b"\"\\").is_ok() && check_text(b"\"").is_ok() && check_text(b"").is_ok());
    }
}
