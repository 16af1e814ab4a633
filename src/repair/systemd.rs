//! The command that gives devices back where a program of systemd's denies them:
//! `systemctl set-property --runtime UNIT DeviceAllow=…`.
//!
//! systemd adds the values to the list of the unit, makes its program anew and swaps
//! it; programs of others stay in force beside it. The list outlives daemon-reload,
//! which makes the program of it again.

use super::device_allow::Values;
use super::shell;
use crate::observation::{Text, Unit};
use crate::report::RepairStep;
use crate::unit::{self, Policy, Settings};

/// Where systemd keeps units that programs made, not files.
const TRANSIENT: &str = "/run/systemd/transient/";

/// The step.
///
/// # Errors
///
/// Why the command would do harm, or cannot be known not to, a sentence.
pub(super) fn step(cgroup: &Text, units: &[Unit], values: &Values) -> Result<RepairStep, String> {
    let name = unit::of_cgroup(cgroup.as_bytes())
        .ok_or_else(|| format!("{} is no unit of the system's systemd", cgroup.lossy()))?;
    // `VALID_CHARS` of systemd (src/basic/unit-name.c): what else is there is no
    // unit, and nothing to paste into a shell.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte)) {
        return Err(format!("{name:?} is no name that systemd gives a unit"));
    }
    let unit = units.iter().find(|unit| unit.cgroup == *cgroup);
    let unit = unit.ok_or_else(|| format!("what the files of {name} say about devices was not seen"))?;
    let settings = Settings::of(unit);
    if !settings.doubts.is_empty() {
        return Err(format!("what {name} allows is not certain: {}", settings.doubts.join("; ")));
    }
    if settings.policy == Policy::Auto && settings.allow.is_empty() {
        return Err(format!(
            "the files of {name} restrict nothing (DevicePolicy=auto, no DeviceAllow=): a DeviceAllow= would \
             turn that into a closed list"
        ));
    }
    let is_transient = unit.fragment.as_deref().is_some_and(|path| path.starts_with(TRANSIENT));
    let command = command(name, values.values.iter().map(String::as_str));
    Ok(RepairStep {
        line: shell::line(&command),
        command,
        effect: format!(
            "systemd adds the devices to the list of {name} and swaps its own program; all others stay as \
             they are"
        ),
        lasts: if is_transient {
            format!("as long as {name}: through daemon-reload, daemon-reexec and changes of its properties")
        } else {
            "until the next boot; without --runtime also after it".to_owned()
        },
        undone_by: format!(
            "a new start of what runs in {name}; setting its DeviceAllow= anew; systemctl revert, which \
             removes the list of the runtime too and must not be used here"
        ),
        undo: undo(name, &settings).map(|command| shell::line(&command)),
    })
}

fn command<'v>(unit: &str, values: impl Iterator<Item = &'v str>) -> Vec<String> {
    let words = ["systemctl", "set-property", "--runtime", "--", unit].map(str::to_owned);
    words.into_iter().chain(values.map(|value| format!("DeviceAllow={value}"))).collect()
}

/// The command that sets the list as it is now: an empty value clears it first.
fn undo(unit: &str, settings: &Settings) -> Option<Vec<String>> {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
    if !settings.allow.iter().all(|allow| is_plain(&allow.device)) {
        return None;
    }
    let letters = |access: u32| {
        let letters = [(2, 'r'), (4, 'w'), (1, 'm')];
        letters.into_iter().filter(|(bit, _)| access & bit != 0).map(|(_, letter)| letter).collect::<String>()
    };
    let values: Vec<String> =
        settings.allow.iter().map(|allow| format!("{} {}", allow.device, letters(allow.access))).collect();
    Some(command(unit, std::iter::once("").chain(values.iter().map(String::as_str))))
}
