//! Reads shared regions that real builds of libvgpu.so and SoftMig wrote, and
//! compares each with what that build's own C header reads.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use gpumap::model::RegionLayout;
use gpumap::vgpu::{self, Limits};
use serde_json::Value;

/// A region file that a real build wrote.
struct Capture {
    name: String,
    bytes: Vec<u8>,
    truth: Value,
}

/// Every capture.
fn captures() -> &'static [Capture] {
    static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(|| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vgpu");
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let truths = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
        truths.map(|truth| unpack(&truth)).collect()
    });
    assert!(CAPTURES.len() > 90, "{} captures", CAPTURES.len());
    &CAPTURES
}

fn unpack(truth: &Path) -> Capture {
    let mut bytes = Vec::new();
    let packed = fs::File::open(truth.with_extension("bin.gz")).unwrap();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let name = truth.file_stem().unwrap().to_str().unwrap().to_owned();
    Capture { name, bytes, truth: serde_json::from_str(&fs::read_to_string(truth).unwrap()).unwrap() }
}

fn capture(name: &str) -> &'static Capture {
    captures().iter().find(|capture| capture.name == name).unwrap()
}

/// Files that a second build has written over.
const MIXED: [&str; 2] = ["v1.1post-then-1.1", "v1.1post-then-1.2"];

/// Make sure that every field of every capture is read as the library's own
/// header reads it, and that files of two builds are not read at all.
#[test]
fn captures_are_read_as_their_headers_do() {
    for Capture { name, bytes, truth } in captures() {
        let read = vgpu::read(bytes);
        if MIXED.contains(&name.as_str()) {
            assert_eq!((read.layout, read.procs), (RegionLayout::Mixed, None), "{name}");
            continue;
        }
        assert_eq!(read.layout.to_string(), truth["library"]["layout"], "{name}: {:?}", read.why);
        let read = serde_json::to_value(&read).unwrap();
        for (field, value) in truth["region"].as_object().unwrap() {
            // What the capture says of the file, and not of a field in it.
            if !["sizeof_region", "complete"].contains(&field.as_str()) {
                assert_eq!(&read[field], value, "{name}: {field}");
            }
        }
    }
}

/// Make sure that a file of 1.1 that a process of 1.1-post has made longer is
/// mixed, wherever the two wrote.
#[test]
fn a_grown_file_is_mixed() {
    let mut grown = capture("v1.1-one-plain").bytes.clone();
    grown.resize(2_008_985, 0);
    assert_eq!(vgpu::read(&grown).layout, RegionLayout::Mixed);
    let newer = capture("v1.1post-three").bytes.clone();
    // The second build's UUIDs lie over the first build's.
    grown[96..1632].copy_from_slice(&newer[96..1632]);
    grown[2_008_928..].copy_from_slice(&newer[2_008_928..]);
    assert_eq!(vgpu::read(&grown).layout, RegionLayout::Mixed);
    let mut newer_version = newer;
    newer_version[8] = 2;
    assert_eq!(vgpu::read(&newer_version).layout, RegionLayout::Mixed);
}

/// Make sure that entries of another structure behind a known size and version
/// are not read: four builds between releases wrote such files.
#[test]
fn entries_of_another_structure_are_not_read() {
    let (mut file, newer) =
        (capture("v1.1-one-plain").bytes.clone(), capture("v1.1post-three").bytes.clone());
    file[1856..1856 + 3 * 1960].copy_from_slice(&newer[1888..1888 + 3 * 1960]);
    let region = vgpu::read(&file);
    assert_eq!((region.layout, region.procs), (RegionLayout::Unknown, None));
    assert!(region.why.unwrap().contains("process 0"));
}

