//! Streams and gathering, with documents that are made here.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::GrantComparison;
use crate::report::Fleet;

/// Everything that a stream says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    documents: Vec<(Option<String>, String)>,
    others: Vec<String>,
}

impl Sink for Heard {
    fn try_document(&mut self, place: InputPosition<'_>, bytes: &[u8]) -> bool {
        let whole = serde_json::from_slice::<Value>(bytes).is_ok();
        if whole {
            self.document(place, bytes);
        }
        whole
    }

    fn document(&mut self, place: InputPosition<'_>, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.documents.push((place.label.map(str::to_owned), text));
    }

    fn other(&mut self, place: InputPosition<'_>, why: Other<'_>) {
        self.others.push(format!("{} {:?} {why:?}", place.line, place.label));
    }
}

/// What a stream says of bytes that come `step` at a time.
fn heard(bytes: &[u8], step: usize) -> Heard {
    let (mut stream, mut heard) = (Stream::default(), Heard::default());
    bytes.chunks(step).for_each(|piece| stream.push(piece, &mut heard));
    stream.finish(&mut heard);
    heard
}

fn plain(texts: &[&str]) -> Vec<(Option<String>, String)> {
    texts.iter().map(|text| (None, (*text).to_owned())).collect()
}

/// Make sure that documents are found in every form, however their bytes come.
#[test]
fn forms() {
    for (text, expected) in [
        ("{\"a\":1}\n{\"b\":2}\n", &["{\"a\":1}", "{\"b\":2}"][..]),
        ("{\"a\":1}{\"b\":\"}\"} {}", &["{\"a\":1}", "{\"b\":\"}\"}", "{}"]),
        ("{\n  \"a\": [\n 1\n]\n}\n\n{\n}\n", &["{\n  \"a\": [\n 1\n]\n}", "{\n}"]),
        ("\r\n{\"a\":1}\r\n", &["{\"a\":1}"]),
        ("{\"a\":{}\n,\"b\":{}}\n{\"c\":1}", &["{\"a\":{}\n,\"b\":{}}", "{\"c\":1}"]),
        ("---------------\nn[1-2] (2)\n---------------\n{\"a\":1}\n", &["{\"a\":1}"]),
        ("", &[]),
    ] {
        for step in [1, 2, 7, 1000] {
            let found = heard(text.as_bytes(), step);
            assert_eq!((found.documents, found.others), (plain(expected), Vec::new()), "{text} by {step}");
        }
    }
}

/// Make sure that what is broken is told and does not hide what follows.
#[test]
fn broken() {
    let whole = "{\"schema\":\"gpumap/1\"}";
    for (text, others) in [
        (format!("{{\"schema\":\"x\",\"a\":[\n{whole}\n"), 0),
        (format!("{{\"schema\":\"never ends\n{whole}\n"), 0),
        (format!("{{\n  \"a\": [\n{whole}\n"), 0),
        (format!("bash: gpumap: command not found\n{whole}\n"), 1),
        (format!("no document at all\n{whole}\n"), 1),
        (format!("{whole} and more\n"), 1),
        (format!("-----\nabc\n-----\nnot JSON\n{whole}\n"), 1),
    ] {
        let found = heard(text.as_bytes(), 3);
        assert!(found.documents.iter().any(|(_, text)| text == whole), "{text}: {found:?}");
        assert_eq!(found.others.len(), others, "{text}: {found:?}");
    }
}

