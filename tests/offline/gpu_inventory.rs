//! Tests the GPU inventory of whole file trees: fixtures with expected answers,
//! hostile text, and real device nodes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpumap::gpu::{describe, inventory, shared_nodes};
use gpumap::model::{DeviceType, ProblemCode};
use gpumap::observation::{DeviceNode, GpuFacts};
use gpumap::observe::gpu::collect;
use proptest::prelude::*;

use crate::support::skips::skip;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gpu")
}

fn facts(name: &str) -> GpuFacts {
    let mut errors = Vec::new();
    let facts = collect(&fixtures().join(name), &mut errors);
    assert_eq!(errors, [], "{name}");
    facts
}

/// The inventory of a fixture, as the committed JSON.
fn check(name: &str) {
    let facts = facts(name);
    let answer = serde_json::json!({ "gpus": inventory(&facts), "shared": shared_nodes(&facts) });
    let expected = snapbox::Data::read_from(&fixtures().join(format!("{name}.expected.json")), None);
    snapbox::Assert::new().action_env("SNAPSHOTS").eq(format!("{answer:#}\n"), expected.raw());
}

#[test]
fn every_tree_has_its_inventory() {
    let dirs = fs::read_dir(fixtures()).unwrap().flatten().filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> = dirs.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        check(&name);
    }
}

/// The index spaces that users mix up, spelled out beside the JSON.
#[test]
fn minors_are_not_positions() {
    let gpus = inventory(&facts("skewed"));
    let spaces: Vec<_> = gpus
        .iter()
        .map(|gpu| (gpu.pci.as_deref().unwrap(), gpu.minor.unwrap(), gpu.nvml_index.unwrap()))
        .collect();
    let expected =
        [("0000:3b:00.0", 2, 0), ("0000:5e:00.0", 3, 1), ("0000:86:00.0", 0, 2), ("0000:af:00.0", 1, 3)];
    assert_eq!(spaces, expected);
}

/// The number decides whose node it is, whatever its name.
#[test]
fn numbers_win_over_names() {
    let gpus = inventory(&facts("mixed"));
    let nodes = |minor| {
        let gpu = gpus.iter().find(|gpu| (gpu.major, gpu.minor) == (Some(195), Some(minor))).unwrap();
        gpu.nodes.iter().map(|node| (node.path.as_str(), node.major, node.gate)).collect::<Vec<_>>()
    };
    assert_eq!(nodes(0), [("/dev/nvidia0", 500, false)]);
    assert_eq!(nodes(1)[..2], [("/dev/nvidia1", 195, true), ("/dev/nvidia5", 195, true)]);
}

/// The same major is another driver after a reboot.
#[test]
fn labels_follow_the_boot() {
    let label = |tree, major| describe(&facts(tree), DeviceType::Char, major, 0);
    assert_eq!(label("four-h200", 510).as_deref(), Some("nvidia-uvm"));
    assert_eq!(label("skewed", 235).as_deref(), Some("nvidia-uvm"));
    assert_eq!(label("nodes-only", 510).as_deref(), Some("nvme-generic"));
}

#[test]
fn the_live_node_is_read_without_failing() {
    let mut errors = Vec::new();
    inventory(&collect(Path::new("/"), &mut errors));
    assert!(
        errors.iter().all(|problem| !problem.code.as_str().is_empty() && !problem.what.is_empty()),
        "{errors:?}"
    );
}

/// A scratch directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("gpumap-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("dev")).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bad_stand_ins_and_large_files_are_problems() {
    let scratch = Scratch::new("problems");
    fs::create_dir_all(scratch.0.join("proc")).unwrap();
    fs::write(scratch.0.join("proc/devices"), "x\n".repeat(64 << 10)).unwrap();
    fs::write(scratch.0.join("dev/nvidia0"), "not a node").unwrap();
    let mut errors = Vec::new();
    let facts = collect(&scratch.0, &mut errors);
    assert_eq!(
        errors.iter().map(|problem| problem.code.as_str()).collect::<Vec<_>>(),
        ["too-large", "bad-node"]
    );
    assert_eq!(facts.files["/proc/devices"].len(), 64 << 10);
    assert!(facts.nodes.is_empty());
}

#[test]
fn too_many_nodes_are_a_problem() {
    let scratch = Scratch::new("many");
    for minor in 0..4100 {
        fs::write(scratch.0.join(format!("dev/nvidia{minor}")), format!("c 195:{minor}")).unwrap();
    }
    let mut errors = Vec::new();
    assert_eq!(collect(&scratch.0, &mut errors).nodes.len(), 4096);
    assert_eq!(errors[0].code, ProblemCode::TooMany);
}

