//! One chain of scratch cgroups with an oracle in it: programs go in, the
//! kernel's verdicts come out.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use gpumap::model::{Device, RequestSet};
use gpumap::observation::{Map, Program};

use super::bpf;
use super::cgroup::Cgroup;
use super::generate::stacks::{LEVELS, Placement, Stack};
use super::generate::writers::CgroupIds;
use super::inspect;
use super::oracle::Oracle;
use super::probe;
use super::rng::Rng;

/// The cgroups and the process in the lowest of them.
pub struct Bench {
    oracle: Option<Oracle>,
    levels: Vec<Cgroup>,
}

/// What the kernel said about one stack.
#[derive(Clone, Debug)]
pub struct Facts {
    /// In run order.
    pub programs: Vec<Program>,
    pub maps: Vec<Map>,
    pub cgroup_id: u64,
    pub devices: Vec<Device>,
    /// What it allows, for each of `devices`.
    pub allowed: Vec<RequestSet>,
}

/// A stack that could not be set up.
#[derive(Debug)]
pub enum Refused {
    /// The verifier's log.
    Load(String),
    /// Attached, but nothing is in effect.
    Empty,
}

impl Bench {
    pub fn new() -> io::Result<Self> {
        let levels = Cgroup::chain(LEVELS)?;
        let oracle = Oracle::start(&levels[LEVELS - 1])?;
        let bench = Self { oracle: Some(oracle), levels };
        let above = bpf::effective(bench.leaf().dir())?;
        assert!(above.is_empty(), "the cgroup root has device programs {above:?}: no place for tests");
        Ok(bench)
    }

    pub fn leaf(&self) -> &Cgroup {
        &self.levels[LEVELS - 1]
    }

    /// Time the kernel took to answer.
    pub fn asking(&self) -> std::time::Duration {
        self.oracle.as_ref().map(|oracle| oracle.spent).unwrap_or_default()
    }

    pub fn place(&self) -> CgroupIds {
        CgroupIds { cgroup_id: self.leaf().id() }
    }

    /// Loads and attaches a stack, asks the kernel, and takes it all away.
    pub fn run(&mut self, stack: &Stack, rng: &mut Rng) -> Result<Facts, Refused> {
        self.run_after(stack, rng, |_| ())
    }

    /// The same; `before` is called with the cgroup before the first question.
    pub fn run_after(
        &mut self,
        stack: &Stack,
        rng: &mut Rng,
        before: impl FnOnce(&Path),
    ) -> Result<Facts, Refused> {
        let loaded: Vec<bpf::Loaded> = stack
            .0
            .iter()
            .map(|placement| bpf::load(&placement.source).map_err(Refused::Load))
            .collect::<Result<_, _>>()?;
        let mut attached = Attached { links: Vec::new(), plain: Vec::new(), levels: &self.levels };
        for (placement, loaded) in stack.0.iter().zip(&loaded) {
            attached.add(placement, &loaded.program);
        }
        let mut by_id = BTreeMap::new();
        for one in &loaded {
            let program = inspect::program(&one.program).expect("info about our own program");
            by_id.insert(program.id, program);
        }
        let order = bpf::effective(self.leaf().dir()).expect("the effective list");
        if order.is_empty() && !stack.0.is_empty() {
            return Err(Refused::Empty);
        }
        let programs: Vec<Program> = order.iter().map(|id| by_id[id].clone()).collect();
        let ids = programs.iter().flat_map(|program| program.map_ids.iter().copied());
        let maps = inspect::maps(ids).expect("our own maps");
        let devices = probe::devices(&stack.sources(), rng);
        before(self.leaf().path());
        let oracle = self.oracle.as_mut().expect("an oracle until the end");
        let allowed = oracle.ask(&devices).expect("the oracle's answers");
        drop(attached);
        Ok(Facts { programs, maps, cgroup_id: self.leaf().id(), devices, allowed })
    }
}

