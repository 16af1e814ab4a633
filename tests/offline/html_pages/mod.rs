//! The pages of `gpumap report`, `audit --html` and `fleet --html`: their text with what
//! is stored, and what a real browser makes of them (chromium, nodejs, and axe-core from
//! npm's registry, which checks accessibility). Without these the tests say so and pass,
//! unless `GPUMAP_REQUIRE_ROOT=1`.

mod fleet;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

use crate::support::browser;

/// What is asked of every page: whether it is wider than the window, which links lead
/// nowhere, which ids stand twice, whether a name became markup, and how much it has.
const ASK: &str = r##"(() => {
  const all = (query) => Array.from(document.querySelectorAll(query));
  const ids = all("[id]").map((one) => one.id);
  const links = all("a[href^='#'], use").map((one) => one.getAttribute("href").slice(1));
  return {
    wide: document.documentElement.scrollWidth - innerWidth,
    dangling: links.filter((id) => !document.getElementById(id)),
    twice: ids.filter((id, at) => ids.indexOf(id) !== at),
    hit: typeof window.hit !== "undefined",
    foreign: all("script, img, iframe, object, embed, link, base, form").length,
    rows: all(".matrix tbody tr").length,
    cells: all(".matrix td a").length,
    proofs: all(".proof mark").length,
    drawings: all("svg.levels").length,
    direction: document.body.textContent.match(/[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/) !== null,
    heading: document.querySelector("h1").textContent.length,
  };
})()"##;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn nodes() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixtures().join("nodes")).unwrap().map(|entry| entry.unwrap().path());
    let mut nodes: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    nodes.sort();
    nodes
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("html-{name}"));
    let _left_of_another_run = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn gpumap(from: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpumap")).arg("--from").arg(from).args(args).output().unwrap()
}

