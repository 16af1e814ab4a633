//! Words of the matrix of `gpumap top`: what an owner or a process has to do with one GPU,
//! and the order of owners.

words! {
    /// Whether a GPU is in a set.
    pub enum Membership {
        /// It is.
        Yes,
        /// It is not.
        No,
        /// Nobody knows.
        #[default]
        Unknown,
        /// The owner's own environment says so, and nobody else.
        Claimed,
    }
}

words! {
    /// The four sets of one owner and one GPU in one word, the contradictions last.
    pub enum CellState {
        /// It may not open it, and nothing shows that it has it open.
        #[default]
        Nothing,
        /// It may open it.
        Allowed,
        /// It may open it, and asks for it.
        Asked,
        /// It has it open.
        Held,
        /// It was allocated it, and may open it.
        Granted,
        /// It was allocated it, may open it, and asks for it.
        GrantedAsked,
        /// It was allocated it, and has it open.
        GrantedHeld,
        /// Whether it may open it is not known.
        Unknown,
        /// Only its own environment says that it was allocated it; it may not open it.
        Claimed,
        /// It was allocated it, and may not open it.
        Lost,
        /// It may open it, and was not allocated it.
        Beyond,
        /// It has it open, and was not allocated it.
        BeyondHeld,
        /// It has it open, although its rules deny that now.
        HeldDenied,
    }
}

impl CellState {
    /// All of them, in the order of a legend.
    pub const ALL: [Self; 13] = [
        Self::Nothing,
        Self::Allowed,
        Self::Asked,
        Self::Held,
        Self::Granted,
        Self::GrantedAsked,
        Self::GrantedHeld,
        Self::Unknown,
        Self::Claimed,
        Self::Lost,
        Self::Beyond,
        Self::BeyondHeld,
        Self::HeldDenied,
    ];

    /// Whether two of the sets contradict each other.
    #[must_use]
    pub fn is_contradiction(self) -> bool {
        matches!(self, Self::Lost | Self::Beyond | Self::BeyondHeld | Self::HeldDenied)
    }
}

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
