//! The page of `gpumap fleet --html`: from the whole down to a node, with hostile
//! documents, and with more nodes than it has room for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{ASK, fixtures, gpumap, scratch, sound, visits};
use crate::support::browser;
use crate::support::fleet::{compact, named};

/// Writes the page of what lies in a directory.
fn page(inputs: &Path, html: &Path, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gpumap"))
        .arg("fleet")
        .arg(inputs)
        .args(more)
        .arg("--html")
        .arg(html)
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(html).unwrap()
}

/// The page of all saved nodes, some of which have one name.
pub(super) fn saved_nodes(dir: &Path) -> PathBuf {
    let html = dir.join("fleet.html");
    page(&fixtures().join("nodes"), &html, &["--expect", "gpu[01-09]"]);
    html
}

/// Make sure that the page of a fleet is as sound as that of a node.
#[test]
fn opens() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("fleet");
    let html = saved_nodes(&dir);
    let jobs = visits(&html, None, ASK);
    for (visit, job) in browser::visit(&dir, &jobs).iter().zip(&jobs) {
        sound(visit, &job.to_string());
    }
}

/// Five nodes: saved ones with findings and without, as snapshots, full documents and
/// compact ones.
fn five(dir: &Path) -> PathBuf {
    let inputs = dir.join("nodes");
    fs::create_dir(&inputs).unwrap();
    let save = |name: &str, bytes: &[u8]| fs::write(inputs.join(name), bytes).unwrap();
    let saved = |name: &str, host: &str| -> Value {
        let text = fs::read(fixtures().join(format!("nodes/{name}.json"))).unwrap();
        let mut node: Value = serde_json::from_slice(&text).unwrap();
        node["host"]["name"] = host.into();
        node
    };
    let scratch = dir.join("node.json");
    let answer = |node: &Value, args: &[&str]| -> Vec<u8> {
        fs::write(&scratch, node.to_string()).unwrap();
        gpumap(&scratch, args).stdout
    };
    let (shell, jobs) = (saved("slurm-runc-in-job", "gpu11"), saved("slurm-jobs", "gpu12"));
    save("gpu11.json", shell.to_string().as_bytes());
    save("gpu12.json", &answer(&jobs, &["node", "--json"]));
    save("gpu12-audit.json", &answer(&jobs, &["audit", "--json"]));
    save("gpu13.json", &answer(&named("gpu13"), &["node", "--json", "--compact"]));
    save("gpu14.json", &answer(&named("gpu14"), &["audit", "--json"]));
    save("gpu15.json", saved("hami-containers", "gpu15").to_string().as_bytes());
    inputs
}

/// What the page says of each node: its name, the words of its rows, its findings.
const NODES: &str = r#"(() => Array.from(document.querySelectorAll("details.node")).map((node) => ({
  name: node.querySelector("summary .question").textContent.trim(),
  id: node.querySelector(".inside").id,
  marks: Array.from(node.querySelectorAll("summary .pill")).map((one) => one.textContent.trim()),
  rows: Array.from(node.querySelectorAll(".owners tbody tr")).map((row) => Array.from(row.children).map((cell) => cell.textContent.trim())),
  findings: Array.from(node.querySelectorAll("ul.reasons .pill + .id")).map((one) => one.textContent),
  text: node.textContent,
})))()"#;

/// Make sure that a finding, a difference and a job lead to the section of their node, and
/// that the section says what the node's own documents say: each form of a document the
/// same.
#[test]
fn leads_to_nodes() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("fleet-nodes");
    let html = dir.join("fleet.html");
    page(&five(&dir), &html, &[]);
    let url = format!("file://{}", html.display());
    let follow = r##"(() => Array.from(document.querySelectorAll("#findings article, #drift li, #unknown li")).map((one) =>
      Array.from(one.querySelectorAll("a[href^='#n']")).map((link) => {
        const inside = document.getElementById(link.getAttribute("href").slice(1));
        return [link.textContent, inside.parentElement.querySelector(".question").textContent.trim(), one.querySelector(".id")?.textContent, inside.textContent];
      })).flat())()"##;
    let jobs = [json!({"url": url, "run": NODES}), json!({"url": url, "run": follow})];
    let told = browser::visit(&dir, &jobs);
    let nodes = told[0].value.as_array().unwrap();
    let of = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap();
    assert_eq!(nodes.len(), 5);
    let rows = |name: &str| of(name)["rows"].as_array().unwrap();
    assert_eq!((rows("gpu12").len(), rows("gpu12")), (rows("gpu13").len(), rows("gpu13")));
    let job = |name: &str| rows(name).iter().find(|row| row[0] == "slurm job 4712").unwrap();
    assert_eq!(job("gpu12")[2], job("gpu13")[2]);
    assert!(of("gpu14")["text"].as_str().unwrap().contains("an audit of this node alone"));
    assert_eq!(of("gpu13")["marks"], json!(["not audited"]));
    assert!(of("gpu11")["findings"].as_array().unwrap().contains(&"dropped-denials".into()));
    // The worst stand first, and those without a finding last.
    assert!(
        nodes[0]["marks"].as_array().unwrap().iter().any(|mark| mark.as_str().unwrap().contains("critical"))
    );

    let links = told[1].value.as_array().unwrap();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        assert_eq!(link[0], link[1]);
        if let Some(id) = link[2].as_str() {
            assert!(link[3].as_str().unwrap().contains(id), "{link}");
        }
    }
    // A link opens the section, also where scripts are off.
    let open = r#"(() => { const all = Array.from(document.querySelectorAll("details.node[open] .inside")); return all.map((one) => [one.id, Math.abs(one.getBoundingClientRect().top) < innerHeight]); })()"#;
    let at = format!("{url}#{}", of("gpu12")["id"].as_str().unwrap());
    let jobs = [true, false].map(|scripts| json!({"url": at, "scripts": scripts, "run": open}));
    for visit in browser::visit(&dir, &jobs) {
        assert_eq!(visit.value, json!([[of("gpu12")["id"], true]]));
    }
}

