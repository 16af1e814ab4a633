//! What an environment says about devices: the state of a variable, and how certain
//! its meaning is.

words! {
    /// How certain it is which devices a variable means, the most certain first.
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

open_words! {
    /// An interface to GPUs that reads its own variables.
    pub enum ApiName {
        /// NVIDIA's.
        #[default]
        Cuda,
        /// AMD's, on top of `rocr`.
        Hip,
        /// Intel's.
        LevelZero,
        /// AMD's OpenCL, on top of `rocr`.
        Opencl,
        /// AMD's runtime, below `hip` and `opencl`.
        Rocr,
    }
}

open_words! {
    /// Why a list of devices ends before its end.
    pub enum CutCode {
        /// The entry fits several GPUs.
        Ambiguous,
        /// It names a device that is already in the list.
        Duplicate,
        /// It is empty.
        EmptyEntry,
        /// It names a GPU that the driver excludes.
        Excluded,
        /// It is nothing that this interface understands.
        #[default]
        Invalid,
        /// It is an ordinal among UUIDs or the reverse.
        MixedKinds,
        /// It names a GPU that this node does not have.
        NoSuchGpu,
        /// It names a GPU that the cgroup denies.
        NotAllowed,
        /// It is a second MIG instance: CUDA uses one.
        OneInstance,
        /// It is an ordinal that is too large.
        OutOfRange,
    }
}
