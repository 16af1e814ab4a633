//! How bad a finding is, how sure it is, and when it makes an audit fail.

words! {
    /// How severe a finding is, the mildest first.
    pub enum Severity {
        /// Worth knowing; isolation holds.
        #[default]
        Note,
        /// Something does not work as somebody expects.
        Warning,
        /// Isolation does not hold.
        Critical,
    }
}

words! {
    /// How certain a finding is.
    pub enum Confidence {
        /// It rests on what the kernel and root's files say.
        #[default]
        Certain,
        /// It rests on an assumption, which the evidence names.
        Likely,
        /// It rests on what the user's own processes say.
        Claimed,
    }
}

words! {
    /// From which severity on a finding makes an audit fail.
    pub enum FailOn {
        /// Isolation does not hold.
        Critical,
        /// Something does not work as somebody expects.
        #[default]
        Warning,
        /// Anything at all.
        Note,
        /// Nothing.
        Never,
    }
}

impl FailOn {
    /// The mildest severity that is a failure; none if none is.
    pub fn limit(self) -> Option<Severity> {
        match self {
            Self::Critical => Some(Severity::Critical),
            Self::Warning => Some(Severity::Warning),
            Self::Note => Some(Severity::Note),
            Self::Never => None,
        }
    }
}
