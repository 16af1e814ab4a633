//! Options that every command takes, before or after its name; durations as `--timeout`
//! takes them; and exit codes, which distinguish "no" from "could not ask".

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use jiff::SignedDuration;

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Print one JSON document instead of a table.
    ///
    /// The document is valid even when gpumap fails: `errors` then says why.
    /// `gpumap schema` prints its schema.
    #[arg(long, global = true)]
    pub json: bool,
    /// Read a saved observation instead of the live node; `-` is standard
    /// input.
    ///
    /// Observations are saved with `gpumap snapshot`, and with `gpumap audit
    /// --report` as part of a report. No right is needed to read one.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// Where cgroup2 is mounted.
    ///
    /// The default is the first cgroup2 mount that no later mount hides.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub cgroup_root: Option<PathBuf>,
    /// Where the proc file system is mounted.
    ///
    /// Processes and mounts are read from it.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/proc",
        hide_short_help = true)]
    pub proc: PathBuf,
    /// Directory with the proc, sys and dev from which GPUs are listed.
    ///
    /// In a container that sees the host's files under /host, give /host. Paths of
    /// device nodes, as in `gpumap check /dev/nvidia0`, are looked up below it too.
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = "/",
        hide_short_help = true)]
    pub gpu_root: PathBuf,
    /// Slurm's gres.conf, which says which GPUs Slurm's numbers mean.
    ///
    /// The default is what the table slurm of /etc/gpumap.toml names, then the file beside
    /// the slurm.conf of the slurmd that runs, then the usual places. With --from it takes
    /// the place of the file in the saved observation.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub gres_conf: Option<PathBuf>,
    /// A file with the output of `nvidia-smi -L`, which has the UUIDs of MIG instances.
    ///
    /// The kernel does not tell them. The default is the file, or the program,
    /// that the table mig of /etc/gpumap.toml names; see FILES in gpumap(1).
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub mig_list: Option<PathBuf>,
    /// Stop observing after this time, such as 500ms or 2s, and answer with what
    /// was seen.
    ///
    /// Decoding may take a quarter of this time more; policies that are not decoded
    /// by then are unknown.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// When to colour verdicts.
    ///
    /// `auto` colours on a terminal and honours NO_COLOR.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto, hide_short_help = true)]
    pub color: Color,
    /// Print every problem and reason on standard error, and every row of a table.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Even in a pipe.
    Always,
    /// Not at all.
    Never,
}

/// Parses a duration as jiff writes and reads them: numbers with units from `ns`
/// to `h`.
///
/// # Errors
///
/// What to write instead, where the text is no duration above zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration =
        text.parse().map_err(|_| "write a number with a unit, such as 500ms, 2s or 1m".to_owned())?;
    let duration = Duration::try_from(duration).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "write a number above zero with a unit, such as 500ms or 2s".to_owned())
}

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exit {
    /// 0: yes, allowed, equal, nothing missing.
    #[default]
    Yes,
    /// 1: no: denied, mixed or different; something is left over.
    No,
    /// 2: the question was malformed or gpumap could not work.
    Failed,
    /// 3: the answer is incomplete or unknown.
    Incomplete,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Failed => 2,
            Self::Incomplete => 3,
        }
    }

    /// The worse of two. A malformed question is worst, because more rights do not
    /// help it; then an unknown answer, then a plain no.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Incomplete => 2,
            Self::Failed => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the documented spellings work and guesses do not.
    #[test]
    fn spellings() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for bad in ["", "2", "s", "-1s", "0s", "1d", "1.2.3s", "99999999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}

#[cfg(test)]
mod exit_tests {
    use super::Exit::{Failed, Incomplete, No, Yes};

    /// Make sure that the order of badness is the documented one.
    #[test]
    fn worst() {
        let order = [Yes, No, Incomplete, Failed];
        for (index, low) in order.into_iter().enumerate() {
            for high in &order[index..] {
                assert_eq!(low.worst(*high), *high);
                assert_eq!(high.worst(low), *high);
            }
        }
        assert_eq!(order.map(super::Exit::code), [0, 1, 3, 2]);
    }
}
