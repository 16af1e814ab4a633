//! What hooks find in a cluster: the examples in `@WORK@/hooks`, and in
//! `/usr/local/bin`, where they look first, the gpumap under test and a logger
//! that writes into a file. `/var/lib` is `@WORK@/var`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::spec::Spec;
use super::{Cluster, PATIENCE, host};

/// The examples.
pub const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
/// logger(1) as far as the examples use it.
const LOGGER: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do
	[ "$1" != -t ] || tag=$2
	shift 2
done
if [ $# -gt 0 ]; then echo "$*"; else cat; fi | sed "s/^/$tag: /" >>"@WORK@/log/logger"
"#;
/// gpumap with what no hook can say: where the invented GPUs are listed.
const GPUMAP: &str = r#"#!/bin/sh
exec "${0%/*}/gpumap.tested" "$@" --gpu-root "@INVENTORY@"
"#;

impl Spec {
    /// The same node with hooks: lines for `slurm.conf`.
    #[must_use]
    pub fn with_hooks(self, lines: &str) -> Self {
        Self { hooks: Some(lines.to_owned()), ..self }
    }
}

/// Writes all of it, before the node starts.
pub(super) fn write(work: &Path, inventory: &Path) {
    // Where users can read it too.
    let (from, to) = (inventory.join("."), work.join("gpu"));
    assert!(inventory == to || cp(&from, &to), "{}", inventory.display());
    for dir in ["hooks", "local", "var"] {
        fs::create_dir_all(work.join(dir)).expect("a directory");
    }
    for entry in fs::read_dir(Path::new(EXAMPLES).join("slurm")).expect("examples") {
        let path = entry.expect("an entry").path();
        // With its mode: whoever installs it copies it so.
        fs::copy(&path, work.join("hooks").join(path.file_name().expect("a name"))).expect("a copy");
    }
    symlink(env!("CARGO_BIN_EXE_gpumap"), work.join("tested")).expect("a link");
    fs::write(work.join("local/gpumap.tested"), "").expect("a file");
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    script(&work.join("local/logger"), &LOGGER.replace("@WORK@", &text(work)));
    script(&work.join("local/gpumap"), &GPUMAP.replace("@INVENTORY@", &text(&to)));
    // Jobs and hooks of users write too.
    fs::set_permissions(work.join("out"), fs::Permissions::from_mode(0o1777)).expect("a mode");
}

fn cp(from: &Path, to: &Path) -> bool {
    Command::new("cp").arg("-r").args([from, to]).status().expect("cp").success()
}

/// Puts a script in place of whatever is there.
pub fn script(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a script");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::rename(new, path).expect("a name");
}

impl Cluster {
    /// The gpumap that hooks find.
    pub fn hooks_gpumap(&self) -> PathBuf {
        self.work().join("local/gpumap")
    }

    /// What hooks have logged so far.
    pub fn logged(&self) -> String {
        fs::read_to_string(self.work().join("log/logger")).unwrap_or_default()
    }

    /// The node as `scontrol` shows it.
    pub fn node(&self) -> String {
        self.run("scontrol", &["--oneliner", "show", "node", &host()])
    }

    /// Makes sure that the node takes jobs.
    pub fn assert_up(&self) {
        let node = self.node();
        assert!(!is_drained(&node), "{node}\n{}", self.log());
    }

    /// Waits for the node to be drained and returns how `scontrol` shows it.
    pub fn wait_for_drain(&self) -> String {
        let began = Instant::now();
        loop {
            let node = self.node();
            if is_drained(&node) {
                return node;
            }
            assert!(began.elapsed() < PATIENCE, "not drained: {node}\n{}", self.logged());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until something holds.
    pub fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < PATIENCE, "{what}: {}\n{}", self.logged(), self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether `scontrol` shows a drained node.
fn is_drained(node: &str) -> bool {
    let state = node.split_whitespace().find_map(|word| word.strip_prefix("State="));
    state.expect("a state").split('+').any(|part| part.starts_with("DRAIN"))
}
