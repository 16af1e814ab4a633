//! The `gpumap` command.

use std::process::ExitCode;

use clap::Parser as _;
use gpumap::cli::Cli;
use gpumap::commands;

fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => commands::run(&cli),
        Err(error) => commands::refuse(error),
    };
    exit.into()
}
