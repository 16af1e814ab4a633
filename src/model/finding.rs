//! How bad a finding is, and how sure.

words! {
    /// How bad a finding is, the mildest first.
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
    /// How sure a finding is.
    pub enum Confidence {
        /// It rests on what the kernel and root's files say.
        #[default]
        Certain,
        /// It rests on an assumption, which stands in the evidence.
        Likely,
        /// It rests on what the user's own processes say.
        Claimed,
    }
}
