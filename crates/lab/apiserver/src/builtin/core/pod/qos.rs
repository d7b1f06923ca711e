//! The quality of service class of a pod (`pkg/apis/core/helper/qos`).

use machinery::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

use crate::builtin::resources::quantity;
use crate::builtin::value::Read;

type Sums<'a> = BTreeMap<&'a str, Quantity>;

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Sums::new(), Sums::new());
    let mut guaranteed = true;
    if spec.has("resources") {
        add(&mut requests, spec, "resources.requests");
        if spec.count("resources.limits") > 0 {
            guaranteed = add(&mut limits, spec, "resources.limits");
        }
    } else {
        for container in spec
            .items("containers")
            .iter()
            .chain(spec.items("initContainers"))
        {
            add(&mut requests, container, "resources.requests");
            guaranteed &= add(&mut limits, container, "resources.limits");
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let covered = requests
        .iter()
        .all(|(name, amount)| limits.get(name) == Some(amount));
    if guaranteed && covered && requests.len() == limits.len() {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds up cpu and memory; returns whether both were present.
fn add<'a>(sums: &mut Sums<'a>, owner: &'a Value, path: &str) -> bool {
    let mut found = 0;
    for (name, value) in owner.entries(path) {
        let amount = quantity(value);
        // Other resources do not count, and zero counts as not set.
        if !matches!(name, "cpu" | "memory") || amount.sign() <= 0 {
            continue;
        }
        found += 1;
        let sum = sums
            .get(name)
            .and_then(|sum| sum.checked_add(&amount))
            .unwrap_or(amount);
        sums.insert(name, sum);
    }
    found == 2
}
