//! What gpumap answers, as types: the JSON documents `gpumap/1`.
//!
//! Analysis fills these in, rendering only prints them; the table and the
//! JSON of a command are two views of the same value. Changes within
//! `gpumap/1` are additive. The JSON schema is generated from these types.

mod activity;
mod answers;
mod audit;
mod cgroup;
mod compact;
mod diff;
mod document;
mod event;
mod fleet;
mod free;
mod gpu;
pub(crate) mod listed;
mod matrix;
mod page;
mod page_file;
mod process;
mod program;
mod repair;
mod sets;
mod vgpu;

pub use activity::{
    ActiveProcess, Activity, CallError, CallNow, CountedLibrary, DurationClass, GpuUse, GpuWork, Intercepted,
    Interception, KernelWays, LostCalls, MemoryUse, OwnerActivity, OwnerWork, QuietHolder, Rates, StreamUse,
    Unattributed, Work,
};
pub use answers::{
    ActivityAnswer, AuditAnswer, CompactAnswer, DiffAnswer, DoctorAnswer, ExplainAnswer, FleetAnswer,
    FreeAnswer, JobsAnswer, JournalsAnswer, KindsAnswer, LeftoversAnswer, MatrixAnswer, NodeAnswer, Nothing,
    PageAnswer, ProgramsAnswer, RegionAnswer, RepairAnswer, RepairsAnswer, VgpuAnswer,
};
pub use audit::{
    Audit, AuditConfig, AuditOptions, Checked, Counts, Decision, Finding, FindingDevice, FindingKind,
    FindingProcess, FixedFinding,
};
pub use cgroup::{
    Cgroup, Change, Effective, GpuVerdict, InstanceVerdict, ListedRule, Omitted, Policy, Unknown,
};
pub use compact::{CompactGpu, CompactNode, CompactOwners};
pub use diff::{AllocationChange, Diff, GpuChange, NodeDiff, OwnerAt, OwnerGpus, PolicyChange, ProgramMove};
pub use document::{DoctorCheck, Document, Note, SCHEMA};
pub use event::{
    DeniedEvent, DenyingProgram, DevicesEvent, Event, EventProcess, GpuIndexes, LostBy, MoveEvent,
    PolicyEvent, PolicyProgram, Value,
};
pub use fleet::{
    ClaimedTwice, Drift, DriftValue, Fleet, FleetFinding, FleetJobs, FleetNode, FleetNodeFinding,
    FleetNodeProblem, FleetNodes, FleetOwner, FleetOwners, FleetPage, FleetProblem, FleetSet, FleetTimes,
    GpuNumbers, JobDifference, JobGrant, NodeSet,
};
pub use free::{Free, Holder};
pub use gpu::{Gpu, GpuNode, MigInstance};
pub use matrix::{Matrix, MatrixActivity, MatrixCell, MatrixLimit, MatrixProcess, MatrixRow, RowKey};
pub use page::{
    Evidence, Page, PageCell, PageColumn, PageLevel, PageProblem, PageProcess, PageProgram, PageProof,
    PageReason, PageReturn, PageRow, PageSet, PageStack, PageSummary, PageVerdict,
};
pub use page_file::{PageCut, PageFile};
pub use process::{Api, Asked, Claim, Cut, Leftover, Process, RawVariable, Visible};
pub use program::{Check, Line, Place, Program, ProgramProof, Proof, Step};
pub use repair::{Applied, Denier, Intention, Repair, RepairJournal, RepairStep, Replacement};
pub use sets::{GpuSet, OwnerSets, USERS_NAMED};
pub use vgpu::{LimitVerdict, MappedRegion, Region, RegionDevice, RegionProcess, Vgpu, VgpuDevice, VgpuFile};
