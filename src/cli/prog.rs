//! `gpumap prog`.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueHint};

use super::ProgramSource;

/// Show one program: its rules and its disassembly.
///
/// The program is a loaded one, by id, or comes from a file: raw instructions
/// (`bpftool prog dump xlated id ID file FILE`), bpftool's text or JSON, or a
/// saved observation. What the program reads from maps must be known: --maps adds
/// map contents to a file that has none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap prog 812
  gpumap prog device.xlated --maps maps.json
  bpftool prog dump xlated id 812 | gpumap prog -")]
pub struct ProgArgs {
    /// A program id, a file, or `-` for standard input; a file whose name is a
    /// number is written ./17.
    #[arg(value_name = "ID|FILE", value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().map(ProgramSource::from))]
    pub program: ProgramSource,
    /// Map contents as `bpftool -j map dump` writes them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub maps: Option<PathBuf>,
}
