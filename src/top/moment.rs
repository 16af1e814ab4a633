//! What is known of a node at one moment.

use crate::report::{Event, Finding, Gpu, Matrix};

/// Where a moment comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The node, as it is.
    #[default]
    Live,
    /// A saved observation.
    Saved {
        /// Its place among the saved ones, from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
}

/// The answers that are on the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Where they come from.
    pub origin: Origin,
    /// Why there are no answers, if there are none: a saved file cannot be read.
    pub failure: Option<String>,
    /// The node's name.
    pub host: String,
    /// When the facts were observed, RFC 3339.
    pub taken_at: String,
    /// Owners and GPUs.
    pub matrix: Matrix,
    /// The node's GPUs.
    pub gpus: Vec<Gpu>,
    /// The findings of an audit that count, the most severe first.
    pub findings: Vec<Finding>,
    /// What happened to programs, the newest first.
    pub events: Vec<Event>,
    /// Whether nothing is missing.
    pub complete: bool,
}
