//! The answer of `repair`: what is missing, who denies it, and the step that
//! gives it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::ListedRule;
use super::replacement::{Applied, Replacement};
use crate::model::{AttachFlag, IntentionSource, Owner, RepairState, Writer};

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
    pub gpus: Vec<String>,
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
    pub as_of: Option<String>,
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
    pub loaded_at: String,
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
