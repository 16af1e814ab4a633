//! Verdicts: whether the kernel allows a request.

words! {
    /// The answer of the kernel to one request.
    pub enum Verdict {
        /// The request succeeds.
        Allow,
        /// The request fails.
        Deny,
        /// gpumap cannot know; a reason comes with it.
        #[default]
        Unknown,
    }
}

words! {
    /// The answers of the kernel to several requests or devices.
    pub enum Verdicts {
        /// All succeed.
        Allow,
        /// All fail.
        Deny,
        /// gpumap cannot know; a reason comes with it.
        #[default]
        Unknown,
        /// Some succeed and some fail.
        Mixed,
    }
}

/// The verdict of a device program that returned this; `None` is a program that
/// could not be followed.
impl From<Option<bool>> for Verdict {
    fn from(returned: Option<bool>) -> Self {
        match returned {
            Some(true) => Self::Allow,
            Some(false) => Self::Deny,
            None => Self::Unknown,
        }
    }
}

impl From<Verdict> for Verdicts {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Deny => Self::Deny,
            Verdict::Unknown => Self::Unknown,
        }
    }
}
