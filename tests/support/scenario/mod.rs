//! Scenes: observations shaped from documented facts, written by code so that
//! what they hold can be read and written anew.

#![allow(unreachable_pub, reason = "shared with the test crate")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is test code: a surprise ends the test")]

mod leftovers;
pub mod programs;
mod rows;
mod slurm;

use std::path::Path;

use gpumap::model::DeviceType;
use gpumap::observation::{
    Answer, Attached, Cgroup, CgroupMode, ConfigFile, Detail, Environment, HeldDevice, HexBytes, Host,
    Observation, Process, Program, SCHEMA, Scope, Text, Variable,
};
use gpumap::observe::gpu::collect;

/// When the scenes are observed, and the programs of the scenes were loaded.
const NOW: &str = "2026-11-21T08:00:00Z";
const LOADED: &str = "2026-11-21T07:00:00Z";
/// What all GPUs of a node share.
pub const CTL: (u32, u32) = (195, 255);

/// A scene under construction.
pub struct Scene {
    pub name: &'static str,
    /// Where the facts come from; a key of the file that gpumap does not read.
    pub note: &'static str,
    pub observation: Observation,
}

/// Every scene, by file name.
pub fn all() -> Vec<Scene> {
    let mut scenes = rows::all();
    scenes.extend(leftovers::all());
    scenes
}

/// A process with details.
#[derive(Default)]
pub struct Proc<'a> {
    pub pid: u32,
    pub uid: u32,
    pub comm: &'a str,
    pub title: &'a str,
    /// At exec.
    pub env: Vec<(&'a str, &'a str)>,
    /// In memory, if that is something else.
    pub live: Option<Answer<Vec<(&'a str, &'a str)>>>,
    /// Open character devices.
    pub open: Vec<(u32, u32)>,
    /// Nobody may look into it.
    pub sealed: bool,
    /// It started before everything else.
    pub old: bool,
}

impl Scene {
    /// A node with the GPUs of a tree in `fixtures/gpu`.
    pub fn new(name: &'static str, tree: &str, note: &'static str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu").join(tree);
        let mut errors = Vec::new();
        let gpu_facts = collect(&root, &mut errors);
        let host = Host {
            name: "gpu01".to_owned(),
            kernel: "6.1.0".to_owned(),
            boot_id: "5a1f0c1e-70b1-4e5d-9c3a-0123456789ab".to_owned(),
            cgroup_root: "/sys/fs/cgroup".to_owned(),
            cgroup_mode: CgroupMode::Unified,
            boot_time: Some("2026-11-21T06:00:00Z".into()),
            slurm_cluster: None,
            ticks_per_second: Some(100),
            has_retval: None,
        };
        let mut scene = Self {
            name,
            note,
            observation: Observation {
                schema: SCHEMA.to_owned(),
                version: "0.1.0".to_owned(),
                taken_at: NOW.into(),
                host,
                scope: vec![Scope { path: "/".into(), recursive: true }],
                gpu_facts,
                errors,
                ..Observation::default()
            },
        };
        scene.dir("/");
        scene
    }

    /// The node's `gres.conf`.
    pub fn gres_conf(&mut self, text: &str) {
        let path = "/etc/slurm/gres.conf".to_owned();
        self.observation.slurm.gres_conf =
            Some(ConfigFile { path, text: text.into(), ..ConfigFile::default() });
    }

    /// The environment of the Prolog or Epilog that gpumap ran in.
    pub fn hook(&mut self, variables: &[(&str, &str)]) {
        self.observation.slurm.hook = Some(environment(variables));
    }

