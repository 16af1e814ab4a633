//! The answer of `repair`: what is missing, who denies it, the step that gives it back,
//! one program in the place of another, and the journal of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cgroup::ListedRule;
use crate::model::{
    AttachFlag, GpuKey, IntentionSource, JournalState, Owner, RepairState, ReplaceMode, Time, Writer,
};

/// What gives lost device access back to a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// The cgroup, relative to the cgroup root, `/` first.
    pub cgroup: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// Its id (inode number of the directory).
    pub cgroup_id: u64,
    /// Whose it is; null where not recognised.
    pub owner: Option<Owner>,
    /// Whether something is missing.
    pub state: RepairState,
    /// What says which devices should be allowed; null if nothing does.
    pub intention: Option<Intention>,
    /// What should be allowed and is denied: rules of verdict `allow`. With
    /// `--prevent`, what the next reload would deny.
    pub missing: Vec<ListedRule>,
    /// Keys of the GPUs that cannot be opened for that reason.
    pub gpus: Vec<GpuKey>,
    /// The programs that deny it.
    pub denied_by: Vec<Denier>,
    /// The steps that give it back, in order; none where gpumap knows no safe one.
    pub steps: Vec<RepairStep>,
    /// One program that gpumap itself would put in the place of another, where no
    /// command of its owner helps or `--direct` asks for it; null otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Replacement>,
    /// What `--apply` did; null if nothing was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// Of `missing`, what the steps do not give back.
    pub remaining: Vec<ListedRule>,
    /// Why there is no step, or not for all, a sentence each.
    pub refusals: Vec<String>,
    /// What to look at before and after, a sentence each.
    pub cautions: Vec<String>,
}

/// What says which devices should be allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Intention {
    /// What kind of thing says it.
    pub source: IntentionSource,
    /// The same in words, with program ids or the name of the file.
    pub what: String,
    /// When it was so, RFC 3339; null for what the caller says now.
    pub as_of: Option<Time>,
}

/// A program that denies something that is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denier {
    /// The program.
    pub program: u32,
    /// Its name, often empty.
    pub name: String,
    /// Where it is attached.
    pub attached_at: String,
    /// `multi`, `override`, `preorder`, `link`; none is `[]`.
    pub flags: Vec<AttachFlag>,
    /// Software whose programs have this shape; a label, never a fact.
    pub writer: Option<Writer>,
    /// When it was loaded, RFC 3339.
    pub loaded_at: Time,
    /// What it denies of what is missing.
    pub denies: Vec<ListedRule>,
}

/// One step of a repair: a command of the software that owns the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepairStep {
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The same as a line for a shell.
    pub line: String,
    /// What it does, a sentence.
    pub effect: String,
    /// How long it lasts, a sentence.
    pub lasts: String,
    /// What undoes it against one's will, a sentence.
    pub undone_by: String,
    /// A line for a shell that takes it back; null where there is none.
    pub undo: Option<String>,
}

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
    pub taken_at: Time,
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
