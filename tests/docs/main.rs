//! Tests that keep the manual pages, the schemas, the README and the threat
//! model true. `BLESS=1 cargo test --test docs` writes what is generated anew.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is test code: a surprise ends the test"
)]

mod architecture;
mod circles;
mod dropped_results;
mod manual;
mod readme;
#[path = "../support/shell_words.rs"]
mod shell_words;
mod where_it_runs;
