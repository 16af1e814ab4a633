//! Manual pages and schemas in `man/` are generated; these tests keep them
//! current. `BLESS=1 cargo test --test docs` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpumap::observation::Observation;
use gpumap::report::{
    ActivityAnswer, AuditAnswer, Check, CompactAnswer, DiffAnswer, DoctorAnswer, Document, Event,
    ExplainAnswer, FleetAnswer, FreeAnswer, JobsAnswer, JournalsAnswer, KindsAnswer, LeftoversAnswer,
    MatrixAnswer, NodeAnswer, PageAnswer, ProgramsAnswer, RegionAnswer, RepairAnswer, RepairsAnswer,
    VgpuAnswer,
};
use schemars::{JsonSchema, schema_for};

use crate::source::{document, root};

fn man_dir() -> PathBuf {
    root().join("man")
}

fn gpumap(args: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_gpumap")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Compares a generated file with the committed one, or replaces it.
fn current(path: &Path, generated: &[u8]) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path, generated).unwrap();
    }
    let committed = fs::read(path).unwrap_or_default();
    let name = path.display();
    assert!(committed == generated, "{name} is not current: run BLESS=1 cargo test --test docs");
}

/// Make sure that the manual says what the definitions say, and that no page
/// of a command that went away stays behind.
#[test]
fn manual() {
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    fs::create_dir_all(&fresh).unwrap();
    gpumap(&["man", fresh.to_str().unwrap()]);
    for entry in fs::read_dir(&fresh).unwrap() {
        let path = entry.unwrap().path();
        current(&man_dir().join(path.file_name().unwrap()), &fs::read(&path).unwrap());
    }
    for entry in fs::read_dir(man_dir()).unwrap() {
        let path = entry.unwrap().path();
        let is_page = path.extension().is_some_and(|extension| extension == "1");
        assert!(!is_page || fresh.join(path.file_name().unwrap()).exists(), "{} is stale", path.display());
    }
}

/// The keys of all documents, for their schema: each has those of one command.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is asked for")]
struct AnyAnswer {
    #[serde(flatten)]
    prog: Option<ProgramsAnswer>,
    #[serde(flatten)]
    kinds: Option<KindsAnswer>,
    #[serde(flatten)]
    leftovers: Option<LeftoversAnswer>,
    #[serde(flatten)]
    free: Option<FreeAnswer>,
    #[serde(flatten)]
    activity: Option<ActivityAnswer>,
    /// Answers of `check`.
    checks: Option<Vec<Check>>,
    #[serde(flatten)]
    explain: Option<ExplainAnswer>,
    #[serde(flatten)]
    region: Option<RegionAnswer>,
    #[serde(flatten)]
    vgpu: Option<VgpuAnswer>,
    #[serde(flatten)]
    repair: Option<RepairAnswer>,
    #[serde(flatten)]
    repairs: Option<RepairsAnswer>,
    #[serde(flatten)]
    journals: Option<JournalsAnswer>,
    #[serde(flatten)]
    doctor: Option<DoctorAnswer>,
    #[serde(flatten)]
    diff: Option<DiffAnswer>,
    #[serde(flatten)]
    compact: Option<CompactAnswer>,
    #[serde(flatten)]
    matrix: Option<MatrixAnswer>,
    #[serde(flatten)]
    fleet: Option<FleetAnswer>,
    #[serde(flatten)]
    page: Option<PageAnswer>,
    #[serde(flatten)]
    jobs: Option<JobsAnswer>,
    #[serde(flatten)]
    audit: Option<AuditAnswer>,
    #[serde(flatten)]
    node: Option<NodeAnswer>,
}

/// Make sure that the committed schemas are those of the types.
#[test]
fn schemas() {
    for (file, of, schema) in [
        ("gpumap-1", "document", schema_for!(Document<AnyAnswer>)),
        ("gpumap-1.events", "events", schema_for!(Event)),
        ("gpumap.observation-1", "observation", schema_for!(Observation)),
    ] {
        let path = man_dir().join(format!("{file}.schema.json"));
        current(&path, format!("{}\n", serde_json::to_string_pretty(&schema).unwrap()).as_bytes());
        // A program that was built before the files were written anew has the old ones.
        if std::env::var_os("BLESS").is_none() {
            current(&path, &gpumap(&["schema", of]));
        }
    }
}

fn committed_schema(name: &str) -> serde_json::Value {
    document(&format!("man/{name}.schema.json")).parse().unwrap()
}

/// Make sure that gpumap-vgpu(1) says of every reason for a verdict what it means.
#[test]
fn reasons_of_limits() {
    let schema = committed_schema("gpumap-1");
    let codes = schema["$defs"]["LimitCode"]["oneOf"].as_array().unwrap();
    let page = document("man/gpumap-vgpu.1");
    for code in codes.iter().map(|code| code["const"].as_str().unwrap()) {
        let name = code.replace('-', "\\-");
        let is_it =
            |line: &str| line.starts_with(".B") && line.split([' ', '"', ',']).any(|word| word == name);
        assert!(page.lines().any(is_it), "{code}");
    }
    assert!(codes.len() > 25);
}

/// Make sure that gpumap-watch(1) describes every kind of event that the schema
/// has.
#[test]
fn events() {
    let schema = committed_schema("gpumap-1.events");
    let kinds = schema["$defs"]["EventKind"]["oneOf"].as_array().unwrap();
    let page = document("man/gpumap-watch.1");
    let (_, page) = page.split_once(".SH EVENTS").unwrap();
    assert!(kinds.len() >= 14, "{kinds:?}");
    for kind in kinds.iter().map(|kind| kind["const"].as_str().unwrap()) {
        let is_described =
            |line: &str| line.starts_with(".B") && line.split([' ', '"', ',']).any(|word| word == kind);
        assert!(page.lines().any(is_described), "{kind} is not described");
    }
}

/// Make sure that every test that the threat model names exists.
#[test]
fn threat_model() {
    let page = document("docs/threat-model.md");
    let named: Vec<(&str, &str)> =
        page.split('`').skip(1).step_by(2).filter_map(|code| code.rsplit_once("::")).collect();
    assert!(named.len() > 40, "{named:?}");
    for (module, test) in named {
        let path = root().join("tests").join(module.replace("::", "/"));
        let text = fs::read_to_string(path.with_extension("rs"))
            .or_else(|_| fs::read_to_string(path.join("mod.rs")));
        let text = text.unwrap_or_default();
        assert!(text.contains(&format!("#[test]\nfn {test}()")), "{module}::{test}");
    }
    let unit = document("src/commands/tests.rs");
    for test in ["a_panic_is_a_failure", "a_document_that_is_out_stays_as_it_is"] {
        assert!(page.contains(test) && unit.contains(&format!("fn {test}()")), "{test}");
    }
}
