//! Tests that keep the manual pages, the schemas, the README and the threat
//! model true. `BLESS=1 cargo test --test docs` writes what is generated anew.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is test code: a surprise ends the test"
)]

mod circles;
mod closed_sets;
mod dropped_results;
mod imports;
mod manual;
mod readme;
mod rooms;
#[path = "../support/shell_words.rs"]
mod shell_words;
mod source;
mod where_it_runs;
