//! Reads shared regions that real builds of libvgpu.so and SoftMig wrote, and
//! compares each with what that build's own C header reads.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

use crate::support::rng::Rng;
use flate2::read::GzDecoder;
use gpumap::model::RegionLayout;
use gpumap::observation::SparseBytes;
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

/// A layout by its table: size, version, and where its fields are.
struct Table {
    layout: RegionLayout,
    size: usize,
    version: Option<[u32; 2]>,
    device_num: usize,
    procs: [usize; 2],
    proc_num: usize,
    /// Of a slot: the first device's use and the way to the next, monitorused, status.
    slot: [usize; 4],
}

const TABLES: [Table; 9] = {
    const OLD: Table = Table {
        layout: RegionLayout::V0a,
        size: 804_681,
        version: None,
        device_num: 48,
        procs: [1848, 784],
        proc_num: 804_664,
        slot: [8, 40, 648, 776],
    };
    const NEW: Table = Table {
        layout: RegionLayout::V1_1,
        size: 2_008_953,
        version: Some([1, 1]),
        device_num: 56,
        procs: [1856, 1960],
        proc_num: 2_008_896,
        slot: [8, 64, 1032, 1928],
    };
    const TWO: Table = Table {
        layout: RegionLayout::Softmig2_0,
        size: 2_140_032,
        version: Some([2, 0]),
        device_num: 64,
        procs: [1864, 2088],
        proc_num: 2_139_976,
        slot: [8, 64, 1032, 2056],
    };
    [
        OLD,
        Table {
            layout: RegionLayout::V0b,
            size: 1_197_897,
            procs: [1848, 1168],
            proc_num: 1_197_880,
            slot: [8, 40, 648, 1160],
            ..OLD
        },
        NEW,
        Table {
            layout: RegionLayout::V1_1Post,
            size: 2_008_985,
            device_num: 88,
            procs: [1888, 1960],
            proc_num: 2_008_928,
            slot: [16, 64, 1040, 1936],
            ..NEW
        },
        Table { layout: RegionLayout::V1_2, version: Some([1, 2]), ..NEW },
        Table { layout: RegionLayout::Softmig1_1, size: 2_008_952, ..NEW },
        TWO,
        Table { size: 2_140_033, ..TWO },
        // aarch64
        Table { size: 2_140_040, device_num: 72, procs: [1872, 2088], proc_num: 2_139_984, ..TWO },
    ]
};

impl Table {
    /// A region with this many devices and processes, each with use on every device.
    fn region(&self, devices: usize, processes: usize) -> Vec<u8> {
        let mut file = vec![0; self.size];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &19_920_718_u32.to_le_bytes());
        if let Some([major, minor]) = self.version {
            put(4, &major.to_le_bytes());
            put(8, &minor.to_le_bytes());
        }
        put(self.device_num, &(devices as u64).to_le_bytes());
        for device in 0..devices {
            put(self.device_num + 8 + device * 96, uuid(device).as_bytes());
            put(self.device_num + 1544 + device * 8, &((1 + device as u64) << 30).to_le_bytes());
        }
        for process in 0..processes {
            let entry = self.procs[0] + process * self.procs[1];
            put(entry, &(1 + process as i32).to_le_bytes());
            put(entry + 4, &(100_001 + process as i32).to_le_bytes());
            put(entry + self.slot[3], &1_i32.to_le_bytes());
            for device in 0..devices {
                put(entry + self.slot[0] + device * self.slot[1] + 32, &(7 + device as u64).to_le_bytes());
                put(entry + self.slot[2] + device * 8, &(9 + device as u64).to_le_bytes());
            }
        }
        put(self.proc_num, &(processes as i32).to_le_bytes());
        file
    }
}

fn uuid(device: usize) -> String {
    format!("GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de{device:04}")
}

/// Make sure that regions as full as they can be are read in every layout: sixteen
/// devices, and 1,024 processes.
#[test]
fn full_regions() {
    for table in &TABLES {
        for (devices, processes) in [(16, 1024), (16, 0), (1, 1023), (2, 1)] {
            let read = vgpu::read(&table.region(devices, processes));
            let what = format!("{} {devices} {processes}: {:?}", table.layout, read.why);
            assert_eq!((read.layout, read.device_num), (table.layout, Some(devices as u64)), "{what}");
            let uuids = read.uuids.unwrap();
            assert!((0..devices).all(|device| uuids[device] == uuid(device)), "{what}");
            let limit = read.limit.unwrap();
            assert!(
                (0..16)
                    .all(|device| limit[device]
                        == if device < devices { (1 + device as u64) << 30 } else { 0 }),
                "{what}"
            );
            let procs = read.procs.unwrap();
            assert_eq!(procs.len(), processes, "{what}");
            for (index, process) in procs.iter().enumerate() {
                assert_eq!((process.index, process.in_range, process.status), (index, true, 1), "{what}");
                assert_eq!((process.pid, process.hostpid), (1 + index as i32, 100_001 + index as i32));
                assert_eq!(process.devices.len(), devices, "{what}");
                assert!(process.devices.iter().all(|one| {
                    let device = one.device as u64;
                    (one.total, one.monitorused) == (7 + device, 9 + device)
                }));
            }
        }
    }
}

