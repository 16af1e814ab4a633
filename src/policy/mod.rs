//! From instructions to an exact policy: the decoder.
//!
//! A policy is the answer to every question the kernel can ask at once: 2
//! types × 4096 majors × 2^20 minors × 5 requests. The decoder gets there by
//! running the program on symbols: every register is a vector of Boolean
//! functions over the bits of the question ([`diagram`]), so it never matters
//! who wrote the program or how. Equal policies are equal values.
//!
//! The way of a program through this room:
//!
//! * `code` prepares it: operations, flow, maps, the programs that it goes on in (`linked`),
//!   names of calls (`hidden` finds names that the kernel hides, `plain_moves` what a
//!   listing does not show);
//! * `machine` runs it for all questions at once. `state` is what changes, `compute` (with
//!   `widened`), `memory` (with `large_array`), `lookup`, `calls`, `callbacks` and
//!   `kernel_functions` are the instructions. **What a helper means is in `helpers`**;
//! * `graph` folds the paths into one function of the question, `project`
//!   eliminates inputs that cannot be known;
//! * `decoder` decodes a list of programs, `run_order` combines them: **the rule that a
//!   later `bpf_set_retval(0)` undoes a deny is there**. What may be overwritten is not
//!   used: `written` is what the runs found, `stores` (with `address`) bounds what those
//!   parts write that are not followed;
//! * `rules` writes the policy down for people, `question` answers questions about the
//!   whole of it, `proof` follows a single one,
//!   `origin` is what a policy that is not exact was made of: it names the policy, and runs
//!   its programs on one question where the policy as a whole is too complex.
//!
//! **Why a verdict is unknown**: each input that cannot be known carries its
//! reason from where it arises (`unknown_word` in `inputs`);
//! [`Decoder::why`] tells those that a verdict depends on.

mod address;
mod always_listed;
mod annotate;
mod as_loaded;
mod assumptions;
mod blinded;
mod callbacks;
mod calls;
mod code;
mod compile;
mod compute;
mod decoder;
pub mod diagram;
mod flow;
mod frame;
mod graph;
mod helpers;
mod hidden;
mod inputs;
mod kernel_functions;
mod large_array;
mod linked;
mod lookup;
mod machine;
mod memory;
mod notation;
mod origin;
mod part;
mod plain_moves;
mod project;
mod proof;
mod question;
mod rules;
mod run_order;
mod state;
mod stores;
mod table;
mod time_limit;
mod types;
mod value;
mod widened;
mod word;
mod written;

pub use always_listed::AlwaysListed;
pub use compile::CompileError;
pub use decoder::Decoder;
pub use notation::BadRules;
pub use proof::{Followed, FollowedStep, Proof};
pub use question::Question;
pub use rules::{PolicyDifference, RuleList, Unsettled};
pub use time_limit::TimeLimit;
pub use types::{Combination, Context, Policy, asks_about_whiteouts};