/// Make sure that a line without an end, and many documents in one, take memory and
/// time in proportion.
#[test]
fn long_lines() {
    let many = "{\"a\":1}".repeat(2_000_000);
    assert_eq!(heard(many.as_bytes(), 1 << 16).documents.len(), 2_000_000);
    let long = format!("{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(LONGEST_DOCUMENT + 10));
    let found = heard(long.as_bytes(), 1 << 20);
    assert_eq!((found.documents.len(), found.others.len()), (1, 1), "{:?}", found.others);
}

/// A compact document of a node.
pub(super) fn node(name: &str, taken_at: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "schema": "gpumap/1", "command": "node", "version": "0.1.0", "taken_at": taken_at,
        "host": { "name": name, "kernel": "6.1", "boot_id": "b", "cgroup_root": "/", "cgroup_mode": "unified" },
        "complete": true, "errors": [],
        "compact": {
            "gpus": [{ "key": format!("{name}-0"), "model": "H200", "nvml": 0 },
                     { "key": format!("{name}-1"), "model": "H200", "nvml": 1 }],
            "owners": {
                "owner": ["slurm job 7", "step 0"], "depth": [0, 1], "processes": [1, 1],
                "allocated": [null, null], "allowed": ["3", "3"], "asked": ["3", "3"], "held": ["0", "0"],
                "denied": [null, null],
            },
            "other_owners": 3, "drivers": { "nvidia": "580.65.06" }, "gres_conf": "aa",
            "programs": { "slurm": ["Slurm, 28 instructions; else allow"] },
        },
    });
    change(&mut document);
    document
}

fn audit(name: &str, job: u32, severity: &str) -> Value {
    json!({
        "schema": "gpumap/1", "command": "audit", "version": "0.1.0", "taken_at": "2026-11-23T01:00:00Z",
        "host": { "name": name, "kernel": "6.1", "boot_id": "b", "cgroup_root": "/", "cgroup_mode": "unified" },
        "complete": true, "errors": [], "audit": { "options": {} },
        "findings": [{ "id": "unconstrained", "severity": severity, "fingerprint": format!("{job:016x}"),
            "summary": format!("slurm job {job} may open any GPU"), "owner": { "kind": "slurm" } }],
    })
}

pub(super) const NOW: &str = "2026-11-23T01:00:00Z";

pub(super) fn asked(documents: &[Value], question: &FleetQuestion) -> (Fleet, Vec<String>) {
    let mut gatherer = Gatherer::default();
    for (index, document) in documents.iter().enumerate() {
        let (mut stream, name) = (Stream::default(), format!("file {index}"));
        let mut sink = gatherer.input(&name);
        stream.push(document.to_string().as_bytes(), &mut sink);
        stream.finish(&mut sink);
    }
    let (fleet, problems) = report(gatherer, question);
    (fleet, problems.into_iter().map(|problem| format!("{}: {}", problem.what, problem.why)).collect())
}

pub(super) fn of(documents: &[Value]) -> (Fleet, Vec<String>) {
    asked(documents, &FleetQuestion::default())
}

/// A whole document of a node with one policy of an id that says nothing.
pub(super) fn whole(name: &str, default: &str) -> Value {
    let mut document = node(name, NOW, |_| {});
    document.as_object_mut().unwrap().remove("compact");
    let id = "inexact-000000000000000000000000";
    document["owners"] = json!([]);
    document["policies"] =
        json!({ id: { "id": id, "default": default, "exact": false, "rules": [], "unknown": [] } });
    document["programs"] =
        json!({ "9": { "id": 9, "name": "", "tag": "", "insns": 5, "maps": [], "policy": id } });
    document["cgroups"] = json!([{
        "path": "/job", "id": 5, "policy": id, "gpus": [], "processes": [],
        "owner": { "kind": "slurm", "job_id": 7 },
        "programs": [{ "id": 9, "attached_at": "/job", "flags": [] }],
    }]);
    document
}

/// Make sure that what an id of one node stands for is not taken from another node.
#[test]
fn ids_are_of_one_node() {
    for (other, values) in [("allow", 1), ("deny", 2), ("unknown", 2)] {
        let (fleet, problems) = of(&[whole("n1", "allow"), whole("n2", other), whole("n3", "allow")]);
        assert!(problems.is_empty(), "{problems:?}");
        let programs = fleet.drift.iter().find(|drift| drift.what == "programs of slurm").unwrap();
        assert_eq!(programs.values.len(), values, "{other}: {programs:?}");
    }
}

/// Make sure that one document of a node has its state and its findings.
#[test]
fn node_with_findings() {
    let mut both = node("n1", NOW, |_| {});
    let found = audit("n1", 7, "critical");
    (both["findings"], both["audit"]) = (found["findings"].clone(), found["audit"].clone());
    let (fleet, problems) = of(&[both]);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!((fleet.nodes.not_audited.count, fleet.nodes.only_audited.count), (0, 0));
    assert_eq!((fleet.jobs.all, fleet.counts.critical, fleet.documents), (1, 1, 1));
}

