//! The tasks for which gpumap chooses among kernel interfaces.

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
