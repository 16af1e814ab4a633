//! Why a document cannot be used.

use serde_json::error::Category;

use super::words::cut;

/// Why a document cannot be used.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is no JSON, or not what its schema says.
    Json(serde_json::Error),
    /// Something else.
    Why(String),
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl Refusal {
    /// With a text of gpumap's own.
    pub(super) fn why(text: impl Into<String>) -> Self {
        Self::Why(text.into())
    }

    /// The reason, for people.
    pub(super) fn text(self) -> String {
        match self {
            Self::Json(error) if error.classify() == Category::Eof => "it is cut off".to_owned(),
            Self::Json(error) => format!("it is broken: {}", cut(&error.to_string())),
            Self::Why(why) => why,
        }
    }
}
