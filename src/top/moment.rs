//! What the screen shows: the answers of one moment, and what stands in the foreground.

use crate::model::{MatrixOrder, Time};
use crate::report::{Event, Finding, Gpu, Matrix, MatrixRow, Proof};

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
    pub taken_at: Time,
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

/// What stands in the foreground.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum View {
    /// The matrix; keys move in it.
    #[default]
    Matrix,
    /// The matrix; keys move in the strip below it, at this entry.
    Strip(usize),
    /// The list of keys and glyphs, from this line on.
    Help(usize),
    /// A text about something, from a line on.
    Detail(Box<Detail>, usize),
    /// A filter is typed; what it was before.
    Filter(String),
    /// An order is chosen.
    Order(MatrixOrder),
}

/// A text about something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    /// The row, as it was when the user asked, and the column that it is about.
    pub cell: Option<(MatrixRow, usize)>,
    /// What is said.
    pub content: Content,
}

/// What is said about something.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Answers of `explain`, one after the other.
    Proofs(Vec<Proof>),
    /// A finding.
    Finding(Box<Finding>),
    /// What happened to programs.
    Event(Box<Event>),
    /// Why nothing else can be said.
    Message(String),
}

impl Default for Content {
    fn default() -> Self {
        Self::Message(String::new())
    }
}
