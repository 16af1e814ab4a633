//! Programs captured from real software, with the kernel's verdicts at the
//! time: `NAME.xlated`, `NAME.json` (maps, effective list), `NAME.oracle.tsv`
//! (the program alone), `NAME.oracle-effective.tsv` (all that was in effect).

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::bytecode::Insn;
use gpumap::model::{Device, DeviceType, Request, Verdict};
use gpumap::observation::{Answer, HexBytes, Map, MapEntry, Program, Text};
use serde_json::Value;

/// One captured program.
#[derive(Clone, Debug)]
pub struct Capture {
    pub name: String,
    pub program: Program,
    pub maps: Vec<Map>,
    /// Ids of the programs in effect where it was captured, in run order.
    pub effective: Vec<u32>,
    /// The program alone.
    pub alone: Vec<(Device, Request, Verdict)>,
    /// All programs in effect; empty where that was not recorded.
    pub together: Vec<(Device, Request, Verdict)>,
}

/// Where the captures are: `fixtures/programs`, or `GPUMAP_CAPTURES`.
pub fn directory() -> PathBuf {
    std::env::var_os("GPUMAP_CAPTURES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs"), PathBuf::from)
}

/// Every capture below `directory`, by name.
pub fn all(directory: &Path) -> Vec<Capture> {
    let files = walkdir::WalkDir::new(directory).sort_by_file_name().into_iter().filter_map(Result::ok);
    files
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "xlated"))
        .filter(|path| path.with_extension("json").exists())
        .map(|path| read(&path))
        .collect()
}

fn read(xlated: &Path) -> Capture {
    let json = fs::read_to_string(xlated.with_extension("json")).expect("the capture's facts");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    Capture {
        name: xlated.file_stem().expect("a name").to_string_lossy().into_owned(),
        program: program(&json["prog"], fs::read(xlated).expect("the program"), xlated),
        maps: json["maps"].as_array().into_iter().flatten().map(map).collect(),
        effective: json["cgroup_show_effective"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| id(&one["id"]))
            .collect(),
        alone: table(&xlated.with_extension("oracle.tsv")),
        together: table(&xlated.with_extension("oracle-effective.tsv")),
    }
}

fn id(value: &Value) -> u32 {
    u32::try_from(value.as_u64().expect("a number")).expect("a small number")
}

fn program(json: &Value, xlated: Vec<u8>, path: &Path) -> Program {
    let text = |key: &str| json[key].as_str().unwrap_or_default();
    Program {
        id: id(&json["id"]),
        name: Text::from(text("name")),
        tag: text("tag").into(),
        gpl_compatible: json["gpl_compatible"].as_bool().unwrap_or_default(),
        map_ids: json["map_ids"].as_array().into_iter().flatten().map(id).collect(),
        calls: calls(&xlated, &path.with_extension("txt")),
        xlated: Answer::Known(HexBytes(xlated)),
        ..Program::default()
    }
}

/// Helper names from bpftool's listing: `12: (85) call name#number`.
fn calls(xlated: &[u8], listing: &Path) -> std::collections::BTreeMap<i32, String> {
    let insns = Insn::parse_all(xlated).expect("whole slots");
    let text = fs::read_to_string(listing).unwrap_or_default();
    let named = text.lines().filter_map(|line| {
        let (number, rest) = line.trim().split_once(": (85) call ")?;
        let (name, _) = rest.split_once('#')?;
        let insn = insns.get(number.parse::<usize>().ok()?)?;
        Some((insn.imm, name.to_owned()))
    });
    named.collect()
}

fn map(json: &Value) -> Map {
    let show = &json["show"];
    let number = |key: &str| id(&show[key]);
    let entries = json["dump"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| MapEntry { key: bytes(&entry["key"]), value: bytes(&entry["value"]) });
    Map {
        id: number("id"),
        kind: show["type"].as_str().expect("a type").into(),
        name: Text::from(show["name"].as_str().unwrap_or_default()),
        key_size: number("bytes_key"),
        value_size: number("bytes_value"),
        max_entries: number("max_entries"),
        flags: number("flags"),
        frozen: number("frozen") != 0,
        hidden: Vec::new(),
        entries: Answer::Known(entries.collect()),
        programs: Vec::new(),
    }
}

fn bytes(json: &Value) -> HexBytes {
    let byte = |one: &Value| {
        let digits = one.as_str().expect("a byte").trim_start_matches("0x");
        u8::from_str_radix(digits, 16).expect("hex")
    };
    HexBytes(json.as_array().expect("bytes").iter().map(byte).collect())
}

fn table(path: &Path) -> Vec<(Device, Request, Verdict)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> (Device, Request, Verdict) {
    let columns: Vec<&str> = line.split('\t').collect();
    let kind = if columns[0] == "c" { DeviceType::Char } else { DeviceType::Block };
    let number = |at: usize| columns[at].parse().expect("a device number");
    let request = match columns[3] {
        "r" => Request::Read,
        "w" => Request::Write,
        "rw" => Request::ReadWrite,
        "mknod" => Request::Mknod,
        other => panic!("access {other}"),
    };
    let verdict = match columns[4] {
        "allowed" => Verdict::Allow,
        "denied" => Verdict::Deny,
        other => panic!("verdict {other}"),
    };
    (Device { kind, major: number(1), minor: number(2) }, request, verdict)
}
