//! Numbers about the work, for Prometheus.
//!
//! Every name begins with `medley_`, but for those that have another meaning elsewhere already: whoever
//! takes over the work of another operator keeps its names. A family of series is made once; what is
//! said of an object is taken back when the object goes, or it would be told forever.

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

use crate::{Key, Queue, Turn};

/// What the rendered text is, as HTTP names it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is told of [`Queues`].
const QUEUE_LENGTH: &str = "How many objects wait to be looked at";
/// What is told of [`Leads`].
const LEADER: &str =
    "Whether this process may write: 1 while it holds the lease, or if it is alone";

/// A value that goes up and down.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<f64, AtomicU64>;
/// Histograms by labels.
pub type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All numbers of a process; clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// What goes by the names of others.
    adopted: Arc<Mutex<Registry>>,
    catalogue: Arc<Mutex<Vec<Described>>>,
    queues: Queues,
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
        Self::new(Turn::always())
    }
}

/// A histogram of seconds, from a millisecond to half a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    /// Those of a process that works when it is its turn.
    pub fn new(turn: Turn) -> Self {
        let mut registry = Registry::with_prefix("medley");
        registry.register_collector(Box::new(Leads(turn)));
        let queues = Queues::default();
        registry.register_collector(Box::new(queues.clone()));
        let metrics = Self {
            registry: Arc::new(Mutex::new(registry)),
            adopted: Arc::default(),
            catalogue: Arc::default(),
            queues,
            reconciles: Family::default(),
            durations: Family::new_with_constructor(seconds),
        };
        metrics.describe("leader", "gauge", Vec::new(), LEADER);
        let by_controller = vec!["controller".to_owned()];
        metrics.describe("queue_length", "gauge", by_controller, QUEUE_LENGTH);
        metrics.register::<Outcome>(
            ("reconcile", "counter"),
            "How often a controller looked at an object, and with what result",
            metrics.reconciles.clone(),
        );
        metrics.register::<Controller>(
            ("reconcile_duration_seconds", "histogram"),
            "How long a controller took to look at an object",
            metrics.durations.clone(),
        );
        metrics
    }

    /// Counts by labels; `_total` is added to the name. Make it once.
    pub fn counter<L: Labels + Default>(&self, name: &str, help: &str) -> Family<L, Counter> {
        let family = Family::default();
        self.register::<L>((name, "counter"), help, family.clone());
        family
    }

    /// How long things take, by labels; the name ends with `_seconds`. Make it once.
    pub fn seconds<L: Labels + Default>(&self, name: &str, help: &str) -> Histograms<L> {
        let family = Histograms::new_with_constructor(seconds);
        self.register::<L>((name, "histogram"), help, family.clone());
        family
    }

    /// Values of objects, by labels. Make it once.
    pub fn gauges<L: Labels + Default>(&self, name: &str, help: &str) -> Gauges<L> {
        let gauges = Gauges::new();
        self.register::<L>((name, "gauge"), help, gauges.family.clone());
        gauges
    }

    /// Values of objects under the name that another operator gave them, and with its labels. Make it once.
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

    /// All there are so far, by name.
    pub fn described(&self) -> Vec<Described> {
        let mut all = self.catalogue.lock().clone();
        all.sort();
        all
    }

    /// Everything as OpenMetrics text; [`CONTENT_TYPE`] says so to the reader.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Fails only where writing to a string does.
        let _ = text::encode_registry(&mut text, &self.adopted.lock());
        let _ = text::encode(&mut text, &self.registry.lock());
        text
    }

    /// What is told of a controller.
    pub(crate) fn controller<T>(&self, name: &'static str, queue: &Queue<T>) -> Work
    where
        T: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let queue = queue.clone();
        self.queues
            .0
            .lock()
            .push((name, Box::new(move || queue.len())));
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

/// What series of a family differ in: a struct that derives `EncodeLabelSet`.
pub trait Labels: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static {}
impl<L> Labels for L where L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static {}

/// What is counted of one controller. The results are named as controller-runtime names them, and
/// two more: being overtaken by somebody (`conflict`), and a defect (`panic`).
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) success: Counter,
    pub(crate) later: Counter,
    pub(crate) conflict: Counter,
    pub(crate) error: Counter,
    pub(crate) defect: Counter,
    pub(crate) duration: Histogram,
}

/// Values that objects have, by labels; clones share them.
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

    /// Says all there is to say of an object: series said before and not now are gone.
    pub fn set(&self, object: &Key, series: impl IntoIterator<Item = (L, f64)>) {
        let series: HashMap<L, f64> = series.into_iter().collect();
        let mut of = self.of.lock();
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

    /// Takes back all that was said of an object.
    pub fn forget(&self, object: &Key) {
        self.set(object, []);
    }
}

/// Whether this is the process that works.
#[derive(Debug)]
struct Leads(Turn);

impl Collector for Leads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let encoder = encoder.encode_descriptor("leader", LEADER, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(self.0.is_now())).encode(encoder)
    }
}

type Length = Box<dyn Fn() -> usize + Send + Sync>;

/// How much there is to do, asked when somebody wants to know.
#[derive(Clone, Default)]
struct Queues(Arc<Mutex<Vec<(&'static str, Length)>>>);

impl Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").finish_non_exhaustive()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut lengths: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (controller, length) in &*self.0.lock() {
            *lengths.entry(controller).or_default() += length();
        }
        let mut family =
            encoder.encode_descriptor("queue_length", QUEUE_LENGTH, None, MetricType::Gauge)?;
        for (controller, length) in lengths {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let labels = [("controller", controller)];
            let encoder = family.encode_family(&labels)?;
            ConstGauge::new(length).encode(encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