/// Make sure that alike findings are one, that the baseline leaves out what it had
/// and nothing else, and that severity decides.
#[test]
fn findings() {
    let all = [audit("n1", 11, "warning"), audit("n2", 12, "warning"), audit("n3", 13, "critical")];
    let (fleet, _) = of(&all);
    let told: Vec<_> =
        fleet.findings.iter().map(|it| (it.severity.to_string(), it.count, it.on.nodes.as_str())).collect();
    assert_eq!(told, [("critical".to_owned(), 1, "n3"), ("warning".to_owned(), 2, "n[1-2]")]);
    assert_eq!((fleet.counts.critical, fleet.counts.warning, fleet.failed), (1, 2, true));
    assert_eq!(fleet.findings[1].example, "slurm job 11 may open any GPU");
    let document = json!({ "schema": "gpumap/1", "fleet": fleet }).to_string();
    let baseline = || Baseline::read(document.as_bytes()).unwrap();
    let question = FleetQuestion { baseline: baseline(), ..FleetQuestion::default() };
    let (same, _) = asked(&all, &question);
    assert_eq!((same.findings.len(), same.known, same.gone, same.failed), (0, 3, 0, false));
    let (other, _) = asked(&[audit("n1", 21, "warning"), audit("n2", 12, "warning")], &question);
    assert_eq!((other.findings[0].on.nodes.as_str(), other.known, other.gone), ("n1", 1, 1));
    assert!(Baseline::read(b"{\"schema\":\"gpumap/1\"}").is_err() && Baseline::read(b"x").is_err());
}

/// Make sure that a finding about several devices is known to a baseline device by device, and
/// as a whole to one of an earlier gpumap.
#[test]
fn joined_findings() {
    let about = |devices: &[&str]| {
        let mut document = audit("n1", 11, "warning");
        document["findings"][0]["device_fingerprints"] = json!(devices);
        document["findings"][0]["fingerprint"] = format!("{:016x}", devices.len()).into();
        document
    };
    let (one, two, three) = ("00000000000000a1", "00000000000000a2", "00000000000000a3");
    let (fleet, _) = of(&[about(&[one, two])]);
    assert_eq!(fleet.counts.warning, 1);
    let known = |prints: &[&str]| {
        let mut fleet = serde_json::to_value(&fleet).unwrap();
        fleet["fingerprints"]["n1"] = json!(prints);
        let document = json!({ "schema": "gpumap/1", "fleet": fleet }).to_string();
        let baseline = Baseline::read(document.as_bytes()).unwrap();
        FleetQuestion { baseline, ..FleetQuestion::default() }
    };
    let counts = |devices: &[&str], prints: &[&str]| {
        let (fleet, _) = asked(&[about(devices)], &known(prints));
        (fleet.findings.len(), fleet.known, fleet.gone)
    };
    assert_eq!(counts(&[one, two], &[one, two]), (0, 1, 0));
    assert_eq!(counts(&[one], &[one, two]), (0, 1, 1), "one device is mended");
    assert_eq!(counts(&[one, two, three], &[one, two]), (1, 0, 0), "a device is new");
    assert_eq!(counts(&[one, two], &["0000000000000002"]), (0, 1, 0), "known as a whole");
}

