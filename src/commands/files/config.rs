//! The configuration of this node, `gpumap.toml`: the exceptions that it is meant to
//! have.

use std::path::Path;

use super::{name, read};
use crate::audit::Config;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::report::AuditConfig;
use crate::sys::absence::OrAbsent as _;
use crate::sys::retry::again;

/// The path of the configuration unless the caller names another.
const USUAL: &str = "/etc/gpumap.toml";

/// The configuration that the caller names, else that of the report being read
/// again, else this node's. A saved observation may be of another node.
pub(crate) fn config(
    invocation: &mut Invocation<'_>,
    named: Option<&Path>,
    former: Option<AuditConfig>,
) -> Result<(Config, Option<AuditConfig>), Failure> {
    let found = match named {
        Some(path) => Some(load(invocation, path)?),
        None if invocation.global.from.is_some() => former,
        None if is_there(Path::new(USUAL))? => Some(load(invocation, Path::new(USUAL))?),
        None => None,
    };
    let Some(found) = found else { return Ok((Config::default(), None)) };
    let bad = |error: crate::audit::ConfigError| {
        let needs = "see CONFIGURATION in gpumap-audit(1), and gpumap audit --list for ids";
        Failure::new(ProblemCode::BadConfig, &*found.path, error.to_string(), needs)
    };
    let config = found.text.parse().map_err(bad)?;
    Ok((config, Some(found)))
}

/// Takes the place of Slurm's `gres.conf` from the node's configuration, where the caller
/// names none. A configuration that cannot be read is told, and hides nothing else.
pub(crate) fn take_gres_conf(invocation: &mut Invocation<'_>) -> Result<(), Failure> {
    if invocation.global.gres_conf.is_some() || invocation.global.from.is_some() {
        return Ok(());
    }
    match config(invocation, None, None) {
        Ok((config, _)) => invocation.wanted_facts.gres_conf = config.slurm.gres_conf,
        Err(Failure::Problem(problem)) => invocation.problems(&[*problem])?,
        Err(other) => return Err(other),
    }
    Ok(())
}

/// Whether there is such a file; one that cannot be looked at is no "no".
fn is_there(path: &Path) -> Result<bool, Failure> {
    let found = again(|| path.symlink_metadata()).or_absent();
    found.map(|found| found.is_some()).map_err(|error| Failure::file(path, &error))
}

fn load(invocation: &mut Invocation<'_>, path: &Path) -> Result<AuditConfig, Failure> {
    let name = name(path);
    let text = String::from_utf8(read(invocation, path)?);
    let text = text.map_err(|_| Failure::new(ProblemCode::BadConfig, &*name, "not UTF-8", ""))?;
    Ok(AuditConfig { path: name, text })
}
