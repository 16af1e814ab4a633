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

/// An error with its causes on one line, without the verifier's log.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
