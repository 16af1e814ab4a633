//! What an owner or a process has to do with one GPU: a cell of `gpumap top`.

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
