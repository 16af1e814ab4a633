//! Events of `gpumap watch`: their kinds, and the causes of changes.

words! {
    /// The kind of an event of `gpumap watch`.
    pub enum EventKind {
        /// The watch begins: what serves it, and what it cannot see.
        #[default]
        Start,
        /// From here on the watch tells everything that it can see.
        Ready,
        /// A process asks for other devices.
        Visible,
        /// A process started or executed another program.
        Process,
        /// A process ended.
        Exit,
        /// A process initialised CUDA or ROCm: later changes of its variables
        /// have no effect.
        Driver,
        /// The programs in force on a cgroup changed.
        Policy,
        /// A job, container, pod or virtual machine began: its cgroup is there.
        Began,
        /// A job, container, pod or virtual machine ended: its cgroup is gone.
        Ended,
        /// The programs of a cgroup take long to decode: what they allow is not known yet,
        /// or is known now, as `why` says.
        Decoding,
        /// A process was moved to another cgroup: `cgroup` and `owner` are the new
        /// ones.
        Moved,
        /// A process has devices of GPUs open that it did not have.
        Opened,
        /// A process has devices of GPUs open no longer.
        Closed,
        /// The kernel refused a process a device, because of a device program or of the
        /// devices controller of cgroup v1.
        Denied,
        /// Changes of a process cannot be seen as they happen.
        Uncovered,
        /// Events were lost.
        Lost,
        /// Something of the node cannot be watched.
        Problem,
        /// The watch ends.
        End,
    }
}

words! {
    /// The cause that changed a variable, initialised a driver or moved a process.
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
        /// The cause is not known: the environment in memory was read again and
        /// differed.
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