    /// A cgroup, with those above it; programs come from above.
    pub fn dir(&mut self, path: &str) {
        if self.find(path).is_some() {
            return;
        }
        let above = match path.rsplit_once('/') {
            Some(("", "")) | None => None,
            Some(("", _)) => Some("/"),
            Some((above, _)) => Some(above),
        };
        if let Some(above) = above {
            self.dir(above);
        }
        let effective = above.and_then(|above| Some(self.find(above)?.effective.clone())).unwrap_or_default();
        let id = 1000 + self.observation.cgroups.len() as u64;
        let own = Answer::Known(Attached::default());
        self.observation.cgroups.push(Cgroup {
            path: path.into(),
            id,
            effective,
            own,
            pids: Vec::new(),
            uid: None,
            unseen: None,
        });
    }

    /// A cgroup with a program of its own, which alone is in force from here on
    /// (no flags, or `BPF_F_ALLOW_OVERRIDE`). To be called before anything is
    /// below it.
    pub fn attach(&mut self, path: &str, name: &str, xlated: Vec<u8>, flags: u32) {
        self.dir(path);
        let id = 40 + self.observation.programs.len() as u32;
        let sum = xlated.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.observation.programs.push(Program {
            id,
            name: name.into(),
            tag: format!("{sum:016x}"),
            gpl_compatible: true,
            loaded_at: LOADED.into(),
            xlated: Answer::Known(HexBytes(xlated)),
            ..Program::default()
        });
        let cgroup = self.find(path).unwrap();
        cgroup.effective = Answer::Known(vec![id]);
        cgroup.own = Answer::Known(Attached { programs: vec![id], flags, ..Attached::default() });
    }

    /// A process in a cgroup.
    pub fn process(&mut self, path: &str, proc: Proc<'_>) {
        self.dir(path);
        self.find(path).unwrap().pids.push(proc.pid);
        let start_time = if proc.old { 500 } else { 360_000 + u64::from(proc.pid) };
        self.observation.processes.push(Process {
            pid: proc.pid,
            start_time,
            uid: proc.uid,
            state: Some('S'),
            threads: Some(1),
            comm: proc.comm.into(),
            cgroup: path.into(),
            devices_v1: None,
            kernel_thread: false,
            detail: Some(detail(&proc)),
        });
    }

    fn find(&mut self, path: &str) -> Option<&mut Cgroup> {
        self.observation.cgroups.iter_mut().find(|cgroup| cgroup.path.as_bytes() == path.as_bytes())
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut value = serde_json::to_value(&self.observation).unwrap();
        value["note"] = self.note.into();
        format!("{}\n", serde_json::to_string_pretty(&value).unwrap())
    }
}

fn detail(proc: &Proc<'_>) -> Detail {
    const REFUSED: &str = "permission denied (needs CAP_SYS_PTRACE)";
    if proc.sealed {
        let refused = || REFUSED.to_owned();
        return Detail {
            title: Text::default(),
            exe: Answer::Missing(refused()),
            stepd_sockets: Vec::new(),
            at_exec: Answer::Missing(refused()),
            live: Answer::Missing(refused()),
            devices: Answer::Missing(refused()),
            devices_cut: None,
            vgpu: None,
        };
    }
    let at_exec = environment(&proc.env);
    let live = match &proc.live {
        None => Answer::Known(at_exec.clone()),
        Some(Answer::Known(variables)) => Answer::Known(environment(variables)),
        Some(Answer::Missing(why)) => Answer::Missing(why.clone()),
    };
    let held = |(major, minor): &(u32, u32)| {
        let (kind, major, minor) = (DeviceType::Char, *major, *minor);
        HeldDevice { kind, major, minor, fds: 1, mapped: false }
    };
    Detail {
        title: proc.title.into(),
        exe: Answer::Known(format!("/usr/bin/{}", proc.comm).into()),
        stepd_sockets: Vec::new(),
        at_exec: Answer::Known(at_exec),
        live,
        devices: Answer::Known(proc.open.iter().map(held).collect()),
        devices_cut: None,
        vgpu: None,
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let one = |(name, value): &(&str, &str)| Variable {
        name: (*name).to_owned(),
        value: (*value).into(),
        cut: false,
    };
    Environment { variables: variables.iter().map(one).collect(), cut: None }
}
