//! Full documents, and pages of them.

use serde_json::{Value, json};

use crate::fleet::tests::{NOW, named, node};
use crate::fleet::{FleetQuestion, Gatherer, Stream, page};

/// A full document of a node with a job that was seen to hold a GPU.
fn full(name: &str, job: u32, change: impl FnOnce(&mut Value)) -> Value {
    let key = format!("{name}-0");
    let all = json!({ "gpus": [key] });
    let mut document = json!({
        "schema": "gpumap/1", "command": "node", "version": "0.1.0", "taken_at": NOW,
        "host": { "name": name, "kernel": "6.1", "cgroup_mode": "unified" }, "complete": true, "errors": [],
        "gpus": [{ "key": key, "vendor": "nvidia", "model": "H200", "minor": 0, "nvml_index": 0 }],
        "owners": [
            { "owner": { "kind": "slurm", "job_id": job, "job_id_source": "path" }, "depth": 0, "processes": 1,
              "allocated": all, "allowed": all, "visible": all, "held": all },
            { "owner": { "kind": "slurm", "job_id": job, "step": "0" }, "depth": 1, "processes": 1,
              "allocated": { "gpus": null }, "allowed": all, "visible": all, "held": all },
        ],
    });
    change(&mut document);
    document
}

/// The page over the lines of one input.
fn paged(lines: &[String]) -> crate::report::FleetPage {
    let mut gatherer = Gatherer::for_page();
    let (mut stream, mut sink) = (Stream::default(), gatherer.input("-"));
    stream.push(lines.concat().as_bytes(), &mut sink);
    stream.finish(&mut sink);
    sink.finish();
    page(gatherer, &FleetQuestion::default()).0
}

/// Make sure that the section of a node whose sets a page cannot read says so in words of
/// its own, and that no node has what another one or an older document of it says.
#[test]
fn sections_are_of_their_nodes() {
    let broken = |name: &str, job| full(name, job, |it| it["owners"][1]["visible"] = "all".into());
    let older = full("n2", 20, |it| it["taken_at"] = "2026-11-22T01:00:00Z".into());
    let lines =
        [older, full("n1", 11, |_| {}), broken("n2", 22), full("n3", 33, |_| {}), node("n4", NOW, |_| {})];
    let mut lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    for _turn in 0..lines.len() {
        let page = paged(&lines);
        let told = |name: &str| {
            let section = page.nodes.iter().find(|node| node.name == name).unwrap();
            let owners = section.owners.clone().unwrap_or_default();
            (owners.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), section.cuts.clone())
        };
        assert_eq!(told("n1"), (vec!["slurm job 11".to_owned(), "step 0".to_owned()], vec![]));
        assert_eq!(told("n3"), (vec!["slurm job 33".to_owned(), "step 0".to_owned()], vec![]));
        assert_eq!(told("n4"), (vec!["slurm job 7".to_owned(), "step 0".to_owned()], vec![]));
        let (rows, cuts) = told("n2");
        assert_eq!((rows.len(), cuts.len(), cuts[0].count), (0, 1, 1));
        assert!(cuts[0].instead.starts_with("gpumap cannot read the sets of its owners"), "{cuts:?}");
        assert_eq!((page.fleet.jobs.all, page.fleet.nodes.incomplete.count), (4, 0));
        lines.rotate_left(1);
    }
}

/// Make sure that a report and a page read the same of the owners of a full document: the
/// page each, the report those outside of others, wherever the depth stands.
#[test]
fn owners_of_both_readings() {
    let text = full("n1", 7, |it| {
        let inner = it["owners"][1].clone();
        it["owners"].as_array_mut().unwrap().push(inner);
        it["owners"][2]["depth"] = 0.into();
        it["owners"][2]["owner"] = json!({ "kind": "slurm", "job_id": 8, "job_id_source": "path" });
    });
    // Keys are sorted here: `allowed` stands before `depth`.
    let page = paged(&[text.to_string()]);
    let owners = page.nodes[0].owners.clone().unwrap();
    let names: Vec<&str> = owners.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["slurm job 7", "step 0", "slurm job 8"]);
    assert_eq!((page.fleet.jobs.all, owners.rows[2].held.gpus.as_deref()), (2, Some("0")));
    let twice = text.to_string().replacen("\"depth\":0", "\"depth\":1,\"depth\":0", 1);
    let (fleet, problems) = named(&[("-", twice)], &FleetQuestion::default());
    assert!(fleet.documents == 0 && problems[0].contains("stands there twice"), "{problems:?}");
}