impl Bench {
    /// Attaches loaded programs to the cgroup asked about, in order, and asks
    /// the kernel about `devices`, one after the other; the facts are from
    /// before the first question.
    pub fn ask(&mut self, programs: &[&bpf::Loaded], devices: &[Device]) -> Facts {
        let mut attached = Attached { links: Vec::new(), plain: Vec::new(), levels: &self.levels };
        for loaded in programs {
            bpf::attach(self.levels[LEVELS - 1].dir(), &loaded.program, bpf::MULTI, None).expect("attach");
            attached.plain.push((LEVELS - 1, loaded.program.try_clone().expect("a spare descriptor")));
        }
        let known: Vec<Program> =
            programs.iter().map(|loaded| inspect::program(&loaded.program).expect("info")).collect();
        let ids: std::collections::BTreeSet<u32> =
            known.iter().flat_map(|program| program.map_ids.iter().copied()).collect();
        let maps = inspect::maps(ids).expect("our own maps");
        let oracle = self.oracle.as_mut().expect("an oracle until the end");
        let allowed = oracle.ask(devices).expect("the oracle's answers");
        drop(attached);
        let cgroup_id = self.levels[LEVELS - 1].id();
        Facts { programs: known, maps, cgroup_id, devices: devices.to_vec(), allowed }
    }
}

/// A loaded program, and how it is attached.
#[derive(Debug)]
pub struct Attachment {
    pub program: OwnedFd,
    /// How many cgroups above the one asked about.
    pub up: usize,
    pub flags: u32,
    /// By a `bpf_link` instead of a plain attachment.
    pub link: bool,
}

impl Bench {
    /// Attaches programs and asks the kernel about `devices`; `before` is called in
    /// between.
    pub fn ask_after(
        &mut self,
        attachments: &[Attachment],
        devices: &[Device],
        before: impl FnOnce(),
    ) -> Vec<RequestSet> {
        let mut attached = Attached { links: Vec::new(), plain: Vec::new(), levels: &self.levels };
        for Attachment { program, up, flags, link } in attachments {
            let level = LEVELS - 1 - up;
            let dir = self.levels[level].dir();
            if *link {
                attached.links.push(bpf::link(dir, program, *flags).expect("link"));
            } else {
                bpf::attach(dir, program, *flags, None).expect("attach");
                attached.plain.push((level, program.try_clone().expect("a spare descriptor")));
            }
        }
        before();
        let oracle = self.oracle.as_mut().expect("an oracle until the end");
        let allowed = oracle.ask(devices).expect("the oracle's answers");
        drop(attached);
        allowed
    }
}

/// The oracle leaves its cgroup first, then the lowest cgroup goes.
impl Drop for Bench {
    fn drop(&mut self) {
        self.oracle.take();
        while self.levels.pop().is_some() {}
    }
}

/// Attachments that end with the value.
struct Attached<'a> {
    links: Vec<OwnedFd>,
    plain: Vec<(usize, OwnedFd)>,
    levels: &'a [Cgroup],
}

impl Attached<'_> {
    /// Attaches unless the kernel refuses the combination of flags.
    fn add(&mut self, placement: &Placement, program: &OwnedFd) {
        let dir = self.levels[placement.level].dir();
        let flags = placement.flags;
        if placement.link {
            // A link is always "multi" and takes no other flag of that kind.
            self.links.extend(bpf::link(dir, program, flags & bpf::PREORDER).ok());
            return;
        }
        let old = if placement.replace { self.last_on(placement.level) } else { None };
        if bpf::attach(dir, program, flags, old.map(|at| &self.plain[at].1)).is_ok() {
            let program = program.try_clone().expect("a spare descriptor");
            self.plain.push((placement.level, program));
        }
    }

    fn last_on(&self, level: usize) -> Option<usize> {
        self.plain.iter().rposition(|(other, _)| *other == level)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        for link in self.links.drain(..) {
            bpf::unlink(&link).expect("our own link");
        }
        while let Some((level, program)) = self.plain.pop() {
            // One that was replaced since is gone already.
            let result = bpf::detach(self.levels[level].dir(), program.as_fd());
            let gone = result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT));
            assert!(result.is_ok() || gone, "detach: {result:?}");
        }
    }
}
