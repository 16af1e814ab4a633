//! What a job was granted on one node, beside what it has on others.

open_words! {
    /// A set of GPUs that is compared between the nodes of a job.
    pub enum GrantedSet {
        /// What Slurm's hooks were told.
        Allocated,
        /// What the kernel lets the job open.
        #[default]
        Allowed,
    }
}

open_words! {
    /// How a node's grant compares with what most nodes of the job have.
    pub enum GrantComparison {
        /// The same number of the same models.
        Same,
        /// None, or fewer of the same models.
        Missing,
        /// More of the same models.
        Extra,
        /// Other models.
        Different,
        /// One of the two is not known.
        #[default]
        Unknown,
    }
}