#[test]
fn real_nodes_are_seen_by_lstat() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    let scratch = Scratch::new("mknod");
    let make = |name: &str, minor| {
        let path = scratch.0.join("dev").join(name);
        mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o600), makedev(195, minor))
    };
    if let Err(error) = make("nvidia3", 3) {
        return skip(&format!("mknod needs root ({error})"));
    }
    make("nvidiactl", 255).unwrap();
    std::os::unix::fs::symlink("nvidia3", scratch.0.join("dev/nvidia4")).unwrap();
    let mut errors = Vec::new();
    let facts = collect(&scratch.0, &mut errors);
    assert_eq!(errors, []);
    let seen: Vec<_> = facts.nodes.iter().map(|node| (node.path.as_str(), node.major, node.minor)).collect();
    assert_eq!(seen, [("/dev/nvidia3", 195, 3), ("/dev/nvidiactl", 195, 255)]);
    assert_eq!(facts.nodes[0].mode, 0o600);
    assert_eq!(inventory(&facts)[0].key, "195:3");
}

/// Text that looks enough like the real thing to get far.
fn hostile() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Device Minor: 4294967295",
        "Device Minor:\t 1",
        "GPU UUID: GPU-11111111-2222-3333-4444-555555555555",
        "GPU Excluded: Yes",
        "simd_count 1",
        "location_id 15104",
        "domain 99999999999999999999",
        "drm_render_minor 128",
        "unique_id 18446744073709551615",
        "DeviceFileMinor: -1",
        "226:128",
        "261:0",
        "Character devices:",
        "0x10de",
    ]);
    let line =
        prop_oneof![3 => known.prop_map(str::to_owned), 1 => "\\PC{0,40}", 1 => "[0-9]{1,12} [a-z-]{1,12}"];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

fn paths() -> impl Strategy<Value = String> {
    let paths = prop::sample::select(vec![
        "/proc/devices",
        "/proc/driver/nvidia/version",
        "/proc/driver/nvidia/gpus/0000:3b:00.0/information",
        "/proc/driver/nvidia/gpus/0000:3B:00.0/information",
        "/proc/driver/nvidia/gpus/0000:5e:00.0/information",
        "/proc/driver/nvidia/gpus/bogus/information",
        "/proc/driver/nvidia/capabilities/gpu1/mig/gi1/access",
        "/proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access",
        "/proc/driver/nvidia/capabilities/gpu1/mig/gi01/access",
        "/proc/driver/nvidia-caps/mig-minors",
        "/sys/class/kfd/kfd/topology/nodes/1/properties",
        "/sys/class/kfd/kfd/topology/nodes/2/properties",
        "/sys/class/drm/card0/dev",
        "/sys/class/drm/renderD128/dev",
        "/sys/class/drm/renderD129/dev",
        "/sys/class/accel/accel0/dev",
        "/sys/class/accel/accel1/dev",
        "/sys/bus/pci/devices/0000:3b:00.0/vendor",
        "/sys/bus/pci/devices/0000:3b:00.0/unique_id",
    ]);
    paths.prop_map(str::to_owned)
}

fn nodes() -> impl Strategy<Value = Vec<DeviceNode>> {
    let path = prop::sample::select(vec![
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidia4294967295",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/dri/renderD128",
        "/dev/accel/accel0",
        "/dev/neuron0",
        "/dev/kfd",
        "",
    ]);
    let major = prop::sample::select(vec![0, 195, 226, 261, 510, u32::MAX]);
    let minor = prop::sample::select(vec![0, 1, 128, 255, u32::MAX]);
    let kind = DeviceType::Char;
    let node = (path, major, minor).prop_map(move |(path, major, minor)| DeviceNode {
        path: path.to_owned(),
        kind,
        major,
        minor,
        mode: 0,
        uid: 0,
        gid: 0,
    });
    prop::collection::vec(node, 0..12)
}

proptest! {
    /// Nothing in the facts can make the inventory panic or list a key twice.
    #[test]
    fn hostile_facts_never_panic_or_repeat_a_key(
        files in prop::collection::btree_map(paths(), hostile(), 0..19),
        device in "(\\.\\./){0,2}(0000:3b:00\\.0|amdgpu_xcp_1|\\PC{0,8})",
        nodes in nodes(),
        (major, minor) in (any::<u32>(), any::<u32>()),
    ) {
        let links = ["drm/card0", "drm/renderD128", "drm/renderD129", "accel/accel0", "accel/accel1"];
        let links = links.map(|name| (format!("/sys/class/{name}/device"), device.clone())).into();
        let facts = GpuFacts { files, links, nodes, ..GpuFacts::default() };
        let gpus = inventory(&facts);
        let keys: BTreeSet<&str> = gpus.iter().map(|gpu| gpu.key.as_str()).collect();
        prop_assert_eq!(keys.len(), gpus.len());
        prop_assert!(!keys.contains(""));
        shared_nodes(&facts);
        describe(&facts, DeviceType::Char, major, minor);
    }
}
