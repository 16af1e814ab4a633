//! Kinds of the events that `gpumap watch` prints.

words! {
    /// What an event of `gpumap watch` tells.
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
        /// A process is in another cgroup than before: `cgroup` and `owner` are
        /// those of now.
        Moved,
        /// A process has devices of GPUs open that it did not have.
        Opened,
        /// A process has devices of GPUs open no longer.
        Closed,
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
