//! The desired Endpoints object of a service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{backends, slices};

/// Label of Endpoints written by this controller.
pub(super) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpoint-controller";
/// Annotation of truncated Endpoints.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Maximum number of addresses in one object.
// `maxCapacity` in `pkg/controller/endpoint/endpoints_controller.go`: Endpoints are one object per
// Service, and clients that need more read EndpointSlices.
const CAPACITY: usize = 1000;

/// Addresses by IP and pod, in the order in which they are written.
type Addresses = BTreeMap<(String, Option<String>), (EndpointAddress, bool)>;
/// Addresses with their readiness.
type Ready = BTreeSet<(String, Option<String>, bool)>;
/// A port in comparable form: name, number, protocol, application protocol.
type Port = (Option<String>, i32, Option<String>, Option<String>);

/// The Endpoints to write, or `None` if the existing ones are up to date.
pub(super) fn wanted(
    service: &Service,
    pods: &[Arc<Pod>],
    current: Option<&Endpoints>,
) -> Option<Endpoints> {
    let mut subsets = subsets(service, pods);
    let truncated = truncate(&mut subsets);
    let mut labels = slices::service_labels(service);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());

    let mut metadata = current.map_or_else(
        || ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        |current| current.metadata.clone(),
    );
    metadata.labels = Some(labels);
    let annotations = metadata.annotations.get_or_insert_default();
    if truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    let wanted = Endpoints {
        metadata,
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    };
    (current.map(normal).as_ref() != Some(&wanted)).then_some(wanted)
}

/// The existing Endpoints without fields that are not compared.
fn normal(endpoints: &Endpoints) -> Endpoints {
    let mut endpoints = endpoints.clone();
    let annotations = &mut endpoints.metadata.annotations;
    annotations.take_if(|annotations| annotations.is_empty());
    for subset in endpoints.subsets.iter_mut().flatten() {
        let addresses = subset.addresses.iter_mut().flatten();
        for address in addresses.chain(subset.not_ready_addresses.iter_mut().flatten()) {
            if let Some(target) = &mut address.target_ref {
                target.resource_version = None;
            }
        }
    }
    endpoints.subsets = endpoints.subsets.filter(|subsets| !subsets.is_empty());
    endpoints
}

/// Groups addresses with the same ports.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<Port>, Addresses> = BTreeMap::new();
    let ports: Vec<_> = backends::ports(service).collect();
    let all = backends::publishes_all(service);
    for pod in pods {
        if !backends::is_reachable(pod) || (backends::is_leaving(pod) && !all) {
            continue;
        }
        let Some(address) = address(service, pod) else {
            continue;
        };
        let ready = all || backends::is_ready(pod);
        let uid = pod.metadata.uid.clone();
        let mut add = |port: Option<Port>| {
            let entry = (address.ip.clone(), uid.clone());
            let addresses = by_port.entry(port).or_default();
            addresses.insert(entry, (address.clone(), ready));
        };
        if ports.is_empty() && !backends::has_cluster_ip(service) {
            add(None);
        }
        for port in &ports {
            if let Some(number) = backends::port_number(pod, port) {
                add(Some((
                    port.name.clone(),
                    number,
                    Some(backends::protocol(port.protocol.as_deref()).to_owned()),
                    port.app_protocol.clone(),
                )));
            }
        }
    }

    // Ports with the same addresses share a subset. BTreeMaps make the order deterministic.
    let mut merged: BTreeMap<Ready, (Vec<Port>, Addresses)> = BTreeMap::new();
    for (port, addresses) in by_port {
        let same = addresses
            .iter()
            .map(|((ip, uid), (_, ready))| (ip.clone(), uid.clone(), *ready))
            .collect();
        let (ports, _) = merged
            .entry(same)
            .or_insert_with(|| (Vec::new(), addresses));
        ports.extend(port);
    }
    let mut subsets: Vec<_> = merged.into_values().collect();
    subsets.sort_by(|(ports, _), (others, _)| ports.cmp(others));
    subsets
        .into_iter()
        .map(|(ports, addresses)| subset(ports, addresses))
        .collect()
}

fn subset(ports: Vec<Port>, addresses: Addresses) -> EndpointSubset {
    let (ready, not_ready): (Vec<_>, Vec<_>) =
        addresses.into_values().partition(|(_, ready)| *ready);
    let plain = |list: Vec<(EndpointAddress, bool)>| {
        let list: Vec<_> = list.into_iter().map(|(address, _)| address).collect();
        Some(list).filter(|list| !list.is_empty())
    };
    let ports: Vec<_> = ports
        .into_iter()
        .map(|(name, port, protocol, app_protocol)| EndpointPort {
            app_protocol,
            name,
            port,
            protocol,
        })
        .collect();
    EndpointSubset {
        addresses: plain(ready),
        not_ready_addresses: plain(not_ready),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    }
}

/// The address of a pod in the service's primary IP family.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let all = backends::addresses(pod);
    let spec = service.spec.as_ref();
    let family = spec
        .and_then(|spec| spec.ip_families.as_ref()?.first().cloned())
        .or_else(|| {
            let ip: IpAddr = spec?.cluster_ip.as_ref()?.parse().ok()?;
            Some(slices::type_of(ip).to_owned())
        })
        .or_else(|| Some(slices::type_of(*all.first()?).to_owned()))?;
    let ip = all.into_iter().find(|ip| slices::type_of(*ip) == family)?;
    Some(EndpointAddress {
        hostname: backends::hostname(pod, service),
        ip: ip.to_string(),
        node_name: backends::node_name(pod).map(str::to_owned),
        target_ref: Some(slices::target(pod)),
    })
}

/// Drops addresses over capacity, from each subset in proportion, those that are not ready first.
/// Returns whether any were dropped.
fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let len = |list: &Option<Vec<EndpointAddress>>| list.as_ref().map_or(0, Vec::len);
    let ready: usize = subsets.iter().map(|subset| len(&subset.addresses)).sum();
    let not_ready: usize = subsets
        .iter()
        .map(|subset| len(&subset.not_ready_addresses))
        .sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let cut_ready = ready > CAPACITY;
    let (room, total) = if cut_ready {
        (CAPACITY, ready)
    } else {
        (CAPACITY - ready, not_ready)
    };
    let mut left = room;
    for subset in subsets {
        if cut_ready {
            subset.not_ready_addresses = None;
        }
        let list = if cut_ready {
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        let share = (len(list) * room).div_ceil(total).min(left);
        if let Some(addresses) = list {
            addresses.truncate(share);
            left -= addresses.len();
        }
        if len(list) == 0 {
            *list = None;
        }
    }
    true
}

#[cfg(test)]
mod tests;
