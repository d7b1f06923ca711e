//! Metrics for Prometheus.
//!
//! Names begin with `medley_`, except for metrics taken over from another operator, whose names and
//! labels dashboards and alerts already use. Register a family once. Series of an object are removed
//! with the object; otherwise they would be exported until the process restarts.

mod catalogue;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
pub use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::histogram::exponential_buckets;
use prometheus_client::registry::{Metric, Registry};

pub use catalogue::Described;

use crate::{Key, Queue, WriteFence};

/// The content type of the rendered text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Help text of `medley_queue_length`.
const QUEUE_LENGTH: &str = "Number of objects queued for reconciliation";
/// Help text of `medley_undecodable_objects`.
const UNDECODABLE: &str = "Objects that cannot be decoded and are ignored, by kind";
/// Help text of [`Leads`].
const LEADER: &str = "1 while this replica holds the lease or leader election is disabled, else 0";

/// A value that goes up and down.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<f64, AtomicU64>;
/// Histograms by labels.
pub type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of a process; clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Metrics under names of other operators, without the prefix.
    adopted: Arc<Mutex<Registry>>,
    catalogue: Arc<Mutex<Vec<Described>>>,
    queues: Lengths,
    undecodable: Lengths,
    reconciles: Family<Outcome, Counter>,
    durations: Histograms<Controller>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: &'static str,
    result: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(WriteFence::unelected())
    }
}

/// A histogram of seconds, with buckets from a millisecond to half a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    /// The metrics of a process; the fence provides `medley_leader`.
    pub fn new(fence: WriteFence) -> Self {
        let mut registry = Registry::with_prefix("medley");
        registry.register_collector(Box::new(Leads(fence)));
        let queues = Lengths::new("queue_length", QUEUE_LENGTH, "controller");
        let undecodable = Lengths::new("undecodable_objects", UNDECODABLE, "kind");
        for lengths in [&queues, &undecodable] {
            registry.register_collector(Box::new(lengths.clone()));
        }
        let metrics = Self {
            registry: Arc::new(Mutex::new(registry)),
            adopted: Arc::default(),
            catalogue: Arc::default(),
            queues,
            undecodable,
            reconciles: Family::default(),
            durations: Family::new_with_constructor(seconds),
        };
        metrics.describe("leader", "gauge", Vec::new(), LEADER);
        for lengths in [&metrics.queues, &metrics.undecodable] {
            let labels = vec![lengths.label.to_owned()];
            metrics.describe(lengths.name, "gauge", labels, lengths.help);
        }
        metrics.register::<Outcome>(
            ("reconcile", "counter"),
            "Number of reconciles by controller and result",
            metrics.reconciles.clone(),
        );
        metrics.register::<Controller>(
            ("reconcile_duration_seconds", "histogram"),
            "Duration of reconciles",
            metrics.durations.clone(),
        );
        metrics
    }

    /// A family of counters; `_total` is appended to the name. Register it once.
    pub fn counter<L: Labels + Default>(&self, name: &str, help: &str) -> Family<L, Counter> {
        let family = Family::default();
        self.register::<L>((name, "counter"), help, family.clone());
        family
    }

    /// A family of duration histograms; the name ends with `_seconds`. Register it once.
    pub fn seconds<L: Labels + Default>(&self, name: &str, help: &str) -> Histograms<L> {
        let family = Histograms::new_with_constructor(seconds);
        self.register::<L>((name, "histogram"), help, family.clone());
        family
    }

    /// A family of gauges whose series belong to objects. Register it once.
    pub fn gauges<L: Labels + Default>(&self, name: &str, help: &str) -> Gauges<L> {
        let gauges = Gauges::new();
        self.register::<L>((name, "gauge"), help, gauges.family.clone());
        gauges
    }

    /// Like [`Metrics::gauges`], under the name and with the labels another operator uses. Register it
    /// once.
    pub fn adopted_gauges<L: Labels>(&self, name: &str, labels: &[&str], help: &str) -> Gauges<L> {
        let gauges = Gauges::new();
        self.catalogue.lock().push(Described {
            name: name.to_owned(),
            kind: "gauge",
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            help: help.to_owned(),
        });
        let mut adopted = self.adopted.lock();
        adopted.register(name, help, gauges.family.clone());
        gauges
    }

    fn register<L: Labels + Default>(
        &self,
        (name, kind): (&str, &'static str),
        help: &str,
        metric: impl Metric,
    ) {
        self.describe(name, kind, catalogue::names::<L>(), help);
        self.registry.lock().register(name, help, metric);
    }

    fn describe(&self, name: &str, kind: &'static str, labels: Vec<String>, help: &str) {
        let end = if kind == "counter" { "_total" } else { "" };
        self.catalogue.lock().push(Described {
            name: format!("medley_{name}{end}"),
            kind,
            labels,
            help: help.to_owned(),
        });
    }

    /// All metrics registered so far, by name.
    pub fn described(&self) -> Vec<Described> {
        let mut all = self.catalogue.lock().clone();
        all.sort();
        all
    }

    /// All metrics in the OpenMetrics text format ([`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Fails only if writing to a string does.
        // The adopted ones first: `encode_registry` writes no end marker, and `encode` ends with
        // `# EOF`, after which a parser reads nothing.
        let _ = text::encode_registry(&mut text, &self.adopted.lock());
        let _ = text::encode(&mut text, &self.registry.lock());
        text
    }

    /// Counts the objects of a kind that a cache cannot decode.
    pub(crate) fn count_undecodable(
        &self,
        kind: &str,
        count: impl Fn() -> usize + Send + Sync + 'static,
    ) {
        self.undecodable.add(kind, count);
    }

    /// The metrics of a controller and its queue.
    pub(crate) fn controller<T>(&self, name: &'static str, queue: &Queue<T>) -> Work
    where
        T: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let queue = queue.clone();
        self.queues.add(name, move || queue.len());
        let count = |result| {
            self.reconciles.get_or_create_owned(&Outcome {
                controller: name,
                result,
            })
        };
        Work {
            success: count("success"),
            later: count("requeue_after"),
            conflict: count("conflict"),
            error: count("error"),
            defect: count("panic"),
            duration: self
                .durations
                .get_or_create_owned(&Controller { controller: name }),
        }
    }
}

