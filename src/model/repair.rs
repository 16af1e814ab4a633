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

open_words! {
    /// What says which devices should be allowed.
    pub enum IntentionSource {
        /// The caller (`--allow`).
        #[default]
        Asked,
        /// The policy in force now, which the next reload would narrow
        /// (`--prevent`).
        InForce,
        /// A saved observation of the same cgroup (`--like`).
        SavedObservation,
        /// The programs of the runtime, which are still in force beside systemd's.
        SurvivingProgram,
    }
}
