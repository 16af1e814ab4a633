//! One report over many nodes, from documents that gpumap wrote there: observations,
//! answers of `node` and `audit`.
//!
//! [`Stream`] splits the bytes of an input into documents, a [`Gatherer`] keeps of
//! each what a report needs and lets the rest go, and [`report`] compares the nodes.
//! No text of a node is trusted: every length has a bound, a name of a node is a name
//! or the document is refused, and what is broken is reported without harm to the rest.

mod alike;
mod answer;
mod claimed_twice;
mod claims;
mod compact;
mod compact_form;
mod document;
mod drift;
#[cfg(test)]
mod drift_tests;
mod findings;
mod full;
mod gather;
mod hostlist;
mod inventory;
mod jobs;
mod kept;
mod limits;
mod line;
mod owners;
#[cfg(test)]
mod page_tests;
mod pieces;
mod problems;
mod sections;
mod shapes;
mod state;
mod stream;
mod summary;
#[cfg(test)]
mod tests;
mod text;

pub use compact::{compact, first_problems};
pub use findings::{BadBaseline, Baseline};
pub use gather::{Gatherer, Intake};
pub use pieces::{InputPosition, LONGEST_DOCUMENT, Other, Sink};
pub use stream::Stream;
pub use summary::{FleetQuestion, page, report};
