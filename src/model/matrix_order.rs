//! The order of owners in the matrix of `gpumap top`.

words! {
    /// By what owners are sorted.
    pub enum MatrixOrder {
        /// Jobs by number, then containers, virtual machines, anything else.
        #[default]
        Owner,
        /// By the name of the user.
        User,
        /// The worst finding first.
        Finding,
        /// Those first that hold the most GPUs.
        Held,
        /// Those first that may open the most GPUs.
        Allowed,
        /// Those first that launch the most.
        Launches,
        /// Those first that allocated the most memory.
        Memory,
        /// Those first with the most processes.
        Processes,
    }
}

impl MatrixOrder {
    /// All of them, in the order of a menu.
    pub const ALL: [Self; 8] = [
        Self::Owner,
        Self::User,
        Self::Finding,
        Self::Held,
        Self::Allowed,
        Self::Launches,
        Self::Memory,
        Self::Processes,
    ];
}