/// Writes the page of a saved node.
fn page(from: &Path, to: &Path) -> String {
    let output = gpumap(from, &["report", "-o", to.to_str().unwrap()]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(to).unwrap()
}

/// The markup without style, script and the packed observation.
fn markup(page: &str) -> String {
    let cut = |text: &str, from: &str, to: &str| {
        let (before, rest) = text.split_once(from).unwrap();
        let (_, after) = rest.split_once(to).unwrap();
        format!("{before}{from}{to}{after}")
    };
    let text = cut(page, "<style>", "</style>");
    let text = cut(&text, "<script>", "</script>");
    let text = cut(&text, "style-src 'sha256-", "'; base-uri");
    let text = cut(&text, "data:application/gzip;base64,", "\"");
    // One element a line, so that differences can be read.
    text.replace("><", ">\n<") + "\n"
}

/// Make sure that the page of a small node is as committed, and that making it twice
/// gives the same bytes.
#[test]
fn golden() {
    let dir = scratch("golden");
    let node = fixtures().join("nodes/slurm-runc-in-job.json");
    let first = page(&node, &dir.join("a.html"));
    assert!(first == page(&node, &dir.join("b.html")));
    let expected = Data::read_from(&fixtures().join("report/slurm-runc-in-job.html"), Some(DataFormat::Text));
    assert_data_eq!(markup(&first), expected.raw());
}

/// Make sure that every command says of the page what it says of the saved node, and of
/// the packed observation too; and that a page without one is refused.
#[test]
fn evidence() {
    let dir = scratch("evidence");
    for node in nodes() {
        let html = dir.join("page.html");
        let text = page(&node, &html);
        for command in [&["node", "--json"][..], &["audit", "--json"]] {
            let (saved, again) = (gpumap(&node, command), gpumap(&html, command));
            assert!(saved.stdout == again.stdout, "{}: {command:?}", node.display());
            assert_eq!(saved.status.code(), again.status.code());
        }
        assert!(page(&html, &dir.join("again.html")) == text, "{}", node.display());
    }
    let broken = dir.join("broken.html");
    fs::write(&broken, "<!DOCTYPE html><title>x</title>").unwrap();
    let output = gpumap(&broken, &["node"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("an HTML file without an observation in it"), "{said}");
}

/// Make sure that `audit --html` writes the page with its findings and judges as
/// without it, and that only the owner may read the page.
#[test]
fn audit_writes_it_too() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = scratch("audit");
    let node = fixtures().join("nodes/slurm-runc-in-job.json");
    let html = dir.join("audit.html");
    let with = gpumap(&node, &["audit", "--html", html.to_str().unwrap()]);
    let without = gpumap(&node, &["audit"]);
    assert_eq!((with.status.code(), &with.stdout), (Some(1), &without.stdout));
    assert!(fs::read_to_string(&html).unwrap().contains("dropped-denials"));
    assert_eq!(fs::metadata(&html).unwrap().permissions().mode() & 0o777, 0o600);
}

/// One visit for each width and colour scheme.
fn visits(file: &Path, inject: Option<&Path>, run: &str) -> Vec<Value> {
    let mut jobs = Vec::new();
    for width in [360, 800, 1440] {
        for dark in [false, true] {
            let url = format!("file://{}", file.display());
            let mut job = json!({"url": url, "width": width, "height": 900, "dark": dark, "run": run});
            if let Some(inject) = inject {
                job["inject"] = inject.to_str().unwrap().into();
            }
            jobs.push(job);
        }
    }
    jobs
}

/// What holds of every page.
fn sound(visit: &browser::Visit, name: &str) {
    let value = &visit.value;
    assert!(visit.console.is_empty(), "{name}: {:?}", visit.console);
    let elsewhere: Vec<&String> = visit.requests.iter().filter(|url| !url.starts_with("file://")).collect();
    assert!(elsewhere.is_empty() && visit.requests.len() == 1, "{name}: {:?}", visit.requests);
    assert!(value["wide"].as_i64().unwrap() <= 0, "{name}: {value}");
    assert_eq!((&value["dangling"], &value["twice"]), (&json!([]), &json!([])), "{name}");
    assert_eq!((&value["hit"], &value["direction"]), (&json!(false), &json!(false)), "{name}");
    assert_eq!(value["foreign"], 1, "{name}: the page's own script alone");
}

/// Make sure that the page of every saved node opens at every width, light and dark, asks
/// for nothing, is never wider than the window, and that each of its links leads
/// somewhere.
#[test]
fn pages_open() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("open");
    let (mut jobs, mut names) = (Vec::new(), Vec::new());
    for node in nodes() {
        let html = dir.join(node.with_extension("html").file_name().unwrap());
        page(&node, &html);
        for job in visits(&html, None, ASK) {
            names.push(format!("{} {} {}", node.display(), job["width"], job["dark"]));
            jobs.push(job);
        }
    }
    let told = browser::visit(&dir, &jobs);
    let mut proofs = 0;
    for (visit, name) in told.iter().zip(&names) {
        sound(visit, name);
        proofs += visit.value["proofs"].as_u64().unwrap();
    }
    assert!(proofs > 0);
}

