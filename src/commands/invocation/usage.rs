//! Usage errors: command lines that clap refuses.

use std::borrow::Cow;
use std::io;
use std::io::Write as _;

use super::advice;
use crate::cli::{self, Exit};
use crate::commands::invocation::envelope;
use crate::model::ProblemCode;
use crate::observation::Problem;
use crate::render;
use crate::render::sanitize;

/// Prints clap's message: help and version on standard output, a usage error on
/// standard error, and with --json an envelope too.
pub fn refuse(mut error: clap::Error) -> Exit {
    advice::add(&mut error);
    let error = &error;
    // `env::args()` would panic at arguments that are not UTF-8.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.take_while(|word| word != "--").collect();
    let is_redacted = error.use_stderr() && words.iter().any(|word| word == "--redact");
    let message = if is_redacted { redacted(error) } else { error.to_string() };
    let _nobody_left = if is_redacted { io::stderr().write_all(message.as_bytes()) } else { print(error) };
    if !error.use_stderr() {
        return Exit::Yes;
    }
    if words.iter().any(|word| word == "--json") {
        let first = message.lines().next().unwrap_or_default();
        usage(command(&words), first.trim_start_matches("error: "));
    }
    exit(&words)
}

/// The message without what was typed: for a bug report.
fn redacted(error: &clap::Error) -> String {
    let kind = error.kind();
    format!(
        "error: {}\n\nFor more information, try '--help'.\n",
        kind.as_str().unwrap_or("malformed command line")
    )
}

/// Prints clap's message. It repeats the arguments, and these may be names that a user
/// gave (a pattern of the shell's, an `xargs`): characters that move the cursor or turn
/// the text around are shown as escapes, and colours are left out then.
fn print(error: &clap::Error) -> io::Result<()> {
    let message = error.to_string();
    let harmless: Vec<_> = message.split('\n').map(sanitize::text).collect();
    if harmless.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return error.print();
    }
    io::stderr().lock().write_all(harmless.join("\n").as_bytes())
}

/// The exit code. An audit in a hook must not fail, and clap has not parsed enough
/// to know that.
fn exit(words: &[String]) -> Exit {
    let has = |option: &str| {
        words
            .iter()
            .any(|word| word.strip_prefix(option).is_some_and(|it| it.is_empty() || it.starts_with('=')))
    };
    if command(words) != "audit" {
        return Exit::Failed;
    }
    if has("--nagios") {
        let _nobody_left = render::nagios_unknown(&mut io::stdout().lock(), "the command line is malformed");
        return Exit::Incomplete;
    }
    if has("--from-env") && !has("--fail-on") { Exit::Yes } else { Exit::Failed }
}

fn usage(command: &str, why: &str) {
    let problem = Problem {
        code: ProblemCode::Usage,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a typing error in a Prolog drains no node unless its
    /// author asked for it.
    #[test]
    fn audits_fail_open() {
        let exit = |line: &str| exit(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(exit("audit --from-env --tiemout 5s"), Exit::Yes);
        assert_eq!(exit("--tiemout 5s audit --from-env"), Exit::Yes);
        assert_eq!(exit("audit --from-env --fail-on=bad"), Exit::Failed);
        assert_eq!(exit("audit --from-env --fail-on bad"), Exit::Failed);
        assert_eq!(exit("audit --nonsense"), Exit::Failed);
        assert_eq!(exit("job --from-env --nonsense"), Exit::Failed);
    }
}
