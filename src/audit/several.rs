//! One cause, one finding: findings that say the same of several devices become one about
//! all of them.

use std::collections::HashMap;

use super::wording;
use crate::report::{Finding, FindingDevice};

/// Stands for the name of the device in texts that are compared: no text of a finding has
/// it, because names are made safe or come from `/dev`.
const NAME: &str = "\0";

/// Joins findings that differ in their one device alone. The first of them keeps its place.
pub(super) fn join(found: Vec<Finding>) -> Vec<Finding> {
    let mut groups: Vec<(Finding, Vec<Finding>)> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for finding in found {
        let blank = without_device(&finding);
        let key = serde_json::to_string(&blank).unwrap_or_default();
        let at = *index.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, same)) if name(&finding).is_some() => same.push(finding),
            _ => groups.push((blank, vec![finding])),
        }
    }
    groups.into_iter().flat_map(|(blank, same)| joined(blank, same)).collect()
}

/// The name of the only device of a finding.
fn name(finding: &Finding) -> Option<&str> {
    match finding.devices.as_slice() {
        [FindingDevice { name: Some(name), .. }] if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// What a finding says, whatever its device is; what decided there depends on the device.
fn without_device(finding: &Finding) -> Finding {
    let Some(name) = name(finding) else { return finding.clone() };
    let mut blank = with_texts(finding, |text| replaced(text, name));
    (blank.devices, blank.programs) = (Vec::new(), Vec::new());
    blank.processes.sort_by_key(|process| (process.pid, process.start_time));
    blank
}

fn joined(blank: Finding, mut same: Vec<Finding>) -> Vec<Finding> {
    if same.len() < 2 {
        return same;
    }
    let names: Vec<String> = same.iter().filter_map(|one| name(one).map(str::to_owned)).collect();
    let paths: Vec<String> = names.iter().map(|name| format!("/dev/{name}")).collect();
    let (names, paths) = (wording::list(&names), wording::list(&paths));
    let filled = |text: &str| text.replace(&format!("/dev/{NAME}"), &paths).replace(NAME, &names);
    let devices = same.iter().flat_map(|one| one.devices.clone()).collect();
    let mut programs = Vec::new();
    for decision in same.iter().flat_map(|one| &one.programs) {
        if !programs.contains(decision) {
            programs.push(decision.clone());
        }
    }
    // The processes in the order of the first, which begins with those that matter.
    let processes = same.first_mut().map(|first| std::mem::take(&mut first.processes)).unwrap_or_default();
    vec![Finding { devices, programs, processes, ..with_texts(&blank, filled) }]
}

/// The finding with each of its texts changed.
fn with_texts(finding: &Finding, change: impl Fn(&str) -> String) -> Finding {
    let all = |texts: &[String]| texts.iter().map(|text| change(text)).collect();
    Finding {
        summary: change(&finding.summary),
        evidence: all(&finding.evidence),
        excuses: all(&finding.excuses),
        advice: change(&finding.advice),
        command: finding.command.as_deref().map(change),
        ..finding.clone()
    }
}

/// The text with [`NAME`] where `name` stands as a word: `nvidia1` is not in `nvidia10`.
fn replaced(text: &str, name: &str) -> String {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(name) {
        let is_word = !before.chars().next_back().or(out.chars().next_back()).is_some_and(is_inside)
            && !after.chars().next().is_some_and(is_inside);
        out += before;
        out += if is_word { NAME } else { name };
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Decision;

    fn about(device: &str, summary: &str, slot: usize) -> Finding {
        Finding {
            id: "x".to_owned(),
            summary: summary.to_owned(),
            advice: format!("list /dev/{device} there"),
            devices: vec![FindingDevice { name: Some(device.to_owned()), ..FindingDevice::default() }],
            programs: vec![Decision { id: 7, decided_at: Some(slot), ..Decision::default() }],
            ..Finding::default()
        }
    }

    /// Make sure that the same is said once of several devices, and that what differs in
    /// anything else stays apart.
    #[test]
    fn alike() {
        let found = join(vec![
            about("nvidia1", "a holds nvidia1 of job 1", 4),
            about("nvidia10", "a holds nvidia10 of job 1", 6),
            about("nvidia2", "a holds nvidia2 of job 2", 8),
            Finding { ignored: Some("so".to_owned()), ..about("nvidia3", "a holds nvidia3 of job 1", 9) },
        ]);
        let said: Vec<&str> = found.iter().map(|one| one.summary.as_str()).collect();
        let expected =
            ["a holds nvidia1, nvidia10 of job 1", "a holds nvidia2 of job 2", "a holds nvidia3 of job 1"];
        assert_eq!(said, expected);
        assert_eq!(found[0].advice, "list /dev/nvidia1, /dev/nvidia10 there");
        assert_eq!((found[0].devices.len(), found[0].programs.len()), (2, 2));
        let nameless = Finding { devices: vec![FindingDevice::default()], ..about("a", "one", 1) };
        assert_eq!(join(vec![nameless.clone(), nameless]).len(), 2);
    }

    /// Make sure that a name is a word.
    #[test]
    fn words() {
        assert_eq!(
            replaced("nvidia1 nvidia10 xnvidia1 /dev/nvidia1, nvidia1.", "nvidia1"),
            "\0 nvidia10 xnvidia1 /dev/\0, \0."
        );
        assert_eq!(replaced("nvidia1nvidia1", "nvidia1"), "nvidia1nvidia1");
    }
}