/// Make sure that from every cell a reader gets to the verdict, from there to a proof and
/// in it to the instruction that decides.
#[test]
fn cells_lead_to_instructions() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("follow");
    let html = dir.join("page.html");
    page(&fixtures().join("nodes/slurm-jobs.json"), &html);
    let follow = r##"(() => {
      const to = (link) => document.getElementById(link.getAttribute("href").slice(1));
      const cells = Array.from(document.querySelectorAll(".matrix td a"));
      return cells.map((cell) => {
        const verdict = to(cell);
        const column = verdict.cellIndex;
        const steps = Array.from(verdict.closest("table").querySelectorAll("a.step"))
          .filter((step) => step.closest("td").cellIndex === column);
        const proofs = steps.map(to);
        return {
          words: cell.getAttribute("aria-label"),
          verdict: verdict.textContent.trim(),
          decided: proofs.map((proof) => (proof.querySelector("mark") || { textContent: "" }).textContent),
        };
      });
    })()"##;
    let job = json!({"url": format!("file://{}", html.display()), "scripts": false, "run": follow});
    let told = browser::visit(&dir, &[job]);
    let cells = told[0].value.as_array().unwrap();
    assert_eq!(cells.len(), 22 * 4, "rows and GPUs");
    for cell in cells {
        let (words, verdict) = (cell["words"].as_str().unwrap(), cell["verdict"].as_str().unwrap());
        let says = |word: &str| words.split(". ").next().unwrap().split("; ").any(|one| one == word);
        let is_denied = says("denied");
        assert!(is_denied != says("allowed"), "{cell}");
        assert_eq!(verdict.contains("deny"), is_denied, "{cell}");
        let decided = cell["decided"].as_array().unwrap();
        assert!(!decided.is_empty(), "{cell}");
        assert!(decided.iter().all(|line| line.as_str().unwrap().contains("r0 = ")), "{cell}");
    }
}

/// Make sure that names that are markup, other directions, or a megabyte are text that
/// stays in its place.
#[test]
fn hostile_names() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("hostile");
    let text = fs::read_to_string(fixtures().join("nodes/slurm-jobs.json")).unwrap();
    let long = "A".repeat(1 << 20);
    let mut node: Value = serde_json::from_str(&text).unwrap();
    node["host"]["name"] = format!("<script>window.hit=1</script>\u{202e}{long}").into();
    let names = [
        "<script>window.hit=1</script>".to_owned(),
        "<img src=x onerror=window.hit=1>".to_owned(),
        "\u{202e}desrever\u{2066}".to_owned(),
        "\"><svg onload=window.hit=1>".to_owned(),
        "שלום עולם".to_owned(),
        long.clone(),
        "</style></script><script>window.hit=1</script>\u{0}\u{1b}[2J".to_owned(),
    ];
    let mut names = names.iter().cycle();
    for process in node["processes"].as_array_mut().unwrap() {
        process["comm"] = names.next().unwrap().clone().into();
    }
    for user in node["users"].as_array_mut().into_iter().flatten() {
        user["name"] = names.next().unwrap().clone().into();
    }
    for program in node["programs"].as_array_mut().unwrap() {
        program["name"] = names.next().unwrap().clone().into();
    }
    // A cgroup of a job, with all below it, gets a name that its user made.
    let hostile = "evil\"><script>window.hit=1</script>\u{202e}x";
    let renamed = serde_json::to_string(&node).unwrap();
    let hostile = serde_json::to_string(hostile).unwrap();
    let renamed = renamed.replace("job_4713/step_batch", &format!("job_4713/{}", hostile.trim_matches('"')));
    let (json, html) = (dir.join("node.json"), dir.join("page.html"));
    fs::write(&json, renamed).unwrap();
    page(&json, &html);
    let jobs = visits(&html, None, ASK);
    let told = browser::visit(&dir, &jobs);
    for (visit, job) in told.iter().zip(&jobs) {
        sound(visit, &job.to_string());
        assert!(visit.value["heading"].as_u64().unwrap() < 200, "{}", visit.value);
    }
}

