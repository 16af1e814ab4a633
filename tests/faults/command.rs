//! The commands that are asked, each once for every call that fails.

use super::scene::{self, Scene};

/// How a command answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A document on standard output.
    Document,
    /// A document on standard output, and a saved observation.
    Saved,
    /// Text on standard output, or in a file.
    Text,
    /// The document of `doctor`, which is about failures.
    Doctor,
}

/// A command line.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub kind: Kind,
    pub arguments: Vec<String>,
}

/// Every one-shot command of gpumap.
pub fn all(scene: &Scene) -> Vec<Line> {
    let task = format!("/{}", scene::TASK);
    let (pid, program) = (scene.pids[0].to_string(), scene.program_id(0).to_string());
    let mapped = scene.program_id(6).to_string();
    let container = format!("/{}", Scene::container());
    let saved = scene.room.join("before.json").display().to_string();
    let node = scene.room.join("node.json").display().to_string();
    let output = scene.output().display().to_string();
    let lines: [(&str, Kind, Vec<&str>); 27] = [
        ("node", Kind::Document, vec!["node"]),
        ("node --compact", Kind::Document, vec!["node", "--compact"]),
        ("cgroup", Kind::Document, vec!["cgroup", &task]),
        ("cgroup -r", Kind::Document, vec!["cgroup", "-r", "/"]),
        ("job", Kind::Document, vec!["job", "7"]),
        ("pid", Kind::Document, vec!["pid", &pid]),
        ("prog", Kind::Document, vec!["prog", &program]),
        ("prog (map)", Kind::Document, vec!["prog", &mapped]),
        ("check --job", Kind::Document, vec!["check", "--job", "7", "c 1:7", "nvidia0"]),
        ("check --cgroup", Kind::Document, vec!["check", "--cgroup", &container, "c 195:0 rw"]),
        ("check --pid", Kind::Document, vec!["check", "--pid", &pid, "hl0"]),
        ("check --self", Kind::Document, vec!["check", "--self", "/dev/full"]),
        ("explain", Kind::Document, vec!["explain", "--cgroup", &container, "c 195:0 rw"]),
        ("diff", Kind::Document, vec!["diff", "--job", "7", "--job", "8"]),
        ("diff (moments)", Kind::Document, vec!["diff", &saved, "/system.slice"]),
        ("audit", Kind::Document, vec!["audit"]),
        ("audit --verify", Kind::Document, vec!["audit", "--verify"]),
        ("leftovers", Kind::Document, vec!["leftovers", "--job", "7"]),
        ("vgpu", Kind::Document, vec!["vgpu"]),
        ("repair", Kind::Document, vec!["repair", "--cgroup", &container, "--allow", "c 195:0"]),
        ("repair --list", Kind::Document, vec!["repair", "--list"]),
        ("fleet", Kind::Document, vec!["fleet", &node]),
        ("doctor", Kind::Doctor, vec!["doctor"]),
        ("snapshot", Kind::Saved, vec!["snapshot", "-o", &output]),
        ("report", Kind::Saved, vec!["report", "-o", &output]),
        ("top --once", Kind::Text, vec!["top", "--once"]),
        ("export", Kind::Text, vec!["export"]),
    ];
    lines.into_iter().map(|(name, kind, arguments)| Line::new(name, kind, scene, &arguments)).collect()
}

impl Line {
    /// A command about the scene.
    pub fn new(name: &'static str, kind: Kind, scene: &Scene, arguments: &[&str]) -> Self {
        let mut all = vec!["--cgroup-root".to_owned(), scene.cgroup_root().display().to_string()];
        // What the kernel lets gpumap open is no question about a tree of files.
        if name != "check --self" {
            all.extend(["--gpu-root".to_owned(), scene.gpus().display().to_string()]);
        }
        if kind != Kind::Text {
            all.push("--json".to_owned());
        }
        all.extend(arguments.iter().map(|&one| one.to_owned()));
        Self { name, kind, arguments: all }
    }
}