/// Make sure that hostile text of nodes stays text, in its place, at every width.
#[test]
fn hostile() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("fleet-hostile");
    let inputs = dir.join("nodes");
    fs::create_dir(&inputs).unwrap();
    let evil = [
        "<script>window.hit=1</script>",
        "\"><svg onload=window.hit=1>",
        "\u{202e}desrever\u{2066}\u{0}\u{1b}[2J",
        "</style></script><img src=x onerror=window.hit=1>",
    ];
    let long = "A".repeat(1 << 20);
    for (number, text) in evil.iter().copied().chain([long.as_str()]).enumerate() {
        let mut node: Value = serde_json::from_str(&compact(number, 2, "2026-11-20T10:00:00Z")).unwrap();
        let owners = &mut node["compact"]["owners"];
        owners["owner"][1] = text.into();
        owners["depth"][1] = 255.into();
        owners["processes"][1] = u64::MAX.into();
        owners["asked"][1] = text.into();
        owners["held"][1] = "ffffffffffffffff?ff".into();
        for key in ["kernel", "slurm_cluster"] {
            node["host"][key] = text.into();
        }
        node["compact"]["gpus"][0]["model"] = text.into();
        node["compact"]["drivers"] = json!({(text): text});
        node["complete"] = false.into();
        node["errors"] = json!([{"code": text, "what": text, "why": text, "needs": text}]);
        fs::write(inputs.join(format!("{number}-node.json")), node.to_string()).unwrap();
        let finding = json!({"id": text, "severity": "critical", "fingerprint": "0123456789abcdef", "summary": text,
            "cgroup": text, "advice": text});
        let audit = json!({"schema": "gpumap/1", "command": "audit", "version": text, "taken_at": "2026-11-20T10:00:00Z",
            "host": node["host"], "complete": true, "errors": [], "findings": [finding],
            "audit": {"options": {"paths": []}, "known_fingerprints": []}});
        fs::write(inputs.join(format!("{number}-audit.json")), audit.to_string()).unwrap();
    }
    let html = dir.join("fleet.html");
    let text = page(&inputs, &html, &[]);
    assert!(text.len() < 1 << 20, "{}", text.len());
    let mut jobs = visits(&html, None, ASK);
    for job in &mut jobs {
        job["run"] = format!("(() => {{ document.querySelectorAll('details').forEach((one) => {{ one.open = true; }}); return {ASK}; }})()").into();
    }
    jobs.push(json!({"url": format!("file://{}", html.display()), "run": NODES}));
    let told = browser::visit(&dir, &jobs);
    let (nodes, sections) = told.split_last().unwrap();
    for (visit, job) in sections.iter().zip(&jobs) {
        sound(visit, &job.to_string());
    }
    assert_eq!(nodes.value.as_array().unwrap().len(), evil.len() + 1);
}

/// Make sure that the page of many nodes stays small, that those with findings keep their
/// sections and jobs, and that it says what it has no room for: on the page and in the
/// section.
#[test]
fn many() {
    let dir = scratch("fleet-many");
    let inputs = dir.join("nodes");
    fs::create_dir(&inputs).unwrap();
    let all: String = (0..2_500).map(|node| compact(node, 12, "2026-11-20T10:00:00Z")).collect();
    fs::write(inputs.join("all.ndjson"), all).unwrap();
    let bad: Value =
        serde_json::from_slice(&fs::read(fixtures().join("nodes/slurm-runc-in-job.json")).unwrap()).unwrap();
    fs::write(inputs.join("bad.json"), bad.to_string()).unwrap();
    let html = dir.join("fleet.html");
    let text = page(&inputs, &html, &[]);
    println!("2,501 nodes: {} bytes", text.len());
    assert!(text.len() < 8 << 20, "{} bytes", text.len());
    assert!(text.contains("sections of nodes: <b>501</b>"));
    assert!(text.contains("steps, tasks and others inside of owners: <b>72</b>"));
    assert!(text.contains("owners and all inside of them: <b>12</b>"));
    let first = text.split("<details class=\"node\"").nth(1).unwrap();
    assert!(first.contains("dropped-denials") && first.contains("step batch"), "{first}");
}