/// The labels of a family: a struct that derives `EncodeLabelSet`.
pub trait Labels: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static {}
impl<L> Labels for L where L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static {}

/// The metrics of one controller. The results have controller-runtime's names, and two more: a
/// conflicting write (`conflict`) and a panic (`panic`).
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) success: Counter,
    pub(crate) later: Counter,
    pub(crate) conflict: Counter,
    pub(crate) error: Counter,
    pub(crate) defect: Counter,
    pub(crate) duration: Histogram,
}

/// Gauges whose series belong to objects, by labels; clones share them.
pub struct Gauges<L> {
    family: Family<L, Gauge>,
    /// The series of each object.
    of: Arc<Mutex<HashMap<Key, Vec<L>>>>,
}

impl<L> Clone for Gauges<L> {
    fn clone(&self) -> Self {
        Self {
            family: self.family.clone(),
            of: Arc::clone(&self.of),
        }
    }
}

impl<L: Labels> Gauges<L> {
    fn new() -> Self {
        Self {
            family: Family::default(),
            of: Arc::default(),
        }
    }

    /// Sets the series of an object; its series that are not given are removed.
    pub fn set(&self, object: &Key, series: impl IntoIterator<Item = (L, f64)>) {
        let series: HashMap<L, f64> = series.into_iter().collect();
        let mut of = self.of.lock();
        // One lock for removal and insertion: a `forget` between the two would leave series that belong to no object.
        let old = of.remove(object).unwrap_or_default();
        for labels in old.iter().filter(|labels| !series.contains_key(labels)) {
            self.family.remove(labels);
        }
        for (labels, value) in &series {
            self.family.get_or_create(labels).set(*value);
        }
        if !series.is_empty() {
            of.insert(object.clone(), series.into_keys().collect());
        }
    }

    /// Removes all series of an object.
    pub fn forget(&self, object: &Key) {
        self.set(object, []);
    }
}

/// Whether this process is the leader.
#[derive(Debug)]
struct Leads(WriteFence);

impl Collector for Leads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let encoder = encoder.encode_descriptor("leader", LEADER, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(self.0.is_leader())).encode(encoder)
    }
}

type Length = Box<dyn Fn() -> usize + Send + Sync>;

/// Lengths that are read at scrape time, summed by the value of one label; clones share them.
#[derive(Clone)]
struct Lengths {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    of: Arc<Mutex<Vec<(String, Length)>>>,
}

impl Lengths {
    fn new(name: &'static str, help: &'static str, label: &'static str) -> Self {
        Self {
            name,
            help,
            label,
            of: Arc::default(),
        }
    }

    fn add(&self, value: &str, length: impl Fn() -> usize + Send + Sync + 'static) {
        self.of.lock().push((value.to_owned(), Box::new(length)));
    }
}

impl Debug for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lengths").field(&self.name).finish()
    }
}

impl Collector for Lengths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        // Read at scrape time rather than counted on each change: a gauge that is incremented and decremented in many
        // places drifts, a length cannot.
        let of = self.of.lock();
        let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
        for (value, length) in &*of {
            *lengths.entry(value).or_default() += length();
        }
        let mut family =
            encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        for (value, length) in lengths {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let labels = [(self.label, value)];
            let encoder = family.encode_family(&labels)?;
            ConstGauge::new(length).encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
