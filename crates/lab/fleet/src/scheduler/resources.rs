//! Resource requests of pods and capacity of nodes.

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use machinery::quantity::Quantity as Exact;

/// Upstream's defaults for containers without requests, for scoring only.
// `DefaultMilliCPURequest` and `DefaultMemoryRequest` in `pkg/scheduler/util/pod_resources.go`:
// pods without requests would otherwise all go to one node.
const USUAL_CPU: i64 = 100;
const USUAL_MEMORY: i64 = 200 << 20;

/// Resource quantities: cpu in millicores, all others in units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resources {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) storage: i64,
    pub(crate) pods: i64,
    pub(crate) others: BTreeMap<String, i64>,
}

type List = BTreeMap<String, Quantity>;

impl Resources {
    pub(crate) fn of(list: Option<&List>) -> Self {
        let mut all = Self::default();
        for (name, quantity) in list.into_iter().flatten() {
            let Ok(exact) = Exact::from_str(&quantity.0) else {
                continue;
            };
            match name.as_str() {
                "cpu" => all.cpu = exact.milli_value(),
                "memory" => all.memory = exact.value(),
                "ephemeral-storage" => all.storage = exact.value(),
                "pods" => all.pods = exact.value(),
                _ => {
                    all.others.insert(name.clone(), exact.value());
                }
            }
        }
        all
    }

    /// The quantities by resource name.
    fn amounts(&self) -> impl Iterator<Item = (&str, i64)> {
        let fixed = [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.storage),
            ("pods", self.pods),
        ];
        let others = self
            .others
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount));
        fixed.into_iter().chain(others)
    }

    pub(crate) fn amount(&self, name: &str) -> i64 {
        self.amounts()
            .find(|(known, _)| *known == name)
            .map_or(0, |(_, amount)| amount)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.combine(other, i64::saturating_sub);
        self.others.retain(|_, amount| *amount != 0);
    }

    fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        self.cpu = with(self.cpu, other.cpu);
        self.memory = with(self.memory, other.memory);
        self.storage = with(self.storage, other.storage);
        self.pods = with(self.pods, other.pods);
        for (name, amount) in &other.others {
            let mine = self.others.entry(name.clone()).or_insert(0);
            *mine = with(*mine, *amount);
        }
    }

    /// The resources that do not fit into `has` when `used` of it is in use. This runs for every
    /// node, so it avoids allocations.
    pub(crate) fn missing_in<'a>(&'a self, has: &Self, used: &Self) -> Vec<&'a str> {
        let mut missing = Vec::new();
        let mut check = |name: &'a str, wanted: i64, has: i64, used: i64| {
            if wanted > 0 && wanted > has.saturating_sub(used) {
                missing.push(name);
            }
        };
        check("cpu", self.cpu, has.cpu, used.cpu);
        check("memory", self.memory, has.memory, used.memory);
        check("ephemeral-storage", self.storage, has.storage, used.storage);
        for (name, wanted) in &self.others {
            let of = |all: &Self| all.others.get(name).copied().unwrap_or_default();
            check(name, *wanted, of(has), of(used));
        }
        missing
    }
}

fn requests(of: Option<&ResourceRequirements>) -> Resources {
    Resources::of(of.and_then(|resources| resources.requests.as_ref()))
}

/// Whether an init container is a sidecar (restartPolicy `Always`).
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The requests of a pod: the sum of its containers, or the maximum of its init containers on top
/// of the sidecars, whichever is more; plus the overhead of its runtime class.
pub(crate) fn of_pod(spec: &PodSpec) -> Resources {
    total(spec, |container| requests(container.resources.as_ref()))
}

/// The same for scoring: containers without requests count with the defaults.
pub(crate) fn usual_of_pod(spec: &PodSpec) -> (i64, i64) {
    let total = total(spec, |container| {
        let mut asked = requests(container.resources.as_ref());
        asked.others.clear();
        if asked.cpu == 0 {
            asked.cpu = USUAL_CPU;
        }
        if asked.memory == 0 {
            asked.memory = USUAL_MEMORY;
        }
        asked
    });
    (total.cpu, total.memory)
}

fn total(spec: &PodSpec, of: impl Fn(&Container) -> Resources) -> Resources {
    let mut together = Resources::default();
    for container in &spec.containers {
        together.add(&of(container));
    }
    let (mut stay, mut peak) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let mut now = of(container);
        if is_sidecar(container) {
            together.add(&now);
            stay.add(&now);
            peak.raise_to(&stay);
        } else {
            // An init container runs beside the sidecars that were started before it, and not
            // beside later ones.
            now.add(&stay);
            peak.raise_to(&now);
        }
    }
    together.raise_to(&peak);
    // Pod-level resources take precedence.
    let whole = requests(spec.resources.as_ref());
    if whole.cpu > 0 {
        together.cpu = whole.cpu;
    }
    if whole.memory > 0 {
        together.memory = whole.memory;
    }
    together.add(&Resources::of(spec.overhead.as_ref()));
    together
}
