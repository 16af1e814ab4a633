//! What gpumap answers, as types: the JSON documents `gpumap/1`.
//!
//! Analysis fills these in, rendering only prints them; the table and the
//! JSON of a command are two views of the same value. Changes within
//! `gpumap/1` are additive. The JSON schema is generated from these types.

mod activity;
mod audit;
mod cgroup;
mod compact;
mod diff;
mod doctor;
mod document;
mod event;
mod finding;
mod fleet;
mod fleet_page;
mod free;
mod gpu;
pub(crate) mod listed;
mod matrix;
mod node_diff;
mod page;
mod page_file;
mod page_summary;
mod policy;
mod process;
mod program;
mod proof;
mod repair;
mod replacement;
mod sets;
mod vgpu;

pub use activity::{
    ActiveProcess, Activity, CallError, CallNow, CountedLibrary, DurationClass, GpuUse, GpuWork, Intercepted,
    Interception, KernelWays, LostCalls, MemoryUse, OwnerActivity, OwnerWork, QuietHolder, Rates, StreamUse,
    Unattributed, Work,
};
pub use audit::{Audit, AuditConfig, AuditOptions, Checked, Counts, FindingKind, FixedFinding};
pub use cgroup::{Cgroup, Effective, GpuVerdict, InstanceVerdict};
pub use compact::{CompactGpu, CompactNode, CompactOwners};
pub use diff::{Diff, GpuChange};
pub use doctor::DoctorCheck;
pub use document::{Document, Note, Payload, SCHEMA};
pub use event::{DevicesEvent, Event, EventProcess, LostBy, MoveEvent, PolicyEvent, PolicyProgram, Value};
pub use finding::{Decision, Finding, FindingDevice, FindingProcess};
pub use fleet::{
    Drift, DriftValue, Fleet, FleetFinding, FleetJobs, FleetNodes, FleetProblem, FleetTimes, JobDifference,
    JobGrant, NodeSet,
};
pub use fleet_page::{
    FleetNode, FleetNodeFinding, FleetNodeProblem, FleetOwner, FleetOwners, FleetPage, FleetSet, GpuNumbers,
};
pub use free::{Free, Holder};
pub use gpu::{Gpu, GpuNode, MigInstance};
pub use matrix::{Matrix, MatrixActivity, MatrixCell, MatrixLimit, MatrixProcess, MatrixRow, RowKey};
pub use node_diff::{AllocationChange, NodeDiff, OwnerAt, OwnerGpus, PolicyChange, ProgramMove};
pub use page::{
    Evidence, Page, PageCell, PageColumn, PageLevel, PageProcess, PageProgram, PageProof, PageReturn,
    PageRow, PageStack, PageVerdict,
};
pub use page_file::{PageCut, PageFile};
pub use page_summary::{PageProblem, PageReason, PageSet, PageSummary};
pub use policy::{Change, ListedRule, Omitted, Policy, Unknown};
pub use process::{Api, Asked, Claim, Cut, Leftover, Process, RawVariable, Visible};
pub use program::{Line, Place, Program};
pub use proof::{Check, ProgramProof, Proof, Step};
pub use repair::{Denier, Intention, Repair, RepairStep};
pub use replacement::{Applied, RepairJournal, Replacement};
pub use sets::{GpuSet, OwnerSets, USERS_NAMED};
pub use vgpu::{LimitVerdict, MappedRegion, Region, RegionDevice, RegionProcess, Vgpu, VgpuDevice, VgpuFile};
