//! Which metrics there are, for those who read about them. It is made of what is registered, so that none
//! can be left out.

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Labels;

/// A family of series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// What it is called, as queries name it.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What its series differ in.
    pub labels: Vec<String>,
    /// What it says.
    pub help: String,
}

impl Described {
    /// Every name that queries may use for it.
    pub fn names(&self) -> Vec<String> {
        if self.kind == "histogram" {
            let parts = ["_bucket", "_sum", "_count"];
            return parts.map(|part| format!("{}{part}", self.name)).to_vec();
        }
        vec![self.name.clone()]
    }
}

/// The names of labels, in their order. They can be had only from a series that has them.
pub(super) fn names<L: Labels + Default>() -> Vec<String> {
    let family: Family<L, Counter> = Family::default();
    drop(family.get_or_create(&L::default()));
    let mut registry = Registry::default();
    registry.register("x", "x", family);
    let mut told = String::new();
    // Fails only where writing to a string does.
    let _ = text::encode(&mut told, &registry);
    let mut lines = told.lines();
    let series = lines.find_map(|line| line.strip_prefix("x_total{"));
    let labels = series.and_then(|line| line.split_once('}'));
    let labels = labels.map_or("", |(labels, _)| labels);
    labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(name, _)| name.to_owned())
        .collect()
}