/// Make sure that missing nodes, strangers, old answers and gaps are told.
#[test]
fn who_answered() {
    let broken = node("n2.site", "2026-11-23T03:00:00Z", |it| {
        it["complete"] = false.into();
        it["errors"] =
            json!([{ "code": "no-right", "what": "program 3", "why": "not allowed", "needs": "root" }]);
    });
    let old = node("n1", "2026-11-22T01:00:00Z", |it| it["version"] = "0.0.1".into());
    let documents = [old, node("n1", NOW, |_| {}), broken, node("x9", NOW, |_| {})];
    let expected = Some(["n1", "n2", "n3"].map(str::to_owned).to_vec());
    let (fleet, problems) = asked(&documents, &FleetQuestion { expected, ..FleetQuestion::default() });
    let nodes = &fleet.nodes;
    assert_eq!(nodes.missing.as_ref().unwrap().nodes, "n3");
    assert_eq!((nodes.unexpected.nodes.as_str(), nodes.incomplete.nodes.as_str()), ("x9", "n2.site"));
    assert_eq!((nodes.repeated.nodes.as_str(), nodes.not_audited.count), ("n1", 3));
    assert!(problems.contains(&"n3: did not answer".to_owned()), "{problems:?}");
    assert!(problems[0].starts_with("n1: several files or labels") && problems.len() == 2, "{problems:?}");
    assert_eq!(
        (fleet.problems[0].code.as_str(), fleet.problems[0].example.as_str()),
        ("no-right", "program 3: not allowed")
    );
    assert_eq!(fleet.times.unwrap().apart.nodes, "n2.site");
    assert!(fleet.drift.iter().all(|drift| drift.values.len() == 1), "the old answer counts");
}

/// The report over inputs with names, and what it tells.
pub(super) fn named(inputs: &[(&str, String)], question: &FleetQuestion) -> (Fleet, Vec<String>) {
    let mut gatherer = Gatherer::default();
    for (name, text) in inputs {
        let (mut stream, mut sink) = (Stream::default(), gatherer.input(name));
        stream.push(text.as_bytes(), &mut sink);
        stream.finish(&mut sink);
        sink.finish();
    }
    let (fleet, problems) = report(gatherer, question);
    (fleet, problems.into_iter().map(|problem| format!("{}: {}", problem.what, problem.why)).collect())
}

/// Make sure that a node that says that it is another one is told, whatever its answer
/// came as, and does not replace the other one's.
#[test]
fn impostors() {
    let later = "2026-11-23T01:05:00Z";
    let honest = node("n2", NOW, |_| {}).to_string();
    let liar = node("n2", later, |it| it["host"]["kernel"] = "6.66".into()).to_string();
    let other = node("n1", NOW, |_| {}).to_string();
    let expected = || FleetQuestion {
        expected: Some(vec!["n1".to_owned(), "n2".to_owned()]),
        ..FleetQuestion::default()
    };
    let labelled = |lines: &[(&str, &String)]| {
        lines.iter().map(|(label, text)| format!("{label}: {text}\n")).collect::<String>()
    };
    let lie = "n1: what came under this name says that it is n2";
    for (inputs, question, told) in [
        (
            vec![("d/n1.json", liar.clone()), ("d/n2.json", honest.clone())],
            expected(),
            &[lie, "n1: did not answer"][..],
        ),
        (
            vec![("-", labelled(&[("n2", &honest), ("n1", &liar)]))],
            expected(),
            &[
                "-, label n1, line 2: it says that it is n2, as what came under the label n2 does",
                lie,
                "n1: did not answer",
            ],
        ),
        (
            vec![("d/n2.json.gz", honest.clone()), ("d/n1.json", format!("{other}\n{liar}"))],
            FleetQuestion::default(),
            &[lie],
        ),
    ] {
        for inputs in [inputs.clone(), inputs.into_iter().rev().collect()] {
            let (fleet, problems) = named(&inputs, &question);
            assert_eq!(problems, told, "{inputs:?}");
            let kernel = fleet.drift.iter().find(|drift| drift.what == "kernel").unwrap();
            assert!(kernel.values.iter().all(|value| value.value == "6.1"), "{kernel:?}");
        }
    }
    // Nothing else is known of n2: what was said is kept, and told.
    let (fleet, problems) = named(&[("n1.json", liar.clone())], &expected());
    assert_eq!((fleet.nodes.answered.nodes.as_str(), &problems[0][..]), ("n2", lie));
    // Tasks of srun have numbers.
    let (_, problems) = named(&[("-", labelled(&[("0", &honest), ("1", &liar)]))], &FleetQuestion::default());
    assert_eq!(
        problems,
        [
            "-, label 1, line 2: it says that it is n2, as what came under the label 0 does",
            "n2: several files or labels say that they are this node: the newest counts"
        ]
    );
}

