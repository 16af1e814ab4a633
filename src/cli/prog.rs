//! `gpumap prog`.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueHint};

use super::ProgramSource;

/// Show one program: its rules and its disassembly.
///
/// The program is a loaded one, by id, or comes from a file: raw instructions
/// (`bpftool prog dump xlated id ID file FILE`), bpftool's text or JSON, a log of the
/// kernel's verifier, or a saved observation. bpftool's output should have the opcodes:
/// without them an older bpftool prints some instructions as others, and what depends
/// on one of these is unknown. Of a loaded program gpumap shows where it is attached.
/// What the program reads from maps must be known: --maps adds
/// map contents to a file that has none.
///
/// --compile goes the other way: it reads rules and makes a device program of
/// them. The rules are written as gpumap prints them (see NOTATION in
/// gpumap(1)), one on a line, the default first:
///
/// deny a *:* rwm
///
/// allow c 195:0-2 rw
///
/// The other rules say what differs from the default. They may stand in any order
/// and must not contradict each other. gpumap ignores empty lines, lines that begin with # and
/// what stands in parentheses at the end of a line. The program is
/// read again before it is shown or saved, and must decide as the rules say. It is
/// not loaded into the kernel. A rule is about whole requests: `deny c 195:0 w` leaves
/// open for rw what the default allows for rw.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gpumap prog 812
  gpumap prog device.xlated --maps maps.json
  bpftool prog dump xlated id 812 opcodes | gpumap prog -
  gpumap prog --compile rules.txt -o device.xlated")]
pub struct ProgArgs {
    /// A program id, a file, or `-` for standard input; a file whose name is a
    /// number is written ./17.
    #[arg(value_name = "ID|FILE", value_hint = ValueHint::FilePath, required_unless_present = "compile",
        value_parser = OsStringValueParser::new().map(ProgramSource::from))]
    pub program: Option<ProgramSource>,
    /// Map contents as `bpftool -j map dump` writes them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub maps: Option<PathBuf>,
    /// Compile the rules in this file, or in standard input for `-`.
    #[arg(long, value_name = "RULES", value_hint = ValueHint::FilePath, conflicts_with_all = ["program", "maps"])]
    pub compile: Option<PathBuf>,
    /// Save the compiled instructions to this file, 8 bytes each, and show them too.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "compile")]
    pub output: Option<PathBuf>,
}
