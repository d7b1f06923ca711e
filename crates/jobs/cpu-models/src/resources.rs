//! Resources that nodes offer and launcher pods request, as numbers that can be compared.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource;
use machinery::quantity::{Format, Quantity};

/// Amounts in thousandths, by name of the resource: `cpu`, `hugepages-2Mi`, `devices.kubevirt.io/kvm`.
pub type Resources = BTreeMap<String, i64>;

/// Reads quantities. Those that are no numbers are left out: the API server admits none.
pub(crate) fn amounts(quantities: &BTreeMap<String, resource::Quantity>) -> Resources {
    let parsed = quantities.iter().filter_map(|(name, quantity)| {
        let quantity: Quantity = quantity.0.parse().ok()?;
        Some((name.clone(), quantity.milli_value()))
    });
    parsed.collect()
}

/// What a pod requests of its node, as the scheduler computes it.
pub(crate) fn requests(pod: &PodSpec) -> Resources {
    let of = |container: &Container| {
        let requests = container.resources.as_ref();
        let requests = requests.and_then(|it| it.requests.as_ref());
        requests.map(amounts).unwrap_or_default()
    };
    let mut total = Resources::new();
    for container in &pod.containers {
        add(&mut total, of(container));
    }
    let inits = pod.init_containers.as_deref().unwrap_or_default();
    let is_sidecar = |it: &&Container| it.restart_policy.as_deref() == Some("Always");
    for sidecar in inits.iter().filter(is_sidecar) {
        add(&mut total, of(sidecar));
    }
    // Other init containers run one at a time, before the containers.
    for init in inits.iter().filter(|it| !is_sidecar(it)) {
        for (name, amount) in of(init) {
            let before = total.entry(name).or_default();
            *before = amount.max(*before);
        }
    }
    if let Some(overhead) = &pod.overhead {
        add(&mut total, amounts(overhead));
    }
    total
}

/// An amount as Kubernetes prints it.
pub(crate) fn printed(name: &str, amount: i64) -> String {
    let bytes = name.starts_with("hugepages-") || ["memory", "ephemeral-storage"].contains(&name);
    let format = if bytes {
        Format::BinarySi
    } else {
        Format::DecimalSi
    };
    Quantity::from_milli(amount, format).canonical()
}

fn add(total: &mut Resources, more: Resources) {
    for (name, amount) in more {
        let sum = total.entry(name).or_default();
        *sum = sum.saturating_add(amount);
    }
}
