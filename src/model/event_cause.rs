//! How the change came about that an event of `gpumap watch` tells.

words! {
    /// What changed a variable, initialised a driver or moved a process.
    pub enum EventCause {
        /// setenv(3).
        #[default]
        Setenv,
        /// putenv(3).
        Putenv,
        /// unsetenv(3), or putenv(3) without a value.
        Unsetenv,
        /// clearenv(3).
        Clearenv,
        /// execve(2): the process executed a program with another environment.
        Exec,
        /// Not known: the environment in memory was read again and differed.
        Memory,
        /// Somebody wrote the process into `cgroup.procs`, or a thread into
        /// `cgroup.threads`.
        #[serde(rename = "cgroup.procs")]
        #[strum(serialize = "cgroup.procs")]
        CgroupProcs,
        /// clone3(2): the process began in another cgroup than its parent's.
        Clone3,
        /// `cuInit` of CUDA.
        #[serde(rename = "cuInit")]
        #[strum(serialize = "cuInit")]
        CuInit,
        /// `hipInit` of HIP.
        #[serde(rename = "hipInit")]
        #[strum(serialize = "hipInit")]
        HipInit,
        /// `hsa_init` of ROCr.
        #[serde(rename = "hsa_init")]
        #[strum(serialize = "hsa_init")]
        HsaInit,
    }
}
