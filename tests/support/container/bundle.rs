//! What a runtime gets: a root file system and `config.json`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The name of the container's cgroup below the scratch cgroup, unless asked
/// for otherwise.
const BOX: &str = "box";

/// What runs in a container, and where.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// OCI `linux.resources.devices`.
    pub rules: Value,
    /// Its cgroup, from the root that the runtime sees.
    pub cgroup: String,
    /// The command line.
    pub args: Vec<String>,
    /// The environment, beside `PATH`.
    pub env: Vec<String>,
    /// Programs to copy into `/bin`.
    pub programs: Vec<PathBuf>,
    /// Device nodes: path, major, minor.
    pub devices: Vec<(String, u32, u32)>,
    /// Files of the host that are mounted into `/bin`, as container toolkits do
    /// it with drivers' libraries.
    pub mounted: Vec<PathBuf>,
    /// The same, which the container may write.
    pub shared: Vec<PathBuf>,
}

impl Bundle {
    /// A process that sleeps under these rules.
    pub fn sleeping(rules: &Value) -> Self {
        Self {
            rules: rules.clone(),
            cgroup: format!("/{BOX}"),
            args: vec!["/bin/sleep".into(), "600".into()],
            env: Vec::new(),
            programs: Vec::new(),
            devices: Vec::new(),
            mounted: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// Writes it as a runtime reads it.
    pub fn write(&self, to: &Path) {
        for dir in ["bin", "proc", "dev", "sys", "out"] {
            fs::create_dir_all(to.join("rootfs").join(dir)).expect("a directory");
        }
        fs::copy("/bin/busybox", to.join("rootfs/bin/busybox")).expect("busybox");
        symlink("busybox", to.join("rootfs/bin/sleep")).expect("a link");
        for program in &self.programs {
            let name = program.file_name().expect("a name");
            fs::copy(program, to.join("rootfs/bin").join(name)).expect("a copy");
        }
        for file in self.mounted.iter().chain(&self.shared) {
            let name = file.file_name().expect("a name");
            fs::write(to.join("rootfs/bin").join(name), "").expect("a mount point");
        }
        fs::write(to.join("config.json"), self.configuration().to_string()).expect("a configuration");
    }

    pub(super) fn configuration(&self) -> Value {
        let env: Vec<&str> = ["PATH=/bin"].into_iter().chain(self.env.iter().map(String::as_str)).collect();
        let device = |(path, major, minor): &(String, u32, u32)| json!({ "path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0 });
        let mount = |file: &PathBuf, how: &str| {
            let name = file.file_name().expect("a name").to_string_lossy();
            json!({ "destination": format!("/bin/{name}"), "type": "bind", "source": file, "options": ["bind", how] })
        };
        let own = [
            json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs" }),
            json!({ "destination": "/out", "type": "tmpfs", "source": "tmpfs" }),
        ];
        let files = self.mounted.iter().map(|file| mount(file, "ro"));
        let files = files.chain(self.shared.iter().map(|file| mount(file, "rw")));
        let mounts: Vec<Value> = own.into_iter().chain(files).collect();
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": 0, "gid": 0 }, "cwd": "/", "env": env,
                "args": self.args, "noNewPrivileges": true,
            },
            "root": { "path": "rootfs", "readonly": true },
            "mounts": mounts,
            "linux": {
                "cgroupsPath": self.cgroup,
                "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
                "namespaces": [{ "type": "pid" }, { "type": "mount" }, { "type": "ipc" }, { "type": "uts" }],
                "resources": { "devices": self.rules },
            },
        })
    }
}
