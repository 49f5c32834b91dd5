//! Counters, gauges and histograms, and how Prometheus reads them. Small on purpose: fixed families, explicit buckets,
//! a bounded number of series. Knows nothing of what is counted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Series of one family; further label values are counted under [`OTHER`], so that nobody can fill the memory.
const MAX_SERIES: usize = 500;
const OTHER: &str = "other";

/// Counts up only.
pub struct Counter(Family<f64>);

/// Observed durations, in seconds.
pub struct Histogram {
    family: Family<Buckets>,
    bounds: &'static [f64],
}

struct Family<T> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    series: Mutex<BTreeMap<Vec<String>, T>>,
}

#[derive(Clone, Default)]
struct Buckets {
    /// One more than bounds: the last has no bound.
    counts: Vec<u64>,
    sum: f64,
}

impl<T: Clone + Default> Family<T> {
    const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Family<T> {
        Family { name, help, labels, series: Mutex::new(BTreeMap::new()) }
    }

    fn change(&self, values: &[&str], change: impl FnOnce(&mut T)) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        if series.len() >= MAX_SERIES && !series.contains_key(&key) {
            key.iter_mut().for_each(|value| OTHER.clone_into(value));
        }
        change(series.entry(key).or_default());
    }

    fn all(&self) -> BTreeMap<Vec<String>, T> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn head(&self, text: &mut String, kind: &str) {
        head(text, self.name, self.help, kind);
    }
}

impl Counter {
    pub const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Counter {
        Counter(Family::new(name, help, labels))
    }

    pub fn add(&self, values: &[&str], count: f64) {
        self.0.change(values, |sum| *sum += count);
    }

    pub fn render(&self, text: &mut String) {
        self.0.head(text, "counter");
        for (values, sum) in self.0.all() {
            line(text, self.0.name, &pairs(self.0.labels, &values), sum);
        }
    }
}

impl Histogram {
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Histogram {
        Histogram { family: Family::new(name, help, labels), bounds }
    }

    pub fn observe_ms(&self, values: &[&str], ms: u64) {
        let seconds = ms as f64 / 1_000.0;
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.family.change(values, |buckets| {
            buckets.counts.resize(self.bounds.len() + 1, 0);
            buckets.counts[bucket] += 1;
            buckets.sum += seconds;
        });
    }

    pub fn render(&self, text: &mut String) {
        self.family.head(text, "histogram");
        let name = self.family.name;
        for (values, buckets) in self.family.all() {
            let labels = pairs(self.family.labels, &values);
            let mut count = 0;
            for (place, found) in buckets.counts.iter().enumerate() {
                count += found;
                let bound = self.bounds.get(place).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                let mut labels = labels.clone();
                labels.push(("le", bound));
                line(text, &format!("{name}_bucket"), &labels, count as f64);
            }
            line(text, &format!("{name}_sum"), &labels, buckets.sum);
            line(text, &format!("{name}_count"), &labels, count as f64);
        }
    }
}

/// Gauges are read when somebody asks: name, help, and each series with its labels.
pub fn gauge(text: &mut String, name: &str, help: &str, series: &[(Vec<(&str, String)>, f64)]) {
    head(text, name, help, "gauge");
    for (labels, value) in series {
        line(text, name, labels, *value);
    }
}

fn pairs<'a>(names: &'a [&'a str], values: &[String]) -> Vec<(&'a str, String)> {
    names.iter().copied().zip(values.iter().cloned()).collect()
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    // Writing into a text cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &[(&str, String)], value: f64) {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_reads_it() {
        let counter = Counter::new("a_total", "Counted.", &["what"]);
        counter.add(&["x\"y\\\n"], 2.0);
        counter.add(&["x\"y\\\n"], 0.5);
        let histogram = Histogram::new("b_seconds", "Took.", &[], &[0.1, 1.0]);
        for ms in [50, 100, 500, 5_000] {
            histogram.observe_ms(&[], ms);
        }
        let mut text = String::new();
        counter.render(&mut text);
        histogram.render(&mut text);
        let expected = r#"# HELP a_total Counted.
# TYPE a_total counter
a_total{what="x\"y\\\n"} 2.5
# HELP b_seconds Took.
# TYPE b_seconds histogram
b_seconds_bucket{le="0.1"} 2
b_seconds_bucket{le="1"} 3
b_seconds_bucket{le="+Inf"} 4
b_seconds_sum 5.65
b_seconds_count 4
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn series_are_bounded() {
        let counter = Counter::new("a_total", "Counted.", &["what"]);
        for number in 0..MAX_SERIES * 2 {
            counter.add(&[&number.to_string()], 1.0);
        }
        let all = counter.0.all();
        assert_eq!(all.len(), MAX_SERIES + 1);
        assert_eq!(all[&vec![OTHER.to_owned()]], MAX_SERIES as f64);
    }
}
