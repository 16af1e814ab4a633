//! Whether a GPU is free.

words! {
    /// Whether GPUs are free for the next job.
    pub enum Vacancy {
        /// Nobody holds one.
        Free,
        /// Somebody holds one.
        Held,
        /// Nobody was seen to hold one, but not everything could be seen.
        #[default]
        Unknown,
    }
}
