//! What tells which GPU a process means by a device of its own count.

words! {
    /// What tells which GPU a process uses, the surest first.
    pub enum GpuEvidence {
        /// The driver's answer to the process (`cuDeviceGetUuid`), which the process
        /// asked for itself.
        Driver,
        /// gpumap's own reading of the process's variables inside the set that its
        /// rules allow.
        Resolved,
        /// The process has one GPU open and no other.
        Held,
        /// Nothing: which GPU it is, is not known.
        #[default]
        Unknown,
    }
}
