//! How calls of drivers are counted: the kernel interfaces for it, the tables where there
//! may be no room, and what tells which GPU a process means by a device of its own count.

open_words! {
    /// How calls of functions are seen.
    pub enum ProbeEngine {
        /// By one program at entry and return, in one link for a file. Since Linux 6.13.
        #[default]
        #[serde(rename = "uprobe.session")]
        #[strum(serialize = "uprobe.session")]
        Session,
        /// By a program at entries and one at returns, each in one link for a file. Since
        /// Linux 6.6.
        #[serde(rename = "uprobe.multi")]
        #[strum(serialize = "uprobe.multi")]
        Multi,
        /// By a program at entries and one at returns, with a link for each function
        /// and program. Since Linux 5.8.
        #[serde(rename = "uprobe")]
        #[strum(serialize = "uprobe")]
        Pair,
    }
}

open_words! {
    /// What calls, or the places where libraries are looked for, may find no room in.
    pub enum CountTable {
        /// Processes that called something.
        #[default]
        Processes,
        /// Their threads.
        Threads,
        /// Contexts.
        Contexts,
        /// Streams.
        Streams,
        /// Allocations: they are counted as such, and their bytes are not.
        Blocks,
        /// Events, and the streams in which they were recorded: a wait for one that found
        /// no room, or had to make room for others, is counted for its context.
        Events,
        /// Graphs, and streams that are captured: the kernels of one that found no room, or
        /// had to make room for others, are not known when it is launched.
        Graphs,
        /// Codes of errors.
        Errors,
        /// Devices as the driver names them.
        Devices,
        /// What the kernel told of processes that begin, execute and end.
        Records,
        /// Batches of copies: of some with very many sizes not all were read.
        Batches,
        /// What the kernel told of mappings of libraries.
        Mappings,
        /// Times in libraries before the driver.
        Interceptions,
    }
}

open_words! {
    /// A task for which gpumap chooses the best kernel interface that works.
    pub enum EngineTask {
        /// To list processes.
        #[default]
        Processes,
        /// To read the programs in force of many cgroups.
        ProgramLists,
        /// To notice changed programs.
        CgroupChanges,
        /// To see changes of environments.
        EnvironmentChanges,
        /// To count calls of drivers' libraries.
        CallCounts,
    }
}

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
