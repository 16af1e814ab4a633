//! Packs the observation that a page was made of, so that the page can be made again.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::Evidence;

/// The observation as JSON, packed by gzip, with the digest of the JSON.
///
/// # Errors
///
/// The observation cannot be written as JSON, which no observation that was read or made
/// by gpumap causes.
pub fn evidence(observation: &Observation, limit: &TimeLimit) -> io::Result<Evidence> {
    let json = serde_json::to_vec(observation)?;
    // No time and no name: the same observation is the same text.
    // Where the time limit was reached already, what is left is done quickly.
    let level = if limit.was_missed() { Compression::fast() } else { Compression::best() };
    let mut packer = GzEncoder::new(Vec::new(), level);
    packer.write_all(&json)?;
    let digest = Sha256::digest(&json);
    Ok(Evidence {
        packed: STANDARD.encode(packer.finish()?),
        bytes: json.len(),
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}
