//! Words of `gpumap repair`.

words! {
    /// Whether a cgroup has what it should have.
    pub enum RepairState {
        /// Nothing that should be allowed is denied.
        NothingMissing,
        /// Something that should be allowed is denied.
        Missing,
        /// Not known: nothing says what should be allowed, or not all is known.
        #[default]
        Unknown,
    }
}

words! {
    /// How a program is attached to its cgroup, which decides how the kernel puts
    /// another in its place.
    pub enum ReplaceMode {
        /// One of a list of programs (`BPF_F_ALLOW_MULTI`): the kernel compares the old
        /// one.
        #[default]
        Listed,
        /// The only program of the cgroup: the kernel compares the revision of the list
        /// alone, since Linux 6.17.
        Sole,
        /// A link holds it: the kernel compares the old one.
        Link,
    }
}

words! {
    /// What became of a program that `gpumap repair --apply` put into the place of
    /// another.
    pub enum JournalState {
        /// It is in force, and its cgroup has the programs that it had then.
        InForce,
        /// It is in force, and others were added, taken away or replaced since.
        Overtaken,
        /// It is not in force: the old one is back, or its owner made a new one, or it
        /// never was.
        NotInForce,
        /// The cgroup is gone.
        Gone,
        /// Not known.
        #[default]
        Unknown,
    }
}

open_words! {
    /// What says which devices should be allowed.
    pub enum IntentionSource {
        /// The caller (`--allow`).
        #[default]
        Asked,
        /// The policy in force now, which the next reload would narrow
        /// (`--prevent`).
        InForce,
        /// A file of the container's runtime: a lower bound of what was granted.
        RuntimeState,
        /// A saved observation of the same cgroup (`--like`).
        SavedObservation,
        /// What Slurm allocated to the job, by Slurm's own program or as the caller
        /// repeats it (`--allocated`), and `gres.conf`.
        SlurmAllocation,
        /// The programs of the runtime, which are still in force beside systemd's.
        SurvivingProgram,
        /// The files of a service of systemd's.
        UnitFiles,
    }
}
