//! `gpumap completions`: completion scripts for shells.

use std::io::Write as _;

use super::invocation::{Failure, Invocation};
use crate::cli::{self, CompletionsArgs, Exit};

/// Runs the command. Made in memory first, because the generator panics when
/// it cannot write.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::definition(), "gpumap", &mut script);
    invocation.out.write_all(&script)?;
    Ok(Exit::Yes)
}