/// Make sure that names of files that are no nodes, aliases and domains are no contradictions,
/// and that several files or labels of one node are told: what has the node's name counts.
#[test]
fn aliases() {
    let later = node("n2", "2026-11-23T01:05:00Z", |it| it["host"]["kernel"] = "6.2".into()).to_string();
    let all: String =
        ["n1", "n2", "n3"].iter().map(|name| format!("{}\n", node(name, NOW, |_| {}))).collect();
    for inputs in [
        vec![("monday.ndjson", all.clone()), ("tuesday.json", later.clone())],
        vec![("-", all.clone()), ("n2.json", later.clone())],
        vec![("n2.site.org.json", later.clone()), ("all.txt", all.clone())],
        vec![("-", format!("{all}rack7: {later}\n"))],
    ] {
        let (fleet, problems) = named(&inputs, &FleetQuestion::default());
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.starts_with("n2: several files or labels say that they are this node"), "{problem}");
        assert_eq!(fleet.nodes.answered.nodes.as_str(), "n[1-3]");
        let kernel = fleet.drift.iter().find(|drift| drift.what == "kernel").unwrap();
        let newest = kernel.values.iter().find(|value| value.value == "6.2").unwrap();
        assert_eq!((newest.on.nodes.as_str(), fleet.nodes.repeated.nodes.as_str()), ("n2", "n2"));
    }
}

/// Make sure that jobs of different clusters are different jobs, and those of nodes
/// that name none are alike with all where there is one cluster.
#[test]
fn clusters() {
    let of = |name: &str, cluster: Option<&str>, allowed: &str| {
        node(name, NOW, |it| {
            it["host"]["slurm_cluster"] = cluster.into();
            it["compact"]["owners"]["allowed"][0] = allowed.into();
        })
    };
    let (one, two) = (Some("alpha"), Some("beta"));
    let (fleet, _) =
        asked(&[of("n1", one, "3"), of("n2", None, "3"), of("n3", one, "1")], &FleetQuestion::default());
    assert_eq!((fleet.jobs.all, fleet.jobs.differing[0].job.as_str()), (1, "slurm job 7"));
    let all = [of("n1", one, "3"), of("n2", two, "1"), of("n3", one, "3"), of("n4", None, "1")];
    let (fleet, _) = asked(&all, &FleetQuestion::default());
    assert_eq!((fleet.jobs.all, fleet.jobs.several, fleet.jobs.differing.len()), (3, 1, 0));
    let (fleet, _) =
        asked(&[of("n1", one, "3"), of("n2", two, "1"), of("n3", one, "1")], &FleetQuestion::default());
    assert_eq!(fleet.jobs.differing[0].job, "slurm job 7 of cluster alpha");
}

/// Make sure that what hostile nodes make up takes no more memory than there is room
/// for, and that it is said what was left out.
#[test]
fn room() {
    let mut gatherer = Gatherer::default();
    let mut text = String::new();
    for index in 0..6000 {
        let change = |it: &mut Value| it["host"]["kernel"] = format!("{index}{}", "k".repeat(190)).into();
        text.push_str(&format!("{}\n", node("n1", NOW, change)));
    }
    let (mut stream, mut sink) = (Stream::default(), gatherer.input("-"));
    stream.push(text.as_bytes(), &mut sink);
    sink.finish();
    let (fleet, problems) = report(gatherer, &FleetQuestion::default());
    assert!((3000..4500).contains(&fleet.documents), "{}", fleet.documents);
    assert!(problems.len() < 300 && problems[0].why.contains("no room for it"), "{:?}", problems[0]);
    let wide = |key: &str| format!("{{\"schema\":\"gpumap/1\",\"command\":\"node\",{key}}}");
    for (document, why) in [
        (
            wide(&format!(
                "\"compact\":{{\"gpus\":[],\"owners\":{{\"owner\":[{}\"\"]}}}}",
                "\"\",".repeat(70_000)
            )),
            "a list of more than 65536",
        ),
        (
            wide(&format!(
                "\"compact\":{{\"drivers\":{{{}\"x\":\"\"}}}}",
                (0..300).map(|i| format!("\"{i}\":\"\",")).collect::<String>()
            )),
            "an object of more than 256 keys",
        ),
        (
            wide(&format!(
                "\"policies\":{{{}\"x\":{{}}}}",
                (0..300_000).map(|i| format!("\"{i}\":{{}},")).collect::<String>()
            )),
            "an object of more than 262144 keys",
        ),
    ] {
        let (_, problems) = named(&[("-", document)], &FleetQuestion::default());
        assert!(problems[0].contains(why), "{problems:?}");
    }
}