/// Make sure that with scripts the filter works, the digest agrees and the observation
/// can be looked into, and that without scripts no control is there that needs them.
#[test]
fn scripts() {
    if !browser::is_here() {
        return;
    }
    let dir = scratch("scripts");
    let html = dir.join("page.html");
    let json = dir.join("node.json");
    let jobs = fs::read_to_string(fixtures().join("nodes/slurm-jobs.json")).unwrap();
    fs::write(&json, &jobs).unwrap();
    page(&json, &html);
    let url = format!("file://{}", html.display());
    let on = r#"(async () => {
      const input = document.querySelector("[data-filter=matrix]");
      input.value = "4713";
      input.dispatchEvent(new Event("input"));
      const rows = Array.from(document.querySelectorAll(".matrix tbody tr")).filter((row) => !row.hidden);
      document.querySelector("[data-do=check]").click();
      document.querySelector("[data-do=show]").click();
      const pre = document.querySelector("pre.observation");
      for (let turn = 0; turn < 200 && pre.hidden; turn += 1) await new Promise((done) => setTimeout(done, 20));
      document.querySelector("[data-do=check]").click();
      const status = document.querySelector("[data-status]");
      for (let turn = 0; turn < 200 && !status.textContent; turn += 1) await new Promise((done) => setTimeout(done, 20));
      return { rows: rows.length, status: status.textContent, json: JSON.parse(pre.textContent).schema };
    })()"#;
    let off = r#"(() => {
      const shown = (query) => Array.from(document.querySelectorAll(query)).filter((one) => one.offsetParent).length;
      return { filters: shown("[data-filter]"), buttons: shown("button"), rows: shown(".matrix tbody tr"), download: shown("a[download]") };
    })()"#;
    let told = browser::visit(
        &dir,
        &[json!({"url": url, "run": on}), json!({"url": url, "scripts": false, "run": off})],
    );
    assert_eq!(told[0].value["rows"], 5, "{}", told[0].value);
    assert_eq!(told[0].value["json"], "gpumap.observation/1");
    let status = told[0].value["status"].as_str().unwrap();
    assert!(status.starts_with("✓ The observation in this file has this SHA-256"), "{status}");
    assert_eq!(told[1].value, json!({"filters": 0, "buttons": 0, "rows": 22, "download": 1}));
}

/// Make sure that axe finds nothing that keeps people from using the page, in light and
/// in dark, for a node and for a fleet.
#[test]
fn accessible() {
    if !browser::is_here() {
        return;
    }
    let Some(axe) = browser::axe() else { return };
    let dir = scratch("axe");
    let mut jobs = Vec::new();
    for name in ["slurm-jobs", "slurm-runc-in-job", "hami-containers", "setup-lacking"] {
        let html = dir.join(format!("{name}.html"));
        page(&fixtures().join(format!("nodes/{name}.json")), &html);
        jobs.push(html);
    }
    jobs.push(fleet::saved_nodes(&dir));
    let run = r#"axe.run().then((found) => found.violations.map((one) =>
        one.id + ": " + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + node.failureSummary).join(" | ")))"#;
    let jobs: Vec<Value> = jobs
        .iter()
        .flat_map(|html| visits(html, Some(&axe), run))
        .filter(|job| job["width"] != 800)
        .collect();
    for (visit, job) in browser::visit(&dir, &jobs).iter().zip(&jobs) {
        assert_eq!(visit.value, json!([]), "{} {} {}", job["url"], job["width"], job["dark"]);
    }
}

/// Make sure that the page of a node with 100 jobs stays below two megabytes, with four
/// GPUs and with eight, and that one of a node with far more names what it left out.
#[test]
fn size() {
    let dir = scratch("size");
    for (jobs, gpus, most, is_cut) in
        [(100, 4, 2 << 20, false), (100, 8, 2 << 20, false), (3000, 4, 6 << 20, true)]
    {
        let (json, html) = (dir.join("node.json"), dir.join("page.html"));
        let node = crowd(jobs);
        let node = if gpus == 8 { twice_the_gpus(node) } else { node };
        fs::write(&json, node.to_string()).unwrap();
        let text = page(&json, &html);
        println!("{jobs} jobs, {gpus} GPUs: {} bytes", text.len());
        assert_eq!(text.matches("<th class=\"gpu\"").count(), gpus);
        assert!(text.len() < most, "{jobs} jobs: {} bytes", text.len());
        assert_eq!(text.contains("name a cgroup: gpumap report PATH"), is_cut, "{jobs} jobs");
    }
}

