//! Opens pages in a headless Chromium: `browser.js` drives it through the DevTools pipe.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::skips::skip;

/// The accessibility checker, from npm's registry.
const AXE: &str = "https://registry.npmjs.org/axe-core/-/axe-core-4.14.1.tgz";
/// Its integrity, as the registry has it: SHA-512, hexadecimal.
const AXE_SHA512: &str = "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73\
                          4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5";

/// What a page did.
#[derive(Debug)]
pub struct Visit {
    /// The result of the job's expression.
    pub value: Value,
    /// Messages of the console and errors.
    pub console: Vec<String>,
    /// Addresses that were asked for.
    pub requests: Vec<String>,
}

/// Whether Chromium and node.js are here; says so if not, and fails if they must be.
pub fn is_here() -> bool {
    let missing =
        [("chromium", "chromium"), ("node", "nodejs")].into_iter().find(|(tool, _)| which(tool).is_none());
    let Some((_, package)) = missing else { return true };
    skip(&format!("{package} is missing"));
    false
}

fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|file| file.is_file())
}

/// Does the jobs one after the other, as `browser.js` describes them.
pub fn visit(scratch: &Path, jobs: &[Value]) -> Vec<Visit> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/browser.js");
    let mut child = Command::new("timeout")
        .args(["-k", "5", "400", "node"])
        .arg(script)
        .arg(which("chromium").unwrap())
        .arg(scratch.join("profile"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(jobs).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the browser failed: {}", output.status);
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), jobs.len());
    lines.into_iter().map(told).collect()
}

fn told(line: Value) -> Visit {
    assert!(line["failure"].is_null(), "{}", line["failure"]);
    let texts = |key: &str| serde_json::from_value(line[key].clone()).unwrap();
    Visit { value: line["value"].clone(), console: texts("console"), requests: texts("requests") }
}

/// axe-core, fetched once and checked; `None` where the registry cannot be reached.
pub fn axe() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join("axe-core-4.14.1.min.js");
    if file.is_file() {
        return Some(file);
    }
    let archive = dir.join(format!("axe-{}.tgz", std::process::id()));
    let fetched =
        Command::new("curl").args(["-sSfL", "--max-time", "120", "-o"]).arg(&archive).arg(AXE).status();
    if !fetched.is_ok_and(|status| status.success()) {
        skip(&format!("{AXE} cannot be fetched"));
        return None;
    }
    let sum = Command::new("sha512sum").arg(&archive).output().unwrap();
    assert!(sum.stdout.starts_with(AXE_SHA512.as_bytes()), "{AXE} is not what it was");
    let unpacked =
        Command::new("tar").args(["-xzOf"]).arg(&archive).arg("package/axe.min.js").output().unwrap();
    let fresh = archive.with_extension("js");
    std::fs::write(&fresh, unpacked.stdout).unwrap();
    std::fs::rename(&fresh, &file).unwrap();
    let _nobody_needs_it = std::fs::remove_file(archive);
    Some(file)
}
