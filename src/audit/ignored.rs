//! Findings that the configuration accepts, until a day.

use jiff::civil::Date;

use super::config::{Config, Ignore};
use super::parse::day;
use crate::model::CgroupPath;
use crate::report::Finding;

/// Marks what is accepted on the day of the observation.
pub(super) fn mark(findings: &mut [Finding], config: &Config, taken_at: &str) {
    let today = day(taken_at);
    for finding in findings {
        let accepted = config.ignore.iter().find(|ignore| covers(ignore, finding, today));
        finding.ignored = accepted.map(|ignore| ignore.reason.clone());
    }
}

fn covers(ignore: &Ignore, finding: &Finding, today: Option<Date>) -> bool {
    let in_time = today.is_some_and(|today| today <= ignore.until);
    let in_place = ignore.cgroup.as_ref().is_none_or(|top| {
        finding
            .cgroup
            .as_ref()
            .is_some_and(|cgroup| CgroupPath::new(cgroup).is_at_or_below(CgroupPath::new(top)))
    });
    let of_gpu = ignore
        .gpu
        .as_ref()
        .is_none_or(|key| finding.devices.iter().any(|device| device.gpu.as_ref() == Some(key)));
    ignore.id == finding.id && in_time && in_place && of_gpu
}
