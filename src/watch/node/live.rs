//! The running node.

use std::path::Path;
use std::rc::Rc;
use std::{fs, io};

use jiff::Timestamp;

use super::place::OwnedCgroup;
use super::resolve::{CgroupReach, Resolver};
use super::{NodeReader, place};
use crate::observation::Text;
use crate::observe::Options;
use crate::observe::processes::environment_poll::{self, PolledEnvironment, PolledEnvironments};
use crate::probing::driver::Drivers;
use crate::report::Gpu;
use crate::watch::EventSubject;
use crate::watch::event::{Clock, now_ns};

/// Reads the running node. Answers about cgroups serve for moments.
#[derive(Debug)]
pub(in crate::watch) struct LiveNode {
    resolver: Resolver,
    clock: Clock,
}

impl LiveNode {
    /// Reads where the options say.
    pub(in crate::watch) fn new(options: Options) -> Self {
        Self { resolver: Resolver::new(options), clock: Clock::now() }
    }

    fn proc(&self) -> &Path {
        self.resolver.proc()
    }
}

impl NodeReader for LiveNode {
    fn environments(&mut self, pids: &[u32]) -> PolledEnvironments {
        let own = std::process::id();
        environment_poll::live(self.proc(), pids.iter().copied().filter(|pid| *pid != own))
    }

    fn environment_at_exec(&mut self, pid: u32) -> Option<PolledEnvironment> {
        environment_poll::executed(self.proc(), pid)
    }

    fn mapped_drivers(&mut self, pid: u32) -> Option<Drivers> {
        place::drivers(self.proc(), pid)
    }

    fn has_ended(&mut self, pid: u32) -> bool {
        let directory = fs::symlink_metadata(self.proc().join(pid.to_string()));
        directory.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    fn cgroup_of(&mut self, subject: &EventSubject) -> Option<Rc<OwnedCgroup>> {
        self.resolver.place(subject)
    }

    fn cgroup(&mut self, id: u64) -> Option<Rc<OwnedCgroup>> {
        self.resolver.cgroup(id)
    }

    fn reach(&mut self, subject: &EventSubject, cgroup: &OwnedCgroup) -> Option<Rc<CgroupReach>> {
        self.resolver.reach(subject, cgroup)
    }

    fn reach_without_cgroup(&mut self, subject: &EventSubject) -> Option<CgroupReach> {
        self.resolver.nowhere(subject)
    }

    fn decoding(&mut self) -> Vec<(Text, bool)> {
        self.resolver.decoding()
    }

    fn answers(&mut self) -> Vec<(u64, Rc<CgroupReach>)> {
        self.resolver.answers()
    }

    fn gpus(&self) -> &[Gpu] {
        &self.resolver.gpus
    }

    fn now(&self) -> u64 {
        now_ns()
    }

    fn time(&mut self, at: u64) -> Timestamp {
        self.clock.time(at)
    }
}