/// Make sure that what real drivers and libraries may leave is no contradiction (bytes
/// behind the end of a UUID, no UUID at all, MIG, dead entries behind the count), and
/// that what no library writes is one (17 devices, a file that is cut off or too long,
/// a UUID that is no text, a status that does not exist, a version of the future).
#[test]
fn what_contradicts_a_layout() {
    for table in &TABLES {
        let uuids = table.device_num + 8;
        let status = table.procs[0] + table.slot[3];
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut file = table.region(2, 3);
            change(&mut file);
            vgpu::read(&file).layout
        };
        let number = |at: usize, value: u64| {
            move |file: &mut Vec<u8>| file[at..at + 8].copy_from_slice(&value.to_le_bytes())
        };
        for (what, layout) in [
            ("rest", with(&|file| file[uuids + 45..uuids + 96].fill(0xee))),
            ("none", with(&|file| file[table.device_num..uuids + 192].fill(0))),
            ("mig", with(&|file| file[uuids..uuids + 4].copy_from_slice(b"MIG-"))),
            ("dead", with(&|file| file[table.proc_num] = 1)),
            ("suspended", with(&|file| file[status] = 2)),
            ("gone", with(&|file| file[status - 8..status + 4].fill(0))),
            ("negative", with(&|file| file[table.proc_num..table.proc_num + 4].fill(0xff))),
        ] {
            assert_eq!(layout, table.layout, "{what}");
        }
        for (what, layout) in [
            ("17 devices", with(&number(table.device_num, 17))),
            ("many devices", with(&number(table.device_num, u64::MAX))),
            ("no text", with(&|file| file[uuids + 3] = 0x80)),
            ("a status", with(&|file| file[status] = 3)),
            ("cut off", with(&|file| file.truncate(table.proc_num))),
            ("longer", with(&|file| file.resize(file.len() + 4096, 0))),
            ("no magic", with(&|file| file[0] ^= 1)),
        ] {
            assert_eq!(layout, RegionLayout::Unknown, "{what} {}", table.layout);
        }
        if table.version.is_some() {
            for version in [[1_u8, 3], [2, 1], [3, 0], [0, 0]] {
                let layout = with(&|file| (file[4], file[8]) = (version[0], version[1]));
                assert_eq!(layout, RegionLayout::Unknown, "{version:?} {}", table.layout);
            }
        }
    }
}

/// Make sure that a file which 1.1 made and 1.1-post went on with is mixed, with UUIDs
/// and without, and that the last entry of 1.1-post alone makes none mixed.
#[test]
fn a_newer_build_on_an_older_file() {
    let (older, newer) = (&TABLES[2], &TABLES[3]);
    for devices in [0, 1, 16] {
        let mut file = older.region(devices, 1);
        file.resize(newer.size, 0);
        let second = newer.region(devices, 2);
        // The second process keeps the header, takes the next entry and the counts.
        file[newer.device_num..newer.device_num + 8 + 1536]
            .copy_from_slice(&second[newer.device_num..newer.device_num + 8 + 1536]);
        let entry = newer.procs[0] + newer.procs[1];
        file[entry..entry + newer.procs[1]].copy_from_slice(&second[entry..entry + newer.procs[1]]);
        file[newer.proc_num..newer.proc_num + 4].copy_from_slice(&1_i32.to_le_bytes());
        assert_eq!(vgpu::read(&file).layout, RegionLayout::Mixed, "{devices}");
    }
    let mut full = newer.region(2, 1024);
    assert_eq!(vgpu::read(&full).layout, RegionLayout::V1_1Post);
    // The older build's counts, where the newer one has a spare field.
    full[older.proc_num..older.proc_num + 8].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(vgpu::read(&full).layout, RegionLayout::Mixed);
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

/// Regions that are patched at random when nothing else is said; `GPUMAP_CASES` says
/// otherwise, `GPUMAP_SEED` where to begin.
const PATCHED: u64 = 40;

/// Values that are more likely to matter than any.
const EDGES: [u64; 10] = [0, 1, 2, 3, 16, 17, 1024, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Make sure that whatever a hostile process writes into a region of a known layout
/// gives an answer within bounds, and that no byte is lost on the way to a saved node.
#[test]
fn random_patches() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("GPUMAP_SEED").unwrap_or(1);
    for seed in first..first + number("GPUMAP_CASES").unwrap_or(PATCHED) {
        let mut rng = Rng::new(seed);
        let table = &TABLES[rng.below(TABLES.len() as u32) as usize];
        let mut file = table.region(rng.below(17) as usize, [0, 1, 5, 1024][rng.below(4) as usize]);
        for _ in 0..rng.below(12) {
            let fields = [0, 4, 8, table.device_num, table.device_num + 8, table.procs[0], table.proc_num];
            let at = match rng.below(3) {
                0 => rng.below(file.len() as u32) as usize,
                1 => fields[rng.below(fields.len() as u32) as usize],
                _ => {
                    table.procs[0]
                        + rng.below(1024) as usize * table.procs[1]
                        + rng.below(table.procs[1] as u32) as usize
                }
            };
            let value = if rng.below(2) == 0 { rng.next() } else { EDGES[rng.below(10) as usize] };
            let length = (1 + rng.below(8) as usize).min(file.len().saturating_sub(at));
            file[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
        }
        if rng.below(8) == 0 {
            file.truncate(rng.below(file.len() as u32 + 1) as usize);
        }
        let read = vgpu::read(&file);
        let procs = read.procs.iter().flatten();
        assert!(
            procs.clone().count() <= 1024 && procs.clone().all(|one| one.devices.len() <= 16),
            "seed {seed}"
        );
        let is_known = !matches!(read.layout, RegionLayout::Unknown | RegionLayout::Mixed);
        assert_eq!((read.uuids.is_some(), read.why.is_none()), (is_known, is_known), "seed {seed}");
        let sparse = SparseBytes::of(&file, file.len() as u64);
        assert_eq!(sparse.whole().as_deref(), Some(file.as_slice()), "seed {seed}");
    }
}
