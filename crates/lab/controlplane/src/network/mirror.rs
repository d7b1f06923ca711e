//! EndpointSlices that mirror user-managed Endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{self as core, EndpointAddress, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::slices::{self, Plan};
use super::{backends, endpoints};
use crate::object::{annotation, controller_reference, generated_name, label, name};

/// Name of this controller.
pub(super) const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not mirrored.
const OWN_ANNOTATIONS: [&str; 2] = [
    "endpoints.kubernetes.io/last-change-trigger-time",
    // On a copy it would make `kubectl apply` prune fields that it has never set there.
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Maximum number of mirrored addresses per subset (`--mirroring-max-endpoints-per-subset`).
pub(super) const MAX_ENDPOINTS_PER_SUBSET: usize = 1000;

/// Endpoints with the same ports.
type Group = (Vec<EndpointPort>, Vec<Endpoint>);

/// The plan, and the omitted addresses.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Mirrored {
    pub(super) plan: Plan,
    /// Number of invalid addresses.
    pub(super) invalid: usize,
    /// Number of addresses beyond the maximum.
    pub(super) skipped: usize,
}

/// Whether Endpoints are mirrored: not those written by this crate, those labelled to be skipped,
/// those of leader elections, and those of services with a selector.
pub(super) fn is_mirrored(service: &Service, endpoints: &Endpoints) -> bool {
    let label = |key: &str| label(&endpoints.metadata, key);
    let spec = service.spec.as_ref();
    label(SKIP) != Some("true")
        && label(endpoints::MANAGED_BY) != Some(endpoints::MANAGER)
        && !elects_leader(endpoints)
        // With a selector the slices come from the pods; mirrored as well, each address would be
        // there twice.
        && spec.is_none_or(|spec| spec.selector.is_none())
}

/// Whether Endpoints are the lock of a leader election, as used before leases.
pub(super) fn elects_leader(endpoints: &Endpoints) -> bool {
    annotation(&endpoints.metadata, LEADER).is_some()
}

/// Compares the mirroring slices with the desired ones.
pub(super) fn plan(endpoints: &Endpoints, existing: &[Arc<EndpointSlice>]) -> Mirrored {
    let mut mirrored = Mirrored::default();
    let mut groups: BTreeMap<(&str, String), Group> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
        let ready = subset.addresses.iter().flatten();
        let not_ready = subset.not_ready_addresses.iter().flatten();
        let all = ready.map(|address| (address, true));
        let all = all.chain(not_ready.map(|address| (address, false)));
        let mut taken = 0;
        for (address, ready) in all {
            if taken == MAX_ENDPOINTS_PER_SUBSET {
                mirrored.skipped += 1;
                continue;
            }
            let Ok(ip) = address.ip.parse::<IpAddr>() else {
                mirrored.invalid += 1;
                continue;
            };
            taken += 1;
            let key = (slices::type_of(ip), slices::ports_key(&ports));
            let (_, list) = groups
                .entry(key)
                .or_insert_with(|| (ports.clone(), Vec::new()));
            list.push(endpoint(address, ip, ready));
        }
    }

    let mut had: BTreeMap<(&str, String), Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in existing {
        let ports = slices::ports_key(slice.ports.as_deref().unwrap_or_default());
        had.entry((&slice.address_type, ports))
            .or_default()
            .push(slice);
    }
    for (key, (ports, list)) in groups {
        let mut same = had.remove(&key).unwrap_or_default().into_iter();
        let mut wanted = slice(endpoints, ports, key.0, list);
        match same.next() {
            None => mirrored.plan.create.push(wanted),
            Some(old) => {
                wanted.metadata = ObjectMeta {
                    labels: wanted.metadata.labels,
                    annotations: wanted.metadata.annotations,
                    owner_references: wanted.metadata.owner_references,
                    ..old.metadata.clone()
                };
                if wanted != *old {
                    mirrored.plan.update.push(wanted);
                }
            }
        }
        mirrored.plan.delete.extend(same.cloned());
    }
    let rest = had.into_values().flatten().cloned();
    mirrored.plan.delete.extend(rest);
    mirrored.plan.recycle(|_| true);
    mirrored
}

fn port(port: &core::EndpointPort) -> EndpointPort {
    EndpointPort {
        app_protocol: port.app_protocol.clone(),
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(backends::protocol(port.protocol.as_deref()).to_owned()),
    }
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn slice(
    endpoints: &Endpoints,
    ports: Vec<EndpointPort>,
    address_type: &str,
    list: Vec<Endpoint>,
) -> EndpointSlice {
    let meta = &endpoints.metadata;
    let name = name(meta);
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(slices::SERVICE_NAME.to_owned(), name.to_owned());
    labels.insert(slices::MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(list),
        metadata: ObjectMeta {
            generate_name: Some(generated_name(name)),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        ports: Some(ports),
    }
}

#[cfg(test)]
mod tests;
