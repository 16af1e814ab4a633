//! `/overrideEnv` of a process's root, from which HAMi-core sets variables.
//!
//! The file may hold any variables. Of these the limits alone are kept.

use super::files::{facts, found};
use super::preload;
use crate::model::LIMIT_VARIABLES;
use crate::observation::{Answer, OverrideFile, Variable};
use crate::observe::pinned::NotRead;
use crate::observe::processes::environment::filter::{variable, wanted};
use crate::sys::dir::Dir;

/// Bytes of the file.
const LIMIT: usize = 64 << 10;

/// The file, if there is one and it can be found.
pub(super) fn read(dir: &Dir) -> Result<Option<OverrideFile>, NotRead> {
    let Some(root) = found(dir.child(c"root/."))? else { return Ok(None) };
    let Some((place, stat)) = found(root.find_inside(c"overrideEnv", true))? else { return Ok(None) };
    let text = match stat.size {
        size if size > LIMIT as u64 => Err(format!("it is longer than {} KiB", LIMIT >> 10)),
        _ => preload::beginning(&place, LIMIT),
    };
    let variables = text.map_or_else(Answer::Missing, |text| Answer::Known(limits(&text)));
    Ok(Some(OverrideFile { file: facts(&stat), variables }))
}

/// The limits that the lines `NAME=VALUE` set, the last one first: it beats the others.
///
/// Builds before October 2026 stop at the first line without a sign, later ones pass
/// over it. What stands behind it was meant all the same.
fn limits(text: &[u8]) -> Vec<Variable> {
    let lines = text.rsplit(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let set = lines.filter_map(wanted).filter(|(name, _)| LIMIT_VARIABLES.binary_search(name).is_ok());
    let mut found: Vec<Variable> = Vec::new();
    for (name, value) in set {
        if !found.iter().any(|one| one.name == name) {
            found.push(variable(name, value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that limits alone are kept, of each the last one, whatever lines stand
    /// between them.
    #[test]
    fn lines() {
        let text = b"CUDA_DEVICE_SM_LIMIT=30\nSECRET=x\n# comment\n\nCUDA_DEVICE_MEMORY_LIMIT=2g\r\n\
            CUDA_DEVICE_MEMORY_LIMIT_=1\n CUDA_DEVICE_SM_LIMIT=9\nSLURM_JOB_ID=7\nCUDA_DEVICE_SM_LIMIT=40";
        let found = limits(text);
        let found: Vec<(&str, &[u8])> =
            found.iter().map(|one| (one.name.as_str(), one.value.as_bytes())).collect();
        assert_eq!(found, [("CUDA_DEVICE_SM_LIMIT", &b"40"[..]), ("CUDA_DEVICE_MEMORY_LIMIT", &b"2g"[..])]);
        assert!(limits(b"").is_empty() && limits(b"=\n=1\n").is_empty());
    }
}
