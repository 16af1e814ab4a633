//! Codes of problems, which say what kind of thing could not be seen or done, and states
//! of the checks of `gpumap doctor`.

use std::cmp::Ordering;
use std::str::FromStr as _;

use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// The kind of a problem. Its JSON and text are a stable word in kebab-case, which
/// scripts compare; problems are ordered by that word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ProblemCode {
    /// A baseline of an audit cannot be used.
    BadBaseline,
    /// The configuration of an audit cannot be used.
    BadConfig,
    /// Calls of drivers' libraries cannot be counted.
    Activity,
    /// The caller names something that is no device.
    BadDevice,
    /// The entries of a map do not make sense.
    BadMaps,
    /// A document of a node cannot be used.
    BadDocument,
    /// A file in place of a device node cannot be parsed.
    BadNode,
    /// A file is no saved observation or report.
    BadObservation,
    /// A file is no program.
    BadProgram,
    /// A text is no list of rules.
    BadRules,
    /// The state that a watch saved cannot be used.
    BadState,
    /// gpumap itself has a defect.
    Bug,
    /// A cgroup was removed while it was read.
    CgroupGone,
    /// The programs of a cgroup changed each time they were read.
    ChangedWhileRead,
    /// The v1 devices controller cannot be read.
    DevicesV1,
    /// Metrics cannot be exported, or not all of them.
    Export,
    /// A file cannot be read or written.
    File,
    /// Processes are not listed by BPF iterators.
    Iterators,
    /// The layout of a shared region is mixed or unknown.
    Layout,
    /// Two files say different things of one map.
    MapConflict,
    /// A cgroup does not exist.
    NoCgroup,
    /// A node that was expected did not answer.
    NoAnswer,
    /// A saved file has no details of processes.
    NoDetails,
    /// No finding has the id that the caller names.
    NoFinding,
    /// A job does not exist here.
    NoJob,
    /// A device node does not exist.
    NoNode,
    /// A process does not exist.
    NoProcess,
    /// A program does not exist.
    NoProgram,
    /// A right is missing.
    NoRight,
    /// A saved file does not say how the node is set up.
    NoSetup,
    /// A directory is no cgroup.
    NotACgroup,
    /// The kernel was not asked for its own answers.
    NotVerified,
    /// The node cannot be observed at all.
    Observe,
    /// An output file cannot be used.
    Output,
    /// gpumap sees a part of the node from where it runs.
    PartialView,
    /// A query for device programs failed.
    QueryFailed,
    /// A repair was not made, not undone, or not proved.
    Repair,
    /// Rules were left out.
    RulesLeftOut,
    /// Processes begin and end faster than they can be looked at.
    ShortLived,
    /// The screen of `gpumap top` cannot be shown.
    Terminal,
    /// The processes of a threaded cgroup are listed elsewhere.
    ThreadedCgroup,
    /// The time limit was reached.
    Timeout,
    /// Cgroups are nested too deeply.
    TooDeep,
    /// Something is larger than gpumap reads.
    TooLarge,
    /// There is more of something than gpumap reads.
    TooMany,
    /// Something cannot be read.
    Unreadable,
    /// The command line is wrong.
    Usage,
    /// A watch cannot start.
    Watch,
    /// A name fits several cgroups.
    WhichCgroup,
    /// A name fits several jobs.
    WhichJob,
    /// A code that a later gpumap knows.
    #[strum(default)]
    #[serde(untagged)]
    Other(String),
}

impl ProblemCode {
    /// The code with this word.
    pub fn of(word: &str) -> Self {
        Self::from_str(word).unwrap_or_else(|_| Self::Other(word.to_owned()))
    }

    /// Its word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(word) => word,
            known => known.into(),
        }
    }
}

impl<'de> Deserialize<'de> for ProblemCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::open_word::deserialize(deserializer, Self::of)
    }
}

impl Default for ProblemCode {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl Ord for ProblemCode {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for ProblemCode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

open_words! {
    /// The subject of a note.
    pub enum NoteCode {
        /// gpumap cannot see some ways to hold a device.
        #[default]
        NotVisible,
        /// gpumap passed something over because it cannot be the job's.
        PassedOver,
        /// A rule denies a part of the requests for a device.
        PartDenied,
    }
}

words! {
    /// The state of a check of `gpumap doctor`.
    pub enum CheckState {
        /// As gpumap needs it.
        #[default]
        Ok,
        /// Worth knowing, and nothing is lost by it.
        Note,
        /// Something is missing that can be had.
        Missing,
        /// It could not be looked at.
        Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that words and codes are one to one, for JSON too, and that codes
    /// are ordered by their words.
    #[test]
    fn words() {
        for word in ["no-right", "cgroup-gone", "devices-v1", "threaded-cgroup", "something-new", ""] {
            let code = ProblemCode::of(word);
            assert_eq!((code.as_str(), code.to_string().as_str()), (word, word));
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<ProblemCode>(&format!("\"{word}\"")).unwrap(), code);
        }
        assert_eq!(ProblemCode::of("devices-v1"), ProblemCode::DevicesV1);
        assert!(
            ProblemCode::of("file") < ProblemCode::NoRight
                && ProblemCode::NoRight < ProblemCode::of("output")
        );
    }
}