/// Make sure that hostile documents are refused one by one, with the reason.
#[test]
fn hostile() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 12] = [
        (|it| it["host"]["name"] = "n1\u{1b}[2J".into(), "is no name of a node"),
        (|it| it["host"]["name"] = "n[1-9]".into(), "is no name of a node"),
        (|it| it["host"]["name"] = "".into(), "is no name of a node"),
        (|it| it["host"]["name"] = "n".repeat(65).into(), "is no name of a node"),
        (|it| it["taken_at"] = "yesterday".into(), "does not say when"),
        (|it| it["compact"]["owners"]["depth"] = json!([0]), "not of one length"),
        (|it| it["compact"]["owners"]["allowed"][0] = "ff".into(), "no mask"),
        (|it| it["compact"]["owners"]["allowed"][0] = "-1".into(), "no mask"),
        (|it| it["compact"]["gpus"] = json!({}), "broken"),
        (|it| it["schema"] = "gpumap/2".into(), "gpumap/2"),
        (|it| it["command"] = "job".into(), "fleet reads those of node and audit"),
        (|it| it["compact"] = Value::Null, "fleet reads those of node and audit"),
    ];
    for (change, why) in changes {
        let (fleet, problems) = of(&[node("bad", NOW, change), node("good", NOW, |_| {})]);
        assert_eq!(fleet.nodes.answered.nodes, "good");
        assert!(problems.len() == 1 && problems[0].contains(why), "{problems:?}");
        assert!(problems[0].starts_with("file 0, line 1: ") && problems[0].len() < 400, "{problems:?}");
    }
    let deep = format!(
        "{{\"schema\":\"gpumap/1\",\"command\":\"node\",\"x\":{}1{}}}",
        "[".repeat(500_000),
        "]".repeat(500_000)
    );
    let mut gatherer = Gatherer::default();
    let (mut stream, mut sink) = (Stream::default(), gatherer.input("deep"));
    stream.push(deep.as_bytes(), &mut sink);
    stream.finish(&mut sink);
    assert_eq!(report(gatherer, &FleetQuestion::default()).1.len(), 2);
    let partial = {
        let mut it = audit("n1", 1, "note");
        it["audit"]["options"]["paths"] = json!(["/a"]);
        it
    };
    assert!(of(&[partial]).1[0].contains("part of the node"));
}

/// Make sure that a node that names a job again and again has no more weight than others:
/// what most nodes have is usual.
#[test]
fn repeated_jobs() {
    let liar = node("n1", NOW, |it| {
        let owners = &mut it["compact"]["owners"];
        for (column, value) in [("owner", json!("slurm job 7")), ("depth", json!(0)), ("allowed", json!("1"))]
        {
            owners[column] = vec![value; 50].into();
        }
        for column in ["allocated", "denied"] {
            owners[column] = vec![Value::Null; 50].into();
        }
    });
    let (fleet, _) = of(&[liar, node("n2", NOW, |_| {}), node("n3", NOW, |_| {})]);
    let grants = &fleet.jobs.differing[0].grants;
    assert_eq!((grants[0].gpus.as_str(), &grants[0].compared), ("2 H200", &GrantComparison::Same));
    assert_eq!((grants[1].gpus.as_str(), grants[1].on.count), ("1 H200", 1));
}

