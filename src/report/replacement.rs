//! One device program in the place of another: the plan, what was done, and the
//! journal of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::ListedRule;
use crate::model::{AttachFlag, JournalState, ReplaceMode};

/// A program that gives back what is missing, in the place of the one that denies
/// it. It allows exactly what the old one allows, and what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replacement {
    /// The cgroup that the old program is attached to.
    pub attached_at: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_at_hex: Option<String>,
    /// Its id (inode number of the directory).
    pub attached_at_id: u64,
    /// The old program.
    pub program: u32,
    /// Its kernel tag.
    pub tag: String,
    /// How the kernel replaces it.
    pub mode: ReplaceMode,
    /// The flags that it is attached with, which the new one gets too.
    pub flags: Vec<AttachFlag>,
    /// The link that holds it; null if none does.
    pub link: Option<u32>,
    /// Whether it runs before the programs of lower cgroups; null where the order
    /// of the programs does not tell, so that it makes no difference.
    pub preorder: Option<bool>,
    /// All programs attached there, in attach order.
    pub own: Vec<u32>,
    /// Id of the old program's policy.
    pub before: String,
    /// Id of the new program's policy.
    pub after: String,
    /// What the new one allows besides.
    pub adds: Vec<ListedRule>,
    /// Instructions of the new one.
    pub insns: usize,
    /// The command line that does it; null if the path is no text.
    pub line: Option<String>,
    /// How long it lasts, a sentence.
    pub lasts: String,
    /// What undoes it against one's will, a sentence.
    pub undone_by: String,
}

/// What `repair --apply` did and proved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The new program.
    pub program: u32,
    /// The journal.
    pub journal: String,
    /// The command line that undoes it.
    pub undo: String,
    /// Cgroups whose programs and policies were compared with the plan afterwards.
    pub compared: usize,
    /// Answers of the kernel, asked from inside of cgroups, that agree with the plan.
    pub asked: usize,
    /// What the kernel could not be asked about, a sentence each.
    pub not_asked: Vec<String>,
}

/// What is written down before a program is replaced, so that it can be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairJournal {
    /// `gpumap.repair/1`.
    pub schema: String,
    /// The gpumap that wrote it.
    pub version: String,
    /// When, RFC 3339.
    pub taken_at: String,
    /// The boot it holds for.
    pub boot_id: String,
    /// The cgroup that was repaired.
    pub cgroup: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// Its id.
    pub cgroup_id: u64,
    /// Who asked for it: uid, login uid and pid of the gpumap.
    pub who: String,
    /// What says that it should be so.
    pub why: String,
    /// What was replaced.
    pub replacement: Replacement,
    /// The new program.
    pub program: u32,
    /// Its kernel tag.
    pub tag: String,
    /// The revision of the cgroup's list before; 0 where the kernel has none (most
    /// before Linux 6.17).
    pub revision: u64,
    /// The file that keeps the old program.
    pub pin: String,
    /// The journal's own path; not written into it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What became of it, as the kernel says now; not written into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JournalState>,
    /// Why that is so, a sentence; not written into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}
