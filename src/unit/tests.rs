use super::*;
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::observation::{Answer, ConfigFile, DeviceNumber, GpuFacts, NamedNode, Unit};
use Request::{Exists, Mknod, Read, ReadWrite, Write};

const DEVICES: &str = "Character devices:\n  1 mem\n136 pts\n195 nvidia\n195 nvidiactl\n237 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n195 x\n";

fn filter(lines: &str) -> Filter {
    match of(lines) {
        DeviceRules::Filter(filter) => filter,
        DeviceRules::Open => panic!("no filter: {lines}"),
    }
}

fn of(lines: &str) -> DeviceRules {
    let number = DeviceNumber { kind: DeviceType::Char, major: 195, minor: 3 };
    let named = |path: &str, device| NamedNode { path: path.into(), device };
    let unit = Unit {
        name: "a.service".into(),
        fragment: Some("x".into()),
        files: vec![ConfigFile {
            path: "x".into(),
            text: format!("[Service]\n{lines}\n").into(),
            ..ConfigFile::default()
        }],
        nodes: vec![
            named("/dev/nvidia3", Answer::Known(Some(number))),
            named("/dev/gone", Answer::Known(None)),
            named("/dev/secret", Answer::Missing("no".into())),
        ],
        ..Unit::default()
    };
    let files = [("/proc/devices".to_owned(), DEVICES.to_owned())].into();
    device_rules(&unit, &GpuFacts { files, ..GpuFacts::default() })
}

fn ask(filter: &Filter, major: u32, minor: u32, request: Request) -> Verdict {
    filter.verdict(Device { kind: DeviceType::Char, major, minor }, request)
}

#[test]
fn auto_without_devices_is_open() {
    assert_eq!(of(""), DeviceRules::Open);
    assert_eq!(of("DevicePolicy=auto\nDeviceAllow=/dev/nvidia3\nDeviceAllow="), DeviceRules::Open);
}

/// Make sure that the pseudo devices are there, unless the policy is strict.
#[test]
fn policies() {
    for (lines, null) in [
        ("DevicePolicy=closed", Verdict::Allow),
        ("DeviceAllow=/dev/gone", Verdict::Allow),
        ("PrivateDevices=yes", Verdict::Allow),
        ("DevicePolicy=strict", Verdict::Deny),
    ] {
        let filter = filter(lines);
        assert_eq!(ask(&filter, 1, 3, ReadWrite), null, "{lines}");
        assert_eq!(ask(&filter, 195, 3, ReadWrite), Verdict::Deny, "{lines}");
        assert_eq!(ask(&filter, 195, 3, Exists), Verdict::Deny, "{lines}");
    }
}

/// Make sure that paths, numbers and groups mean what systemd makes of them.
#[test]
fn devices() {
    let by_path = filter("DeviceAllow=/dev/nvidia3 rw");
    assert_eq!(ask(&by_path, 195, 3, ReadWrite), Verdict::Allow);
    assert_eq!(ask(&by_path, 195, 3, Exists), Verdict::Allow);
    assert_eq!(ask(&by_path, 195, 3, Mknod), Verdict::Deny);
    assert_eq!(ask(&by_path, 195, 2, ReadWrite), Verdict::Deny);
    let by_number = filter("DevicePolicy=strict\nDeviceAllow=/dev/char/195:0 rwm");
    assert_eq!(by_number.rules, [FilterRule::char(Some(195), Some(0), 7)]);
    let group = filter("DevicePolicy=strict\nDeviceAllow=char-nvidia rw\nDeviceAllow=block-195 r");
    assert_eq!(ask(&group, 195, 255, ReadWrite), Verdict::Allow);
    assert_eq!(ask(&group, 510, 0, Read), Verdict::Deny);
    let groups = filter("DevicePolicy=strict\nDeviceAllow=char-nvidia* rw");
    assert_eq!(groups.rules.len(), 4);
    assert_eq!(ask(&filter("DeviceAllow=char-* m"), 195, 0, Mknod), Verdict::Allow);
    assert_eq!(ask(&filter("DeviceAllow=char-* m"), 195, 0, ReadWrite), Verdict::Deny);
}

/// Make sure that nothing is claimed of what could not be resolved, and that
/// two lines for one device are no certain `rw`.
#[test]
fn unknowns() {
    for lines in ["DeviceAllow=/dev/secret rw", "DeviceAllow=/dev/other", "DeviceAllow=char-nvidia[0] rw"] {
        assert_eq!(ask(&filter(lines), 195, 0, ReadWrite), Verdict::Unknown, "{lines}");
    }
    assert_eq!(ask(&filter("DeviceAllow=/dev/secret r"), 195, 0, Write), Verdict::Deny);
    assert_eq!(ask(&filter("DeviceAllow=/dev/%i rw"), 1, 3, ReadWrite), Verdict::Unknown);
    let halves = filter("DeviceAllow=/dev/nvidia3 r\nDeviceAllow=/dev/nvidia3 w");
    assert_eq!(ask(&halves, 195, 3, ReadWrite), Verdict::Unknown);
    assert_eq!(ask(&halves, 195, 3, Read), Verdict::Allow);
}