/// Make sure that few bytes cannot make many: sets of a thousand models with long names,
/// each set another one, and jobs of nodes that nobody has.
#[test]
fn small_documents_stay_small() {
    let crowd = |gpus: usize, owners: usize| {
        node("n1", NOW, |it| {
            let gpu =
                |at: usize| json!({ "key": at.to_string(), "model": format!("{at}{}", "m".repeat(190)) });
            let mask = |at: usize| format!("{:0>256}", format!("{:x}", (at + 1) * 0x1_0001_0001));
            let columns = &mut it["compact"];
            columns["gpus"] = (0..gpus).map(gpu).collect();
            columns["owners"]["owner"] = (0..owners).map(|at| format!("slurm job {at}")).collect();
            columns["owners"]["depth"] = vec![0; owners].into();
            columns["owners"]["allocated"] = vec![Value::Null; owners].into();
            columns["owners"]["allowed"] = (0..owners).map(mask).collect();
        })
    };
    let (_, problems) = of(&[crowd(1024, 10_000)]);
    assert!(problems[0].contains("more GPUs and owners than any node"), "{problems:?}");
    let mut gatherer = Gatherer::default();
    let (mut stream, mut sink) = (Stream::default(), gatherer.input("-"));
    stream.push(crowd(1024, 4_000).to_string().as_bytes(), &mut sink);
    stream.finish(&mut sink);
    assert!(gatherer.documents == 1 && gatherer.tables.bytes() < 4 << 20, "{}", gatherer.tables.bytes());
    let many = |name: usize| {
        node(&format!("n{name}"), NOW, |it| {
            let owners = &mut it["compact"]["owners"];
            owners["owner"] = vec!["slurm job 7"; 1000].into();
            owners["depth"] = vec![0; 1000].into();
            owners["allocated"] = vec![Value::Null; 1000].into();
            owners["allowed"] = vec![Value::Null; 1000].into();
        })
    };
    let all: Vec<Value> = (0..100).map(many).collect();
    let (fleet, problems) = of(&all);
    assert!(
        (20..60).contains(&fleet.documents) && problems[0].contains("no room for it"),
        "{}",
        fleet.documents
    );
}

proptest! {
    /// Make sure that the order of documents does not matter.
    #[test]
    fn order_does_not_matter(seed in prop::collection::vec((0_usize..5, 0_usize..4, 0_u32..4), 1..12), turn in 0_usize..12) {
        let times = [NOW, "2026-11-23T01:00:01Z", "2026-11-23T02:00:00Z", NOW];
        let mut documents: Vec<Value> = seed.iter().map(|(name, time, kind)| match kind {
            0 => audit(&format!("n{name}"), u32::try_from(*time).unwrap(), "warning"),
            kind => node(&format!("n{name}"), times[*time], |it| {
                it["host"]["kernel"] = format!("6.{kind}").into();
                it["compact"]["owners"]["allowed"][0] = kind.to_string().into();
            }),
        }).collect();
        let first = of(&documents);
        let turn = turn % documents.len();
        documents.rotate_left(turn);
        prop_assert_eq!(&of(&documents).0, &first.0);
        documents.reverse();
        prop_assert_eq!(&of(&documents).0, &first.0);
    }

    /// Make sure that labelled pieces give the same documents however they are cut
    /// and mixed.
    #[test]
    fn pieces_are_joined(cuts in prop::collection::vec(1_usize..400, 8..40), order in prop::collection::vec(0_usize..4, 64), step in 1_usize..5000) {
        let texts: Vec<String> = (0..4).map(|index| node(&format!("n{index}"), NOW, |_| {}).to_string()).collect();
        let mut left: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (mut lines, mut cuts, mut order) = (String::new(), cuts.into_iter().cycle(), order.into_iter().cycle());
        while left.iter().any(|text| !text.is_empty()) {
            let label = order.by_ref().take(64).find(|label| !left[*label].is_empty());
            let label = label.unwrap_or_else(|| left.iter().position(|text| !text.is_empty()).unwrap());
            let (piece, rest) = left[label].split_at(cuts.next().unwrap().min(left[label].len()));
            lines.push_str(&format!("{label}: {piece}\n"));
            left[label] = rest;
        }
        let mut found = heard(lines.as_bytes(), step);
        found.documents.sort();
        let expected: Vec<_> = texts.into_iter().enumerate().map(|(label, text)| (Some(label.to_string()), text)).collect();
        prop_assert_eq!(found, Heard { documents: expected, others: Vec::new() });
    }
}
