//! What stands in the foreground of the screen.

use crate::model::MatrixOrder;
use crate::report::{Event, Finding, MatrixRow, Payload};

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
    Proofs(Vec<Payload>),
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
