//! The site's configuration, `/etc/gpumap.toml`.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, de};

use crate::model::{Severity, Time};
use crate::observation::{OwnerPattern, SlurmFiles};

/// The configuration of an audit. Unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// GPUs that are shared on purpose.
    pub sharing: Sharing,
    /// What counts as use.
    pub activity: ActivityLimits,
    /// Where Slurm's files are.
    pub slurm: SlurmFiles,
    /// Daemons that may hold any GPU, besides those that gpumap knows.
    #[serde(rename = "daemon")]
    pub daemons: Vec<Daemon>,
    /// Owners of cgroups that no list of gpumap's knows.
    #[serde(rename = "owner")]
    pub owners: Vec<OwnerPattern>,
    /// Where UUIDs of MIG instances are; read while observing.
    pub mig: Mig,
    /// Severity by id, instead of the usual one.
    pub severity: BTreeMap<String, Severity>,
    /// Findings that are known and accepted.
    pub ignore: Vec<Ignore>,
}

/// What the site says of MIG.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mig {
    /// A file with what `nvidia-smi -L` printed.
    pub list: Option<String>,
    /// What prints that if it is run with `-L`.
    pub program: Option<String>,
}

/// Sharing by design.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sharing {
    /// Keys of GPUs that several owners may have at the same time; `*` for all.
    pub gpus: Vec<String>,
    /// Whether this node's jobs may open every GPU on purpose, because jobs
    /// get whole nodes.
    pub whole_node: bool,
}

/// What counts as use, where calls of processes are counted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ActivityLimits {
    /// After how many hours without work a GPU that is held is a finding.
    pub idle_hours: u32,
    /// After how many minutes in one call that waits for the GPU a process is a finding.
    pub hang_minutes: u32,
}

impl Default for ActivityLimits {
    fn default() -> Self {
        Self { idle_hours: 3, hang_minutes: 60 }
    }
}

/// A daemon that may hold GPUs of others. Everything that is named here must match,
/// because anybody can take a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Path of its executable.
    pub exe: String,
    /// Its cgroup: this one and all below it.
    pub cgroup: String,
    /// Its uid.
    #[serde(default)]
    pub uid: u32,
}

/// A finding that is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignore {
    /// Its id.
    pub id: String,
    /// Only in this cgroup and below.
    pub cgroup: Option<String>,
    /// Only about this GPU, by key.
    pub gpu: Option<String>,
    /// Why it is accepted, for the readers of the audit.
    pub reason: String,
    /// The last day on which it is accepted, UTC.
    #[serde(deserialize_with = "date")]
    pub until: Date,
}

impl Config {
    /// Exceptions that have expired, for people.
    pub fn expired(&self, taken_at: &Time) -> Vec<String> {
        let Some(today) = day(taken_at) else { return Vec::new() };
        let expired = self.ignore.iter().filter(|ignore| ignore.until < today);
        expired.map(|ignore| format!("{} is ignored no more: until {}", ignore.id, ignore.until)).collect()
    }
}

impl Sharing {
    /// Whether several owners may have this GPU at the same time.
    pub(super) fn has_gpu(&self, key: &str) -> bool {
        self.gpus.iter().any(|shared| shared == "*" || shared == key)
    }
}

/// The day of a time, UTC.
pub(super) fn day(taken_at: &Time) -> Option<Date> {
    taken_at.timestamp().map(|now| now.to_zoned(TimeZone::UTC).date())
}

/// A date, quoted or as TOML has them.
fn date<'de, D: Deserializer<'de>>(source: D) -> Result<Date, D::Error> {
    let text = match toml::Value::deserialize(source)? {
        toml::Value::String(text) => text,
        toml::Value::Datetime(date) => date.to_string(),
        other => return Err(de::Error::custom(format!("{} is not a date", other.type_str()))),
    };
    let plain = text.len() == 10;
    let date = text.parse().ok().filter(|_| plain);
    date.ok_or_else(|| de::Error::custom(format!("'{text}' is not a date such as 2027-01-31")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a date is one however it is written, and nothing else is.
    #[test]
    fn dates() {
        let ignore = |until: &str| {
            toml::from_str::<Config>(&format!("[[ignore]]\nid = 'x'\nreason = 'r'\nuntil = {until}\n"))
        };
        for good in ["2027-01-31", "'2027-01-31'"] {
            assert_eq!(ignore(good).unwrap().ignore[0].until.to_string(), "2027-01-31");
        }
        for bad in ["2027", "'2027-02-30'", "'soon'", "2027-01-31T00:00:00Z", "true"] {
            assert!(ignore(bad).is_err(), "{bad}");
        }
    }

    /// Make sure that an ignore counts through its last day.
    #[test]
    fn expiry() {
        let config: Config = toml::from_str("[[ignore]]\nid='x'\nreason='r'\nuntil=2027-01-31\n").unwrap();
        assert!(config.expired(&"2027-01-31T23:59:59Z".into()).is_empty());
        assert_eq!(
            config.expired(&"2027-02-01T00:00:00Z".into()),
            ["x is ignored no more: until 2027-01-31"]
        );
    }
}
