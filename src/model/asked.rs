//! What an environment says of devices: the state of a variable, and how sure
//! its meaning is.

words! {
    /// How sure it is which devices a variable means, the surest first.
    pub enum Certainty {
        /// A document of the vendor settles it, or the source of an open runtime.
        Documented,
        /// No document does; the independent models of the driver agree.
        Modelled,
        /// Neither.
        #[default]
        Unknown,
    }
}

words! {
    /// Whether a variable is set, and to what.
    pub enum ValueState {
        /// It is not set: all devices.
        Unset,
        /// It is set to nothing: no device, the opposite of unset.
        Empty,
        /// It has a value.
        Value,
        /// The environment could not be read.
        #[default]
        Unknown,
    }
}
