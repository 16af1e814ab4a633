//! Verdicts: whether the kernel allows a request.

words! {
    /// What the kernel will say.
    pub enum Verdict {
        /// The request succeeds.
        Allow,
        /// The request fails.
        Deny,
        /// gpumap cannot tell; the reason stands beside it.
        #[default]
        Unknown,
    }
}

words! {
    /// What the kernel will say of several requests or devices.
    pub enum Verdicts {
        /// All succeed.
        Allow,
        /// All fail.
        Deny,
        /// gpumap cannot tell; the reason stands beside it.
        #[default]
        Unknown,
        /// Some succeed and some fail.
        Mixed,
    }
}

/// What a device program returned; nothing is known of one that could not be
/// followed.
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
