//! What a metric is: its name, its type, its labels and what it says.

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows as long as gpumap runs; its name ends in `_total`.
    Counter,
    /// Facts that are labels, with the value 1; its name ends in `_info`.
    Info,
}

/// A metric. Its name and its labels are a contract: dashboards and rules of sites
/// rest on them.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as samples have it.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: MetricKind,
    /// What it says, without a full stop.
    pub help: &'static str,
    /// The names of its labels. A label whose value is empty is left out of a sample:
    /// to Prometheus both are the same.
    pub labels: &'static [&'static str],
}

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The metric.
    pub metric: &'static Metric,
    /// Its samples; no two have the same labels.
    pub samples: Vec<Sample>,
}

/// One sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The values of the metric's labels, in their order: plain text without control
    /// characters.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

/// Characters of a label's value. Names of directories, which most values come from,
/// have at most 255 bytes.
const LONGEST: usize = 256;

impl Family {
    /// The family of one value without labels.
    pub(super) fn one(metric: &'static Metric, value: f64) -> Self {
        Self::of(metric, [(Vec::new(), value)])
    }

    /// The family of these samples. Of samples with the same labels the first is
    /// kept: Prometheus would refuse all of them.
    pub(super) fn of(metric: &'static Metric, samples: impl IntoIterator<Item = (Vec<String>, f64)>) -> Self {
        let plain = |(labels, value): (Vec<String>, f64)| Sample {
            labels: labels.iter().map(|value| plain(value)).collect(),
            value,
        };
        let mut samples: Vec<Sample> = samples.into_iter().map(plain).collect();
        samples.sort_by(|one, other| one.labels.cmp(&other.labels));
        samples.dedup_by(|one, other| one.labels == other.labels);
        Self { metric, samples }
    }

    /// A gauge that is 1 for each of these label values.
    pub(super) fn ones(metric: &'static Metric, labels: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self::of(metric, labels.into_iter().map(|labels| (labels, 1.0)))
    }
}

/// Text as a label's value: short, with escapes for whatever does not show itself.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().take(LONGEST) {
        match c {
            ' ' => out.push(c),
            c if c.is_ascii_graphic() || c.is_alphanumeric() => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// A count as a value; exact below 2^53, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "no count here reaches 2^53")]
pub(super) fn count(count: u64) -> f64 {
    count as f64
}
