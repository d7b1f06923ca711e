//! The list of registered metrics, for the reference documentation. It is built from the registry, so
//! that no metric can be missing.

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Labels;

/// A metric family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// The name without suffixes such as `_total`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// The help text.
    pub help: String,
}

impl Described {
    /// The series names queries may use, with their suffixes.
    pub fn names(&self) -> Vec<String> {
        if self.kind == "histogram" {
            let parts = ["_bucket", "_sum", "_count"];
            return parts.map(|part| format!("{}{part}", self.name)).to_vec();
        }
        vec![self.name.clone()]
    }
}

/// The names of labels, in their order. Only an encoded series has them.
pub(super) fn names<L: Labels + Default>() -> Vec<String> {
    let family: Family<L, Counter> = Family::default();
    drop(family.get_or_create(&L::default()));
    let mut registry = Registry::default();
    registry.register("x", "x", family);
    let mut encoded = String::new();
    // Fails only if writing to a string does.
    let _ = text::encode(&mut encoded, &registry);
    let mut lines = encoded.lines();
    let series = lines.find_map(|line| line.strip_prefix("x_total{"));
    let labels = series.and_then(|line| line.split_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels);
    labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(name, _)| name.to_owned())
        .collect()
}
