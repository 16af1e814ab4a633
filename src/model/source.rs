//! Where a statement about a job comes from, and whether its user can fake it.

open_words! {
    /// The source of an allocation.
    pub enum AllocationSource {
        /// The environment of the job's processes, which the user can fake.
        #[default]
        Claimed,
        /// The caller of gpumap (`--allocated`).
        Given,
        /// The environment of Prolog or Epilog.
        Hook,
    }
}

impl AllocationSource {
    /// Whether no user can fake it.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Given | Self::Hook)
    }
}

open_words! {
    /// The source of a job's number.
    pub enum JobIdSource {
        /// The environment of its processes, which the user can fake.
        #[default]
        Environment,
        /// The path of its cgroup.
        Path,
        /// The socket that its slurmstepd listens on.
        StepdSocket,
        /// The title of its slurmstepd.
        StepdTitle,
    }
}

open_words! {
    /// The evidence that a process belongs to a job.
    pub enum JobEvidence {
        /// Its cgroup.
        #[default]
        Cgroup,
        /// Its environment names the job, and it left the job's cgroup.
        Environment,
        /// Nothing: it is in no job's cgroup, and its environment is not known.
        Unknown,
    }
}
