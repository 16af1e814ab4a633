//! `gpumap fleet`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::model::FailOn;

/// Make one report of what gpumap said on many nodes.
///
/// FILE holds answers of `gpumap node --json --compact --audit`, `node --json` and `audit
/// --json`, reports (`audit --report`) and observations (`snapshot`): one or many, one
/// after the other or a line each, packed by gzip or not. DIR stands for the files in
/// it and below. `-` is standard input, where lines may begin with `LABEL: ` as
/// `srun --label`, clush and pdsh write them. Every document says itself which node
/// it is of; of several of one kind the newest counts. One that came under the name of
/// another node, as label or as name of its file (`n1.json`), is reported, and replaces
/// nothing that came under the right one.
///
/// The report has the findings of all nodes, those that are alike together; jobs that
/// do not have alike GPUs on all their nodes; in what nodes differ, with the odd ones
/// named; nodes that did not answer, or not with everything. gpumap asks no node
/// itself: Slurm, clush or Ansible do.
///
/// The exit status is 1 if a finding of a node is as severe as --fail-on says, whatever
/// else could not be seen. A job that lacks GPUs on a node counts as a warning, and any
/// other difference between nodes as a note. It is 3 if there is none but a node is missing
/// or not complete or a document could not be used; 2 if gpumap could not work; else 0.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  srun -N 64 --label gpumap node --json --compact --audit | gpumap fleet -
  clush -a -L gpumap audit --json | gpumap fleet - --expect 'gpu[01-64]'
  gpumap fleet /shared/gpumap/ --json > today.json
  gpumap fleet /shared/gpumap/ --baseline today.json     What is new since then.
  gpumap fleet /shared/gpumap/ --html fleet.html")]
pub struct FleetArgs {
    /// Documents of nodes; `-` is standard input.
    #[arg(value_name = "FILE|DIR", required = true, value_hint = ValueHint::AnyPath, help_heading = "Arguments")]
    pub inputs: Vec<PathBuf>,
    /// Nodes that should have answered, such as `gpu[01-64],login1`.
    ///
    /// Those without a document are named, and the exit status is 3.
    #[arg(long, value_name = "NODES")]
    pub expect: Option<String>,
    /// The same from a file: names and host lists, separated by blanks or line ends;
    /// `#` begins a comment.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub expect_file: Option<PathBuf>,
    /// Exit with 1 from this severity on.
    ///
    /// A job that has fewer GPUs on a node than on most of its nodes is a warning. Nodes
    /// that differ in anything else, and a GPU that two of them claim, are a note.
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = FailOn::Warning)]
    pub fail_on: FailOn,
    /// Show only findings that a former report did not have; jobs that it had with unlike
    /// GPUs do not fail again.
    ///
    /// FILE is what `gpumap fleet --json` printed.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Write the report as one HTML file too.
    ///
    /// It needs no network and no other file. It replaces an older one whole or not at
    /// all, and only its owner may read it. Names of nodes lead to a section for each
    /// node: its findings, owners with the four sets, what was not known there. The page
    /// stays below 8 MiB: it has sections of 2,000 nodes, 20,000 owners and 5,000
    /// findings, and says where it leaves something out. Nodes with the worst findings
    /// are first; steps and tasks of the last ones go first.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}
