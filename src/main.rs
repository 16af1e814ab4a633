//! The `gpumap` command.

use std::process::ExitCode;

use gpumap::{cli, commands};

fn main() -> ExitCode {
    let exit = match cli::parse(std::env::args_os().collect()) {
        Ok(cli) => commands::run(&cli),
        Err(error) => commands::refuse(error),
    };
    exit.into()
}
