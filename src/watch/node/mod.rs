//! What the tracker asks of the node: environments, mapped libraries, cgroups and
//! what may be opened in them.
//!
//! [`LiveNode`] makes the system calls. The tracker itself makes none, so a test
//! gives it a node of its own making.

mod live;
mod place;
mod resolve;
mod slow;

use std::fmt;
use std::rc::Rc;

use jiff::Timestamp;

use super::EventSubject;
use crate::observation::Text;
use crate::observe::processes::environment_poll::{PolledEnvironment, PolledEnvironments};
use crate::probing::driver::Drivers;
use crate::report::Gpu;

pub(super) use live::LiveNode;
pub(super) use place::{OwnedCgroup, Places};
pub(super) use resolve::CgroupReach;

/// Answers the tracker's questions about the node at this moment.
pub(super) trait NodeReader {
    /// The current environments of these processes; those of gpumap itself and of
    /// processes that ended are left out.
    fn environments(&mut self, pids: &[u32]) -> PolledEnvironments;

    /// The environment of a process's last execve; `None` if it ended.
    fn environment_at_exec(&mut self, pid: u32) -> Option<PolledEnvironment>;

    /// The drivers whose libraries a process maps; `None` if it ended.
    fn mapped_drivers(&mut self, pid: u32) -> Option<Drivers>;

    /// Whether there is no process of this number.
    fn has_ended(&mut self, pid: u32) -> bool;

    /// The cgroup that a process was in at an event, if it is known.
    fn cgroup_of(&mut self, subject: &EventSubject) -> Option<Rc<OwnedCgroup>>;

    /// The cgroup of this id, if it is there or was seen. No process is asked.
    fn cgroup(&mut self, id: u64) -> Option<Rc<OwnedCgroup>>;

    /// What a process may open in a cgroup; `None` if the cgroup is gone.
    fn reach(&mut self, subject: &EventSubject, cgroup: &OwnedCgroup) -> Option<Rc<CgroupReach>>;

    /// What is known of a process whose cgroup is gone.
    fn reach_without_cgroup(&mut self, subject: &EventSubject) -> Option<CgroupReach>;

    /// Cgroups whose programs take long to decode: what they allow is not known yet, or is
    /// known now (true).
    fn decoding(&mut self) -> Vec<(Text, bool)> {
        Vec::new()
    }

    /// What was left open in a [`CgroupReach`] because decoding takes long, by the number of
    /// the question, once that is known.
    fn answers(&mut self) -> Vec<(u64, Rc<CgroupReach>)> {
        Vec::new()
    }

    /// The node's GPUs as of the last answer.
    fn gpus(&self) -> &[Gpu];

    /// Nanoseconds since boot (`CLOCK_BOOTTIME`).
    fn now(&self) -> u64;

    /// The time of day of a moment in nanoseconds since boot.
    fn time(&mut self, at: u64) -> Timestamp;
}

/// Its name alone: what lies behind it would bring the text of all its facts into the program.
impl fmt::Debug for dyn NodeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeReader")
    }
}
