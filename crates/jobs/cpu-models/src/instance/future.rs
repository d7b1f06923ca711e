//! What the launcher pod of an instance will request, from the spec of the instance.

use std::collections::BTreeMap;

use api::kubevirt::VirtualMachineInstanceSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use crate::resources::{Resources, amounts};

/// One of them, in thousandths.
const ONE: i64 = 1000;

/// Devices, hugepages and the resources that the spec lists. The pod adds its own overhead of CPU and memory, so those
/// are lower bounds.
pub(super) fn resources(spec: &VirtualMachineInstanceSpec) -> Resources {
    let domain = &spec.domain.rest;
    let listed = |path: &str| {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        let value = domain.get(first)?;
        let value = value.pointer(&format!("/{rest}"))?;
        let quantities: BTreeMap<String, Quantity> = serde_json::from_value(value.clone()).ok()?;
        Some(amounts(&quantities))
    };
    // A missing request defaults to the limit.
    let mut all = listed("resources/limits").unwrap_or_default();
    all.extend(listed("resources/requests").unwrap_or_default());
    if let Some((name, amount)) = hugepages(domain.get("memory"), all.get("memory").copied()) {
        // The guest's memory is in the hugepages.
        all.remove("memory");
        all.insert(name, amount);
    }
    let devices = domain.get("devices");
    for kind in ["gpus", "hostDevices"] {
        let devices = devices.and_then(|it| it[kind].as_array());
        for device in devices.into_iter().flatten() {
            if let Some(name) = device["deviceName"].as_str() {
                let count = all.entry(name.to_owned()).or_default();
                *count = count.saturating_add(ONE);
            }
        }
    }
    all
}

fn hugepages(memory: Option<&Value>, requested: Option<i64>) -> Option<(String, i64)> {
    let memory = memory?;
    let size = memory.pointer("/hugepages/pageSize")?.as_str()?;
    let guest = memory.get("guest").map(|guest| {
        let guest = serde_json::from_value(guest.clone()).map(|guest| ("guest".to_owned(), guest));
        guest.map(|guest| amounts(&BTreeMap::from([guest])))
    });
    let guest = guest.and_then(Result::ok);
    let guest = guest.and_then(|it| it.get("guest").copied());
    // As in KubeVirt's `renderLaunchManifest`: the request before the guest's own memory.
    Some((format!("hugepages-{size}"), requested.or(guest)?))
}
