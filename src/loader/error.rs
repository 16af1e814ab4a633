//! Why an object cannot be used.

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0})")]
    NoTypes(String),
    /// The kernel refuses a program, a map or a link.
    #[error("{0}")]
    Refused(String),
    /// The object lacks a program or a map: a fault of the build.
    #[error("the program object has no {0}")]
    Missing(&'static str),
    /// This build does not have the wanted engine.
    #[error("this gpumap was built without the engine that GPUMAP_TEST_LOADER names")]
    NoEngine,
}

impl LoadError {
    pub(super) fn refused(error: &dyn std::error::Error) -> Self {
        Self::Refused(one_line(error))
    }
}

/// An error with its causes on one line, without the verifier's log. Some errors
/// repeat their cause in their own text; each cause is said once.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let named = error.to_string();
        if !text.ends_with(&named) {
            text = format!("{text}: {named}");
        }
        cause = error.source();
    }
    // aya begins with the kind of object, which the rest names again.
    let kinds = ["map error: ", "program error: "];
    let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(&text);
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create map `ring`")]
    struct Create(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("map error: {0}")]
    struct Load(#[source] Create);

    /// Make sure that an error that repeats its cause becomes one clear sentence.
    #[test]
    fn each_cause_once() {
        let error = Load(Create(io::Error::from_raw_os_error(1)));
        let expected = "failed to create map `ring`: Operation not permitted (os error 1)";
        assert_eq!(one_line(&error), expected);
    }
}
