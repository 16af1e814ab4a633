//! Compares what unit settings mean with the kernel's verdicts on the programs that
//! systemd made of them (`fixtures/programs/systemd`).

use std::path::Path;

use gpumap::model::{Device, DeviceType, Request, Verdict};
use gpumap::observation::{Answer, ConfigFile, DeviceNumber, GpuFacts, NamedNode, Unit};
use gpumap::unit::{DeviceRules, Filter, device_rules};

/// As the captured systemd saw it.
const DEVICES: &str = "Character devices:\n136 pts\n195 nvidia\n195 nvidiactl\n226 drm\n237 nvidia-caps\n\
    508 nvidia-caps-imex-channels\n509 nvidia-nvswitch\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n259 blkext\n";
/// The nodes that the captured units name.
const NODES: [(&str, u32, u32); 7] = [
    ("/dev/nvidia0", 195, 0),
    ("/dev/nvidia1", 195, 1),
    ("/dev/nvidia2", 195, 2),
    ("/dev/nvidia3", 195, 3),
    ("/dev/nvidiactl", 195, 255),
    ("/dev/nvidia-uvm", 510, 0),
    ("/dev/null", 1, 3),
];
/// Captures and the settings they were made with, as their `command` says.
const UNITS: [(&str, &str); 7] = [
    ("247-closed", "DevicePolicy=closed"),
    (
        "252-char-nvidia",
        "DevicePolicy=closed\nDeviceAllow=char-nvidia rw\nDeviceAllow=char-nvidia-uvm rw\nDeviceAllow=char-nvidia-caps r",
    ),
    (
        "252-closed-gpu",
        "DevicePolicy=closed\nDeviceAllow=/dev/nvidia3 rw\nDeviceAllow=/dev/nvidiactl rw\nDeviceAllow=/dev/nvidia-uvm rw",
    ),
    ("252-strict-nvidia0", "DevicePolicy=strict\nDeviceAllow=/dev/nvidia0 rw"),
    ("252-strict", "DevicePolicy=strict"),
    (
        "252-stack-service",
        "DevicePolicy=strict\nDeviceAllow=/dev/nvidia1 rw\nDeviceAllow=/dev/nvidia2 rw\nDeviceAllow=/dev/null rwm",
    ),
    (
        "252-runc-nvidia1-after-daemon-reload-2",
        "DevicePolicy=strict\nDeviceAllow=\nDeviceAllow=char-pts rwm\nDeviceAllow=/dev/char/10:200 rwm\n\
         DeviceAllow=/dev/char/5:2 rwm\nDeviceAllow=/dev/char/5:0 rwm\nDeviceAllow=/dev/char/1:9 rwm\n\
         DeviceAllow=/dev/char/1:8 rwm\nDeviceAllow=/dev/char/1:7 rwm\nDeviceAllow=/dev/char/1:5 rwm\n\
         DeviceAllow=/dev/char/1:3 rwm\nDeviceAllow=char-* m\nDeviceAllow=block-* m",
    ),
];

fn filter(settings: &str) -> Filter {
    let node = |(path, major, minor): (&str, u32, u32)| NamedNode {
        path: path.to_owned(),
        device: Answer::Known(Some(DeviceNumber { kind: DeviceType::Char, major, minor })),
    };
    let unit = Unit {
        name: "t.service".into(),
        fragment: Some("/run/systemd/transient/t.service".into()),
        files: vec![ConfigFile {
            path: "x".into(),
            text: format!("[Service]\n{settings}\n").into(),
            ..ConfigFile::default()
        }],
        nodes: NODES.map(node).into(),
        ..Unit::default()
    };
    let files = [("/proc/devices".to_owned(), DEVICES.to_owned())].into();
    match device_rules(&unit, &GpuFacts { files, ..GpuFacts::default() }) {
        DeviceRules::Filter(filter) => filter,
        DeviceRules::Open => Filter::default(),
    }
}

/// A line `TYPE MAJOR MINOR ACCESS VERDICT …` of what the kernel answered.
fn question(line: &str) -> (Device, Request, Verdict) {
    let words: Vec<&str> = line.split('\t').collect();
    let kind = if words[0] == "b" { DeviceType::Block } else { DeviceType::Char };
    let device =
        Device { kind, major: words[1].parse().expect("major"), minor: words[2].parse().expect("minor") };
    let request = match words[3] {
        "r" => Request::Read,
        "w" => Request::Write,
        "rw" => Request::ReadWrite,
        "mknod" => Request::Mknod,
        _ => Request::Exists,
    };
    (device, request, if words[4] == "allowed" { Verdict::Allow } else { Verdict::Deny })
}

/// Make sure that the verdicts are those of the program that systemd made.
#[test]
fn captured_programs() {
    for (name, settings) in UNITS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("fixtures/programs/systemd/{name}.oracle.tsv"));
        let table = std::fs::read_to_string(&path).expect("a capture");
        let filter = filter(settings);
        let mut compared = 0;
        for line in table.lines().skip(1) {
            let (device, request, kernel) = question(line);
            assert_eq!(filter.verdict(device, request), kernel, "{name}: {line}");
            compared += 1;
        }
        assert!(compared > 500, "{name}: {compared}");
    }
}
