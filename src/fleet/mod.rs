//! One report over many nodes, from documents that gpumap wrote there: observations,
//! answers of `node` and `audit`.
//!
//! [`Stream`] splits the bytes of an input into documents, a [`Gatherer`] keeps of
//! each what a report needs and lets the rest go, and [`report`] compares the nodes.
//! No text of a node is trusted: every length has a bound, a name of a node is a name
//! or the document is refused, and what is broken is reported without harm to the rest.

mod alike;
mod answer;
mod audited;
mod baseline;
mod claimed_twice;
mod claims;
mod compact;
mod compact_form;
mod document;
mod drift;
mod findings;
mod full;
mod gather;
mod grant;
mod hostlist;
mod inventory;
mod jobs;
mod kept;
mod limits;
mod line;
mod line_buffer;
mod mask;
mod node_name;
mod owner;
mod owners;
mod pieces;
mod problems;
mod scan;
mod sections;
mod shapes;
mod state;
mod stream;
mod summary;
mod tables;
mod text;
mod times;
mod words;

pub use baseline::{BadBaseline, Baseline};
pub use compact::{compact, first_problems};
pub use gather::{Gatherer, Intake};
pub use pieces::{InputPosition, LONGEST_DOCUMENT, Other, Sink};
pub use stream::Stream;
pub use summary::{FleetQuestion, page, report};

#[cfg(test)]
mod drift_tests;
#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;
