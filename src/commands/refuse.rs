//! Command lines that cannot be run.

use std::io;

use super::envelope;
use crate::cli::{self, Exit};
use crate::observation::Problem;
use crate::render;

/// Prints what clap has to say: help and version on standard output, a usage
/// error on standard error, and with --json an envelope beside it.
pub fn refuse(error: &clap::Error) -> Exit {
    let _nobody_left = error.print();
    if !error.use_stderr() {
        return Exit::Yes;
    }
    let words: Vec<String> = std::env::args().skip(1).take_while(|word| word != "--").collect();
    if words.iter().any(|word| word == "--json") {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        usage(command(&words), first.trim_start_matches("error: "));
    }
    Exit::Failed
}

fn usage(command: &str, why: &str) {
    let problem = Problem {
        code: "usage".to_owned(),
        what: "command line".to_owned(),
        why: why.to_owned(),
        needs: "see gpumap --help".to_owned(),
    };
    let _nobody_left = render::json::write(&mut io::stdout().lock(), &envelope::failed(command, &problem));
}

/// The first word that is a command's name.
fn command(words: &[String]) -> &str {
    let definition = cli::definition();
    let is_command = |word: &&String| definition.find_subcommand(word).is_some();
    words.iter().find(is_command).map_or("", String::as_str)
}
