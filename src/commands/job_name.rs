//! Jobs as the user names them, and as Slurm names them to its hooks.

use std::env;

use super::Failure;
use crate::owner::JobName;

/// The jobs named on the command line; with `from_env` and no name, that of
/// the hook.
pub(super) fn all(ids: &[String], from_env: bool) -> Result<Vec<JobName>, Failure> {
    match ids {
        [] if from_env => Ok(vec![of_hook()?]),
        ids => ids.iter().map(|id| parse(id)).collect(),
    }
}

/// The one job that is meant. In a hook no other can be named, because the
/// allocation and the user would still be the hook's.
pub(super) fn one(id: Option<&str>, from_env: bool) -> Result<JobName, Failure> {
    let named = id.map(parse).transpose()?;
    let hook = if from_env { Some(of_hook()?) } else { None };
    match (named, hook) {
        (Some(JobName::Number(named)), Some(hook)) if hook != JobName::Number(named) => {
            let why = "names another job than SLURM_JOB_ID, which --from-env takes";
            Err(Failure::new("usage", format!("--job {named}"), why, "leave out one of the two"))
        }
        (_, Some(hook)) => Ok(hook),
        (Some(named), None) => Ok(named),
        (None, None) => Err(Failure::new("usage", "", "no job was named", "name one with --job ID")),
    }
}

/// A job's number or SLUID.
pub(super) fn parse(id: &str) -> Result<JobName, Failure> {
    JobName::parse(id).ok_or_else(|| {
        let needs = "write its number, such as 4711, or its SLUID, such as sEKNKTV3WPV500";
        Failure::new("usage", format!("'{id}'"), "not a job", needs)
    })
}

/// The user whose job the hook is for, if Slurm says.
pub(super) fn hook_uid() -> Option<u32> {
    env::var("SLURM_JOB_UID").ok()?.parse().ok()
}

/// How messages and headings call a job.
pub(super) fn text(job: &JobName) -> String {
    match job {
        JobName::Number(number) => format!("job {number}"),
        JobName::Sluid(sluid) => format!("job {sluid}"),
    }
}

fn of_hook() -> Result<JobName, Failure> {
    let id = env::var_os("SLURM_JOB_ID").unwrap_or_default();
    let number = id.to_str().and_then(|id| id.parse().ok());
    number.map(JobName::Number).ok_or_else(|| {
        let why = if id.is_empty() { "SLURM_JOB_ID is not set" } else { "SLURM_JOB_ID is not a job number" };
        Failure::new("usage", "--from-env", why, "use it in a Prolog or Epilog only, or name the job")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what is no job is refused with both forms there are.
    #[test]
    fn refusal_names_both_forms() {
        for bad in ["", "x", "4711_3", "4711.0", "-1", "99999999999999999999", "\x1b[2J"] {
            let text = parse(bad).unwrap_err().to_string();
            assert!(text.contains("4711") && text.contains("sEKNKTV3WPV500"), "{text}");
            assert!(!text.contains('\x1b'), "{text:?}");
        }
        assert_eq!(all(&["7".to_owned(), "8".to_owned()], false).unwrap().len(), 2);
    }
}