/// Make sure that where the time limit was reached the page is whole, says so, and has
/// the observation all the same.
#[test]
fn time_limit() {
    let dir = scratch("limit");
    let (json, html) = (dir.join("node.json"), dir.join("page.html"));
    fs::write(&json, crowd(100).to_string()).unwrap();
    let file = html.to_str().unwrap();
    for (args, code) in [(["report", "-o", file], 3), (["audit", "--html", file], 1)] {
        let output = gpumap(&json, &[&["--timeout", "1ms"], args.as_slice()].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        let text = fs::read_to_string(&html).unwrap();
        assert!(text.contains("the time limit was reached") && text.ends_with("</html>"), "{args:?}");
        assert_eq!(gpumap(&html, &["node", "--json"]).stdout, gpumap(&json, &["node", "--json"]).stdout);
    }
}

/// The same node with four more GPUs.
fn twice_the_gpus(node: Value) -> Value {
    let other = |text: &str| {
        let text = text.replace("0000:", "0001:");
        // From the largest on: no number is renamed twice.
        let numbered = (0..4).rev().fold(text, |text, minor| {
            let line = |minor: u32| format!("Device Minor: \t {minor}\n");
            text.replace(&line(minor), &line(minor + 4))
        });
        numbered.replace("-2222-3333-4444-", "-2222-3333-5555-")
    };
    let mut node = node;
    let facts = &mut node["gpu_facts"];
    for list in ["files", "links"] {
        let more: Vec<(String, String)> = facts[list]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(path, _)| path.contains("0000:"))
            .map(|(path, text)| (other(path), other(text.as_str().unwrap())))
            .collect();
        for (path, text) in more {
            facts[list][path] = text.into();
        }
    }
    let nodes = facts["nodes"].as_array_mut().unwrap();
    let more: Vec<Value> = nodes
        .iter()
        .filter_map(|one| {
            let minor: u64 = one["path"].as_str()?.strip_prefix("/dev/nvidia")?.parse().ok()?;
            let mut more = one.clone();
            more["path"] = format!("/dev/nvidia{}", minor + 4).into();
            more["minor"] = (minor + 4).into();
            Some(more)
        })
        .collect();
    nodes.extend(more);
    node
}

/// A node on which job 4712 runs so many times, each with cgroups, programs and processes
/// of its own.
fn crowd(jobs: u64) -> Value {
    let text = fs::read_to_string(fixtures().join("nodes/slurm-jobs.json")).unwrap();
    let mut node: Value = serde_json::from_str(&text).unwrap();
    let has = |value: &Value, key: &str| value[key].as_str().is_some_and(|path| path.contains("job_4712"));
    let of = |key: &str, path: &str| -> Vec<Value> {
        node[key].as_array().unwrap().iter().filter(|one| has(one, path)).cloned().collect()
    };
    let (cgroups, processes) = (of("cgroups", "path"), of("processes", "cgroup"));
    let ids: Vec<u64> = [133_354, 133_355, 133_356].to_vec();
    let programs: Vec<Value> = node["programs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| ids.contains(&one["id"].as_u64().unwrap()))
        .cloned()
        .collect();
    for job in 0..jobs {
        let (number, shift) = (10_000 + job, 1_000_000 + job * 100);
        let renamed = |list: &[Value]| -> Vec<Value> {
            let mut text = serde_json::to_string(list).unwrap().replace("4712", &number.to_string());
            for id in &ids {
                text = text.replace(&id.to_string(), &(shift + id - 133_354).to_string());
            }
            serde_json::from_str(&text).unwrap()
        };
        for (key, field, list) in
            [("cgroups", "id", &cgroups), ("processes", "pid", &processes), ("programs", "", &programs)]
        {
            for (place, mut one) in renamed(list).into_iter().enumerate() {
                if !field.is_empty() {
                    one[field] = (5_000_000 + job * 100 + place as u64).into();
                }
                node[key].as_array_mut().unwrap().push(one);
            }
        }
    }
    node
}
