//! Reads any bytes by each of the small grammars: unit files, cgroup paths, an
//! audit's configuration, a state file of `watch`, devices, durations, what the
//! kernel writes in /proc, records of the ring buffers. The first byte chooses the
//! grammar.

#![no_main]

use gpumap::observation::{ConfigFile, GpuFacts, Unit};
use gpumap::owner::{JobName, of_path};
use gpumap::model::{Device, DeviceType, Request};
use gpumap::unit::{DeviceRules, device_lines, device_rules, drop_in_names, of_cgroup};
use gpumap::{audit, cli, fuzzing, render, watch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match choice % 7 {
        0 => units(bytes, &text),
        1 => {
            of_path(bytes);
            of_cgroup(bytes).map(drop_in_names);
            JobName::parse(&text);
        }
        2 => drop(text.parse::<audit::Config>()),
        3 => drop(watch::state::parse(bytes)),
        4 => {
            let _device = cli::device::parse(bytes);
            let _duration = cli::duration(&text);
            let clean = render::sanitize::bytes(bytes);
            assert!(!clean.chars().any(|c| c.is_control()));
        }
        5 => fuzzing::kernel_texts(bytes),
        _ => fuzzing::ring_record(bytes),
    }
});

fn units(bytes: &[u8], text: &str) {
    let kept = device_lines(bytes, "Service");
    assert_eq!(device_lines(kept.as_bytes(), "Service"), kept);
    let file = ConfigFile { path: "x".to_owned(), text: text.into(), ..ConfigFile::default() };
    let devices = "Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n  8 sd\n";
    let gpu_facts = GpuFacts {
        files: [("/proc/devices".to_owned(), devices.to_owned())].into(),
        ..GpuFacts::default()
    };
    let unit = Unit { name: "a.service".into(), fragment: Some("x".into()), files: vec![file], ..Unit::default() };
    if let DeviceRules::Filter(filter) = device_rules(&unit, &gpu_facts) {
        let device = Device { kind: DeviceType::Char, major: 195, minor: 0 };
        Request::ALL.iter().for_each(|request| _ = filter.verdict(device, *request));
    }
}
