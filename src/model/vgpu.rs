//! Words of libraries that share GPUs by interception (HAMi-core, SoftMig): whether their
//! limits hold and why, and the layouts of their shared regions.

words! {
    /// Whether a limit is in force for a process.
    pub enum InForce {
        /// It holds.
        Yes,
        /// It does not hold.
        No,
        /// It holds with a gap that is named beside it.
        Partly,
        /// This cannot be seen from outside; the reason stands beside it.
        #[default]
        Unknown,
    }
}

words! {
    /// Why a limit is in force, is not, or is not known to be.
    pub enum LimitCode {
        /// The library is loaded and has the process in its region with this limit.
        Held,
        /// No limit is set.
        NoLimit,
        /// The process does not have the library loaded.
        NotLoaded,
        /// The library is loaded, and no call of CUDA or NVML went through it.
        NoRegion,
        /// SoftMig has no file of limits for the job.
        NoJobFile,
        /// SoftMig does not take the file of the job's limits.
        JobFileRefused,
        /// The region has no entry of the process.
        NoEntry,
        /// The entry of the process was moved, and it writes to the old place, or may.
        MovedEntry,
        /// The entry is marked as gone.
        EntryGone,
        /// A limit was meant, and the region has none.
        LimitMissing,
        /// The limit in the region is higher than the one that was meant.
        LimitHigher,
        /// The limit is not below the memory of the GPU.
        AboveTotal,
        /// The memory of the GPU is not known, so that the limit may be above it.
        TotalUnknown,
        /// SoftMig does not refuse memory to root.
        RootExempt,
        /// NVML was initialized before CUDA, and the devices have another order.
        NvmlFirst,
        /// The devices have another order, and it is not known what was first.
        OrderUnknown,
        /// GPU_CORE_UTILIZATION_POLICY switches SM limits off.
        PolicyDisabled,
        /// The build looks at the SM limit of the process's first device alone.
        FirstDeviceAlone,
        /// The region switches SM limits off.
        SwitchedOff,
        /// Some builds do not go by the region's SM switch as it is now, and what this
        /// one goes by is not known.
        SwitchUnknown,
        /// The library has not found the pid of the process on the node.
        NoHostPid,
        /// The library takes another process for this one.
        HostPidOfAnother,
        /// The process has not made a context yet.
        NoContext,
        /// Processes use the region with different libraries.
        MixedLibraries,
        /// Builds of different layouts have written to the region.
        MixedRegion,
        /// The layout of the region is not known.
        LayoutUnknown,
        /// The region could not be read.
        RegionUnread,
        /// The process maps several regions.
        SeveralRegions,
        /// A region has the process, and no file is named like the library.
        LibraryUnnamed,
        /// No build with this layout was ever seen at work.
        Untested,
        /// The library's file is one that others than root can write.
        LibraryOfUser,
        /// The environment is not known, or it changed.
        EnvironmentUnknown,
        /// The process has a user namespace of its own.
        UserNamespace,
        /// Not enough was read of the process.
        #[default]
        Unread,
    }
}

words! {
    /// Where the limits that a process was meant to have were found.
    pub enum MeantBy {
        /// Nowhere: no limit was meant.
        #[default]
        Nobody,
        /// In the environment that it was started with.
        Environment,
        /// In the file that SoftMig's prolog writes for the job.
        JobFile,
        /// In the environment of another process of its container.
        Container,
        /// In `/overrideEnv` below its root, from which some builds of HAMi-core set
        /// variables.
        OverrideFile,
    }
}

words! {
    /// Which build's layout a shared region has.
    pub enum RegionLayout {
        /// HAMi-core, January to April 2024.
        #[serde(rename = "v0a")]
        #[strum(serialize = "v0a")]
        V0a,
        /// HAMi-core, April to August 2024 (HAMi 2.4.0).
        #[serde(rename = "v0b")]
        #[strum(serialize = "v0b")]
        V0b,
        /// HAMi-core, August 2024 to March 2026 (HAMi 2.4.1 to 2.8.0).
        #[serde(rename = "1.1")]
        #[strum(serialize = "1.1")]
        V1_1,
        /// HAMi-core, March and April 2026 (HAMi 2.8.1); the file says 1.1.
        #[serde(rename = "1.1-post")]
        #[strum(serialize = "1.1-post")]
        V1_1Post,
        /// HAMi-core since 27 April 2026 (HAMi 2.8.2 to 2.9.0).
        #[serde(rename = "1.2")]
        #[strum(serialize = "1.2")]
        V1_2,
        /// SoftMig's main branch.
        #[serde(rename = "softmig-1.1")]
        #[strum(serialize = "softmig-1.1")]
        Softmig1_1,
        /// SoftMig's branch 2.06. It was not tested with a file that this branch
        /// wrote.
        #[serde(rename = "softmig-2.0")]
        #[strum(serialize = "softmig-2.0")]
        Softmig2_0,
        /// Builds of different layouts have written to the file.
        Mixed,
        /// None of these, or the bytes contradict what size and version say.
        #[default]
        Unknown,
    }
}

impl RegionLayout {
    /// Whether it is one of 2024, before files had a version.
    #[must_use]
    pub fn has_no_version(self) -> bool {
        matches!(self, Self::V0a | Self::V0b)
    }
}
