//! The state file: the last change of each process, for those who ask later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::{Time, ValueState};
use crate::observation::{Environment, Text, Variable};
use crate::output_file::{self, OutputError};
use crate::report::Value;

/// The schema of the file.
pub const SCHEMA: &str = "gpumap.watch/1";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// When it was written, RFC 3339.
    pub at: Time,
    /// The boot in which pids and start times mean something.
    pub boot_id: String,
    /// Processes with their last changes.
    pub processes: Vec<SavedProcess>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedProcess {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Its variables.
    pub variables: Vec<LastValue>,
}

/// One variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastValue {
    /// Name.
    pub name: String,
    /// When it was changed last, RFC 3339.
    pub at: Time,
    /// What it is since.
    #[serde(flatten)]
    pub value: Value,
}

impl SavedProcess {
    /// An environment with these variables in the place of its own.
    pub fn after(&self, environment: &Environment) -> Environment {
        let mut after = environment.clone();
        for set in &self.variables {
            after.variables.retain(|variable| variable.name != set.name);
            if set.value.state != ValueState::Unset {
                let value = Text::from(set.value.raw.clone().unwrap_or_default());
                after.variables.push(Variable { name: set.name.clone(), value, cut: set.value.cut });
            }
        }
        after
    }
}

/// Replaces the file as a whole; nobody else can read it.
///
/// # Errors
///
/// Those of [`output_file::save`].
pub fn write(path: &Path, boot_id: &str, processes: Vec<SavedProcess>) -> Result<(), OutputError> {
    let at = Time::now();
    let state = StateFile { schema: SCHEMA.to_owned(), at, boot_id: boot_id.to_owned(), processes };
    output_file::save(path, |out| Ok(serde_json::to_writer(out, &state)?))
}

/// The state in the bytes of a file.
///
/// # Errors
///
/// What is wrong with another file, in words.
pub fn parse(bytes: &[u8]) -> Result<StateFile, String> {
    let state: StateFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if state.schema == SCHEMA { Ok(state) } else { Err(format!("its schema is not {SCHEMA}")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Make sure that the file comes back, is its owner's alone, and leaves
    /// nothing beside it.
    #[test]
    fn round_trip() {
        let directory = std::env::temp_dir().join(format!("gpumap-state-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("state");
        let value = Value { state: ValueState::Value, raw: Some("0".to_owned()), ..Value::default() };
        let variables = vec![LastValue { name: "CUDA_VISIBLE_DEVICES".to_owned(), at: Time::now(), value }];
        for _ in 0..2 {
            write(&path, "boot", vec![SavedProcess { pid: 7, start_time: 8, variables: variables.clone() }])
                .unwrap();
        }
        let state = parse(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(
            (state.processes[0].pid, state.processes[0].variables[0].value.raw.as_deref()),
            (7, Some("0"))
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert!(parse(b"{}").is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
