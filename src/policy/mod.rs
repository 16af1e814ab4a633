//! From instructions to an exact policy: the decoder.
//!
//! A policy is the answer to every question the kernel can ask at once: 2
//! types × 4096 majors × 2^20 minors × 5 requests. The decoder gets there by
//! running the program on symbols: every register is a vector of Boolean
//! functions over the bits of the question ([`diagram`]), so it never matters
//! who wrote the program or how. Equal policies are equal values.
//!
//! The way of a program through this room: `code` prepares it, `machine` runs
//! it (`compute`, `memory`, `calls` are its parts, `state` what they change),
//! `graph` folds the paths into one function, `project` takes out what cannot
//! be known, `decoder` combines several programs, `rules` writes the result
//! down for people.

mod assumptions;
mod blinded;
mod calls;
mod code;
mod compute;
pub mod deadline;
mod decoder;
mod devices_v1;
pub mod diagram;
mod flow;
mod focus;
mod frame;
mod graph;
mod helpers;
mod hidden;
mod id;
mod inputs;
mod iterator;
mod lookup;
mod machine;
mod meaning;
mod memory;
mod original;
mod project;
mod proof;
mod question;
mod reach;
mod rest;
mod rounds;
mod rules;
mod state;
mod table;
mod value;
mod word;
mod written;

pub use decoder::{Combination, Context, Decoder, Policy};
pub use focus::Focus;
pub use proof::{Followed, Proof};
pub use question::Question;
pub use rules::{Change, Mask, Numbers, Rule, RuleList};
