//! The examples of `examples/fleet`, run: by a real srun on a Slurm of four nodes,
//! and by a real clush, pdsh and Ansible with workers on this machine. Each node has
//! a saved node's answer with 50 jobs, so that lines are longer than srun keeps whole.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::fleet::{named, with_jobs};
use crate::support::host;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A directory with the answers of four nodes and a `gpumap` that gives them. `node`
/// says which node the script runs on.
fn work(name: &str, node: &str) -> PathBuf {
    let work = std::env::temp_dir().join(format!("gpumap-fleet-{name}-{}", std::process::id()));
    fs::create_dir_all(work.join("nodes")).expect("a directory");
    for name in ["n1", "n2", "n3", "n4"] {
        let mut saved = with_jobs(named(name), 50);
        if name == "n3" {
            saved["host"]["kernel"] = "6.1.0".into();
        }
        fs::write(work.join("nodes").join(name), saved.to_string()).expect("a file");
    }
    let gpumap = env!("CARGO_BIN_EXE_gpumap");
    let script =
        format!("#!/bin/sh\n{node}\nexec '{gpumap}' --from '{}/nodes/'\"$node\" \"$@\"\n", work.display());
    fs::write(work.join("gpumap"), script).expect("a script");
    fs::set_permissions(work.join("gpumap"), fs::Permissions::from_mode(0o755)).expect("a mode");
    work
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn example(name: &str) -> String {
    format!("{ROOT}/examples/fleet/{name}")
}

/// Whether the programs are there.
fn has(programs: &[&str]) -> bool {
    match programs.iter().find(|name| !host::is_installed(name)) {
        Some(program) => {
            host::skip(&format!("{program} is not installed"));
            false
        }
        None => true,
    }
}

/// Runs `script` on a Slurm of four nodes.
fn on_slurm(work: &Path, script: &str) -> Output {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let name = name.trim().split('.').next().expect("a part");
    let conf = include_str!("../support/slurm/several.conf");
    let conf = conf.replace("@WORK@", work.to_str().expect("a plain path")).replace("@NODE@", name);
    fs::write(work.join("slurm.conf"), conf).expect("a file");
    let mut command = Command::new("unshare");
    command.args(["-m", "-p", "-n", "-i", "-f", "--kill-child", "--mount-proc", "sh"]);
    command.arg(format!("{ROOT}/tests/support/slurm/several.sh")).arg(work).args(["sh", "-c", script]);
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("GPUMAP", work.join("gpumap")).env("GPUMAP_HERE", env!("CARGO_BIN_EXE_gpumap"));
    command.stdin(Stdio::null()).current_dir("/").output().expect("unshare")
}

/// Make sure that the report by srun has every node with all of its jobs, and that a
/// node that is down is told as missing.
#[test]
fn srun() {
    let Some(_host) = host::shared() else { return };
    if !has(&["slurmctld", "slurmd", "srun", "munged", "busybox", "unshare"]) {
        return;
    }
    let work = work("srun", "node=$SLURMD_NODENAME");
    let script = format!(
        "{0}; echo \"status $?\"; scontrol update nodename=n4 state=down reason=test; \
         GPUMAP_FLEET='--fail-on never' {0}; echo \"status $?\"; \
         GPUMAP_COPY= GPUMAP_ASK='audit --json' {0} 'n[1-3]'; echo \"status $?\"",
        example("srun.sh")
    );
    let output = on_slurm(&work, &script);
    let said = text(&output);
    fs::remove_dir_all(&work).expect("an end");
    assert!(output.status.success(), "{said}");
    let parts: Vec<&str> = said.split("status ").collect();
    assert!(parts[0].contains("n[1-4] (4 nodes) answered; 50 jobs, 50 on several nodes."), "{said}");
    assert!(parts[0].contains("Every expected node answered.") && parts[1].starts_with("1\n"), "{said}");
    assert!(
        parts[0].contains("kernel: 6.18.44 on n[1-2,4] (3 nodes)") && parts[0].contains("6.1.0 on n3"),
        "{said}"
    );
    assert!(
        parts[1].contains("n[1-3] (3 nodes) answered") && parts[1].contains("No answer from n4."),
        "{said}"
    );
    assert!(parts[2].starts_with("3\n"), "{said}");
    assert!(parts[2].contains("n[1-3] (3 nodes) answered") && !parts[2].contains("Not audited"), "{said}");
}

/// Runs an example whose launcher starts its workers on this machine, over `n[1-4]`
/// and with one node more, and checks that the report is that of the four.
fn on_this_machine(name: &str, launcher: (&str, &str)) {
    let work = work(name, "node=$1; shift");
    let run = |nodes: &str, options: &str| {
        let mut command = Command::new(example(&format!("{name}.sh")));
        command.arg(nodes).env(launcher.0, launcher.1).env("GPUMAP_FLEET", options);
        command.env("GPUMAP", format!("{}/gpumap %h", work.display()));
        command
            .env("GPUMAP_HERE", env!("CARGO_BIN_EXE_gpumap"))
            .stdin(Stdio::null())
            .output()
            .expect("a shell")
    };
    let (all, lost) = (run("n[1-4]", "--json"), run("n[1-5]", "--fail-on never"));
    fs::remove_dir_all(&work).expect("an end");
    let document: serde_json::Value = serde_json::from_slice(&all.stdout).expect("JSON");
    // Each job may open the GPUs of the others, which is found.
    assert_eq!(all.status.code(), Some(1), "{}", text(&all));
    let fleet = &document["fleet"];
    assert_eq!(fleet["nodes"]["answered"]["nodes"], "n[1-4]");
    assert_eq!((&fleet["jobs"]["all"], &fleet["jobs"]["several"]), (&50.into(), &50.into()));
    assert_eq!(lost.status.code(), Some(3), "{}", text(&lost));
    assert!(text(&lost).contains("No answer from n5."), "{}", text(&lost));
}

/// Make sure that the report by clush is that of the files.
#[test]
fn clush() {
    if has(&["clush", "nodeset"]) {
        on_this_machine("clush", ("CLUSH", "-R exec"));
    }
}

/// Make sure that the report by pdsh is that of the files.
#[test]
fn pdsh() {
    if has(&["pdsh"]) {
        on_this_machine("pdsh", ("PDSH", "-R exec"));
    }
}

/// Make sure that the playbook keeps a file for each node, shows the report with
/// findings and what differs, and that a host that cannot be reached is told as missing.
#[test]
fn ansible() {
    if !has(&["ansible-playbook"]) {
        return;
    }
    let work = work("ansible", "node=$GPUMAP_NODE");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", work.display());
    // The report is made by this gpumap, whatever node it runs on.
    let script = fs::read_to_string(work.join("gpumap")).expect("a script");
    let here = format!("#!/bin/sh\n[ \"$1\" != fleet ] || exec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_gpumap"));
    fs::write(work.join("gpumap"), script.replacen("#!/bin/sh\n", &here, 1)).expect("a script");
    let inventory = "all:\n  vars: {ansible_python_interpreter: /usr/bin/python3}\n  hosts:\n";
    // What runs on a node is run by the node's own shell, which says which node it is.
    let host = |name: &str| {
        let shell = work.join(format!("sh-{name}"));
        fs::write(&shell, format!("#!/bin/sh\nGPUMAP_NODE={name} exec /bin/sh \"$@\"\n")).expect("a shell");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("a mode");
        format!(
            "    {name}: {{ansible_connection: local, ansible_shell_executable: '{}'}}\n",
            shell.display()
        )
    };
    let lost = "    n5: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}\n";
    let hosts: String = ["n1", "n2", "n3", "n4"].into_iter().map(host).collect();
    fs::write(work.join("inventory.yml"), format!("{inventory}{hosts}{lost}")).expect("a file");
    fs::create_dir(work.join("documents")).expect("a directory");
    let mut command = Command::new("ansible-playbook");
    command.arg("-i").arg(work.join("inventory.yml")).arg(example("ansible.yml"));
    command.args(["-e", &format!("documents={}/documents", work.display())]);
    command.args(["-e", "{\"ansible_become\": false}"]);
    command.env("PATH", path).env("HOME", &work).env("ANSIBLE_LOCALHOST_WARNING", "False");
    let output = command.stdin(Stdio::null()).current_dir(&work).output().expect("Ansible");
    let said = text(&output);
    let kept = fs::read_dir(work.join("documents")).expect("a directory").count();
    fs::remove_dir_all(&work).expect("an end");
    assert!(said.contains("n[1-4] (4 nodes) answered; 50 jobs, 50 on several nodes."), "{said}");
    assert!(said.contains("6.1.0 on n3") && said.contains("No answer from n5."), "{said}");
    assert!(!said.contains("Not audited") && kept == 5, "{kept} files: {said}");
}
