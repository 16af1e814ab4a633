//! States of the checks of `gpumap doctor`.

words! {
    /// The state of a check of `gpumap doctor`.
    pub enum CheckState {
        /// As gpumap needs it.
        #[default]
        Ok,
        /// Worth knowing, and nothing is lost by it.
        Note,
        /// Something is missing that can be had.
        Missing,
        /// It could not be looked at.
        Unknown,
    }
}
