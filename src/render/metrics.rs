//! Metrics as text: the classic format 0.0.4, which node_exporter and promtool read,
//! or OpenMetrics 1.0.

use std::io::{self, Write};

use super::sanitize;
use crate::export::{Family, Metric, MetricKind, Sample};

/// A text format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// `text/plain; version=0.0.4`.
    Classic,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl MetricsFormat {
    /// The media type, as an HTTP answer names it.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Prints the metrics.
///
/// # Errors
///
/// Those of writing.
pub fn write(out: &mut dyn Write, format: MetricsFormat, families: &[Family]) -> io::Result<()> {
    for family in families {
        head(out, format, family.metric)?;
        family.samples.iter().try_for_each(|sample| line(out, family.metric, sample))?;
    }
    match format {
        MetricsFormat::Classic => Ok(()),
        MetricsFormat::OpenMetrics => writeln!(out, "# EOF"),
    }
}

/// The classic format describes what samples are called. OpenMetrics describes the
/// family: its name lacks the ending that its type demands of samples.
fn head(out: &mut dyn Write, format: MetricsFormat, metric: &Metric) -> io::Result<()> {
    let (kind, ending) = match (format, metric.kind) {
        (MetricsFormat::OpenMetrics, MetricKind::Info) => ("info", "_info"),
        (MetricsFormat::OpenMetrics, MetricKind::Counter) => ("counter", "_total"),
        (MetricsFormat::Classic, MetricKind::Counter) => ("counter", ""),
        (_, MetricKind::Gauge) | (MetricsFormat::Classic, MetricKind::Info) => ("gauge", ""),
    };
    let name = metric.name.strip_suffix(ending).unwrap_or(metric.name);
    writeln!(out, "# HELP {name} {}.", metric.help)?;
    writeln!(out, "# TYPE {name} {kind}")
}

fn line(out: &mut dyn Write, metric: &Metric, sample: &Sample) -> io::Result<()> {
    out.write_all(metric.name.as_bytes())?;
    let labels = metric.labels.iter().zip(&sample.labels).filter(|(_, value)| !value.is_empty());
    let mut before = '{';
    for (label, value) in labels {
        write!(out, "{before}{label}=\"{}\"", escaped(value))?;
        before = ',';
    }
    let end = if before == ',' { "}" } else { "" };
    writeln!(out, "{end} {}", sample.value)
}

/// Text that is harmless on a terminal, with what ends a label value escaped. There is
/// no line end left in it.
fn escaped(text: &str) -> String {
    sanitize::text(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &Metric =
        &Metric { name: "gpumap_x_info", kind: MetricKind::Info, help: "Something", labels: &["a", "name"] };
    const COUNTER: &Metric =
        &Metric { name: "gpumap_y_total", kind: MetricKind::Counter, help: "Another", labels: &[] };

    fn text(format: MetricsFormat, families: &[Family]) -> String {
        let mut out = Vec::new();
        write(&mut out, format, families).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn info(value: &str) -> Family {
        let labels = vec![String::new(), value.to_owned()];
        Family { metric: INFO, samples: vec![Sample { labels, value: 1.5 }] }
    }

    /// Make sure that no value of a label can end it, begin a line or act on a
    /// terminal.
    #[test]
    fn hostile_labels() {
        for hostile in ["a\"} 7\ngpumap_y 1", "\\", "a\\\"b", "\u{202e}\u{9b}2J\0\r", "\\n"] {
            let text = text(MetricsFormat::Classic, &[info(hostile)]);
            assert_eq!(text.lines().count(), 3, "{text:?}");
            let line = text.lines().last().unwrap();
            let value = line.strip_prefix("gpumap_x_info{name=\"").and_then(|it| it.strip_suffix("\"} 1.5"));
            let mut rest = value.unwrap().chars();
            while let Some(c) = rest.next() {
                assert!(c != '"' && !sanitize::is_hostile(c), "{value:?}");
                assert!(c != '\\' || matches!(rest.next(), Some('\\' | '"')), "{value:?}");
            }
        }
    }

    /// Make sure that each format names types and families as it demands, and that
    /// the end of OpenMetrics is there and nowhere else.
    #[test]
    fn formats() {
        let counter = Family { metric: COUNTER, samples: vec![Sample { labels: Vec::new(), value: 3.0 }] };
        let families = [info("v"), counter];
        assert_eq!(
            text(MetricsFormat::Classic, &families),
            "# HELP gpumap_x_info Something.\n# TYPE gpumap_x_info gauge\ngpumap_x_info{name=\"v\"} 1.5\n\
             # HELP gpumap_y_total Another.\n# TYPE gpumap_y_total counter\ngpumap_y_total 3\n"
        );
        assert_eq!(
            text(MetricsFormat::OpenMetrics, &families),
            "# HELP gpumap_x Something.\n# TYPE gpumap_x info\ngpumap_x_info{name=\"v\"} 1.5\n\
             # HELP gpumap_y Another.\n# TYPE gpumap_y counter\ngpumap_y_total 3\n# EOF\n"
        );
        assert_eq!(text(MetricsFormat::OpenMetrics, &[]), "# EOF\n");
    }
}