/// Make sure that SoftMig 2.0 is read at the offsets of its structure, on both
/// architectures. No such file was at hand: this one is written by the table.
#[test]
fn softmig_2_is_read_by_its_table() {
    for (shift, size) in [(0, 2_140_032), (8, 2_140_040)] {
        let mut file = vec![0; size];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &19_920_718_u32.to_le_bytes());
        put(4, &2_u32.to_le_bytes());
        put(64 + shift, &1_u64.to_le_bytes());
        put(72 + shift, b"GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0000");
        put(1608 + shift, &(4_u64 << 30).to_le_bytes());
        put(1736 + shift, &30_u64.to_le_bytes());
        let process = 1864 + shift;
        put(process, &7_i32.to_le_bytes());
        put(process + 8 + 32, &4096_u64.to_le_bytes());
        put(process + 1928, &512_u64.to_le_bytes());
        put(process + 2056, &1_i32.to_le_bytes());
        put(2_139_976 + shift, &1_i32.to_le_bytes());
        let region = vgpu::read(&file);
        assert_eq!(region.layout, RegionLayout::Softmig2_0, "{:?}", region.why);
        assert_eq!(region.limit.unwrap()[0], 4 << 30);
        assert_eq!(region.sm_limit.unwrap()[0], 30);
        let process = &region.procs.unwrap()[0];
        assert_eq!((process.pid, process.status, process.devices[0].total), (7, 1, 4096));
    }
}

/// Make sure that no size and no bytes make the reader panic, and that a file
/// which is cut off is not read.
#[test]
fn any_bytes_are_read() {
    let whole = capture("v1.2-three").bytes.clone();
    for length in [0, 1, 3, 4, 11, 12, 2000, 2_008_952, 2_008_954] {
        let mut file = whole.clone();
        file.resize(length, 0xff);
        let layout = vgpu::read(&file).layout;
        assert_eq!(layout, RegionLayout::Unknown, "{length}");
    }
    for size in [804_680, 804_681, 1_197_897, 2_008_952, 2_008_953, 2_008_985, 2_140_033, 2_140_041] {
        for (byte, version) in [(0xff, [1, 1]), (0x01, [1, 2]), (0x7f, [2, 0]), (0x80, [1, 1])] {
            let mut file = vec![byte; size];
            file[..4].copy_from_slice(&19_920_718_u32.to_le_bytes());
            file[4..12].copy_from_slice(&[version[0], 0, 0, 0, version[1], 0, 0, 0]);
            assert_eq!(vgpu::read(&file).procs, None, "{size} bytes of {byte:#x}");
        }
    }
}

/// Make sure that a count of processes that cannot be is not believed.
#[test]
fn counts_are_bounded() {
    let mut file = capture("v1.2-three").bytes.clone();
    for (count, in_range) in [(i32::MAX, 1024), (-1, 0), (2, 2)] {
        file[2_008_896..2_008_900].copy_from_slice(&count.to_le_bytes());
        let region = vgpu::read(&file);
        assert_eq!(region.proc_num, Some(count));
        let counted = region.procs.unwrap().iter().filter(|process| process.in_range).count();
        assert_eq!(counted, in_range);
    }
}

/// Make sure that limits are read from the environment as five builds of
/// HAMi-core and SoftMig read them, whatever their spelling.
#[test]
fn limits_are_read_as_the_libraries_do() {
    let mut compared = 0;
    for Capture { name, truth, .. } in captures() {
        // Regions whose limits come from where their first process took them.
        if !name.contains("-env-") && name != "softmig-no-job" {
            continue;
        }
        let variables = &truth["processes"][0]["env"];
        let limits = Limits::from_variables(|name| variables[name].as_str().map(str::as_bytes));
        assert_eq!(serde_json::json!(limits.memory), truth["region"]["limit"], "{name}");
        assert_eq!(serde_json::json!(limits.sm), truth["region"]["sm_limit"], "{name}");
        compared += 1;
    }
    assert!(compared > 10, "{compared} captures");
}

/// Make sure that a job's file of SoftMig is read as SoftMig reads it.
#[test]
fn job_files_are_read_as_softmig_does() {
    for name in ["softmig-job", "softmig-conf-spellings", "softmig-array"] {
        let truth = &capture(name).truth;
        let file = if name == "softmig-array" { "4711_3.conf" } else { "4711.conf" };
        let lines = truth["conf"][file].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
        let text = lines.collect::<Vec<_>>().join("\n");
        let limits = Limits::from_job_file(text.as_bytes());
        assert_eq!(serde_json::json!(limits.memory), truth["region"]["limit"], "{name}");
        assert_eq!(serde_json::json!(limits.sm), truth["region"]["sm_limit"], "{name}");
    }
}
