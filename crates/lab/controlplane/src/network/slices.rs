//! The desired EndpointSlices of a service, given the existing ones.
//!
//! The rules are those of upstream's reconciler: endpoints stay in their slice; slices that change
//! anyway are filled first; an unchanged slice is only touched to avoid creating a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::backends;
use crate::object::{controller_reference, generated_name, label, name};

/// Label of a slice with its service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice with its controller.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Name of this controller.
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Label of slices and Endpoints of headless services.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Maximum number of endpoints in a slice (`--max-endpoints-per-slice`).
const MAX_ENDPOINTS_PER_SLICE: usize = 100;

/// The changes to make.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<EndpointSlice>,
}

impl Plan {
    fn append(&mut self, mut other: Self) {
        self.create.append(&mut other.create);
        self.update.append(&mut other.update);
        self.delete.append(&mut other.delete);
    }

    /// Updates slices that would be deleted in place of creating new ones: fewer events for
    /// watchers.
    pub(super) fn recycle(&mut self, reusable: impl Fn(&EndpointSlice) -> bool) {
        let mut kept = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let fitting = self
                .create
                .iter()
                .rposition(|new| new.address_type == old.address_type && reusable(&old));
            match fitting {
                Some(at) => {
                    let mut new = self.create.remove(at);
                    new.metadata = ObjectMeta {
                        labels: new.metadata.labels,
                        owner_references: new.metadata.owner_references,
                        ..old.metadata
                    };
                    self.update.push(new);
                }
                None => kept.push(old),
            }
        }
        self.delete = kept;
    }
}

/// The labels of a node, if the node is known.
pub(super) type NodeLabels<'a> = &'a dyn Fn(&str) -> Option<BTreeMap<String, String>>;

/// The identity of a pod's endpoint in a service.
type Identity = (Vec<String>, Option<String>, Option<String>, Option<String>);
/// Endpoints with the same ports.
type Group = (Vec<EndpointPort>, BTreeMap<Identity, Endpoint>);

/// Compares the slices of a service with the desired ones.
pub(super) fn plan(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: NodeLabels<'_>,
    existing: &[Arc<EndpointSlice>],
) -> Plan {
    let types = address_types(service);
    let mut plan = Plan::default();
    for address_type in &types {
        let same: Vec<&EndpointSlice> = existing
            .iter()
            .map(AsRef::as_ref)
            .filter(|slice| slice.address_type == *address_type)
            .collect();
        plan.append(plan_for_type(service, pods, nodes, &same, address_type));
    }
    plan.recycle(|slice| is_owned(slice, service));
    let foreign = existing
        .iter()
        .filter(|slice| !types.contains(&slice.address_type.as_str()));
    plan.delete
        .extend(foreign.map(|slice| slice.as_ref().clone()));
    plan
}

fn plan_for_type(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: NodeLabels<'_>,
    existing: &[&EndpointSlice],
    address_type: &str,
) -> Plan {
    let mut plan = Plan::default();
    let mut by_ports: BTreeMap<String, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in existing {
        if is_owned(slice, service) {
            let ports = ports_key(slice.ports.as_deref().unwrap_or_default());
            by_ports.entry(ports).or_default().push(slice);
        } else {
            // Such a slice belongs to a former Service of the same name: its owner reference has
            // another UID.
            plan.delete.push((*slice).clone());
        }
    }
    for (key, (ports, endpoints)) in desired(service, pods, nodes, address_type) {
        let had = by_ports.remove(&key).unwrap_or_default();
        plan.append(plan_for_ports(
            service,
            &had,
            endpoints,
            &ports,
            address_type,
        ));
    }
    for slice in by_ports.into_values().flatten() {
        plan.delete.push(slice.clone());
    }
    // A service without endpoints has one empty slice, so that watchers see that it is empty.
    if plan.delete.len() == existing.len() && plan.create.is_empty() {
        let empty = new_slice(service, Vec::new(), address_type);
        if let [only] = plan.delete.as_slice()
            && is_same_placeholder(only, &empty)
        {
            plan.delete.clear();
        } else {
            plan.create.push(empty);
        }
    }
    plan
}

fn is_same_placeholder(slice: &EndpointSlice, empty: &EndpointSlice) -> bool {
    slice.endpoints.as_ref().is_none_or(Vec::is_empty)
        && slice.ports.as_ref().is_none_or(Vec::is_empty)
        && slice.metadata.labels == empty.metadata.labels
        && slice.metadata.owner_references == empty.metadata.owner_references
}

/// The desired endpoints of a service, by their ports.
fn desired(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: NodeLabels<'_>,
    address_type: &str,
) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| backends::is_reachable(pod)) {
        let ports = ports(service, pod);
        let (_, endpoints) = groups
            .entry(ports_key(&ports))
            .or_insert_with(|| (ports, BTreeMap::new()));
        let labels = nodes(backends::node_name(pod).unwrap_or_default());
        // Without its node the zone of a pod is unknown; its service is enqueued when the node
        // appears.
        if labels.is_none() && !backends::publishes_all(service) {
            continue;
        }
        let zone = labels.and_then(|mut labels| labels.remove(ZONE));
        let zone = zone.filter(|zone| !zone.is_empty());
        let endpoint = endpoint(pod, service, zone, address_type);
        if !endpoint.addresses.is_empty() {
            endpoints.insert(identity(&endpoint), endpoint);
        }
    }
    groups
}

fn plan_for_ports(
    service: &Service,
    existing: &[&EndpointSlice],
    mut missing: BTreeMap<Identity, Endpoint>,
    ports: &[EndpointPort],
    address_type: &str,
) -> Plan {
    let mut plan = Plan::default();
    let mut same: Vec<EndpointSlice> = Vec::new();
    for slice in existing {
        let old = slice.endpoints.as_deref().unwrap_or_default();
        let mut kept = Vec::with_capacity(old.len());
        let mut changed = false;
        for endpoint in old {
            if let Some(wanted) = missing.remove(&identity(endpoint)) {
                changed |= !is_equal(&wanted, endpoint);
                kept.push(wanted);
            }
        }
        let labels = labels(service);
        let relabelled = slice.metadata.labels.as_ref() != Some(&labels);
        if kept.len() != old.len() || changed || relabelled {
            // An emptied slice goes; `recycle` may give it to new endpoints.
            if kept.is_empty() && !old.is_empty() {
                plan.delete.push((*slice).clone());
                continue;
            }
            let mut slice = (*slice).clone();
            slice.endpoints = Some(kept);
            slice.metadata.labels = Some(labels);
            plan.update.push(slice);
        } else {
            same.push((*slice).clone());
        }
    }

    // The fullest first, so that free capacity stays contiguous.
    plan.update
        .sort_by_key(|slice| std::cmp::Reverse(count(slice)));
    for slice in &mut plan.update {
        fill(slice, &mut missing);
    }
    while !missing.is_empty() {
        // A slice that does not change otherwise is rewritten only for a remainder that fits into
        // it whole: each update is sent to every kube-proxy.
        let fitting = (missing.len() < MAX_ENDPOINTS_PER_SLICE)
            .then(|| closest_fit(&same, missing.len()))
            .flatten();
        if let Some(at) = fitting {
            let mut slice = same.remove(at);
            fill(&mut slice, &mut missing);
            plan.update.push(slice);
        } else {
            let mut slice = new_slice(service, ports.to_vec(), address_type);
            fill(&mut slice, &mut missing);
            plan.create.push(slice);
        }
    }
    plan
}

fn count(slice: &EndpointSlice) -> usize {
    slice.endpoints.as_ref().map_or(0, Vec::len)
}

fn fill(slice: &mut EndpointSlice, missing: &mut BTreeMap<Identity, Endpoint>) {
    let endpoints = slice.endpoints.get_or_insert_default();
    while endpoints.len() < MAX_ENDPOINTS_PER_SLICE {
        let Some((_, endpoint)) = missing.pop_first() else {
            return;
        };
        endpoints.push(endpoint);
    }
}

/// The slice that this many endpoints fill best without exceeding its capacity.
fn closest_fit(slices: &[EndpointSlice], more: usize) -> Option<usize> {
    let fits = slices
        .iter()
        .enumerate()
        .map(|(at, slice)| (at, count(slice) + more))
        .filter(|(_, total)| *total <= MAX_ENDPOINTS_PER_SLICE);
    fits.max_by_key(|(_, total)| *total).map(|(at, _)| at)
}

fn identity(endpoint: &Endpoint) -> Identity {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    let target = endpoint.target_ref.as_ref();
    (
        addresses,
        endpoint.hostname.clone(),
        target.and_then(|target| target.namespace.clone()),
        target.and_then(|target| target.name.clone()),
    )
}

/// Whether an endpoint is unchanged; the resource version of its pod is ignored.
fn is_equal(wanted: &Endpoint, had: &Endpoint) -> bool {
    let mut had = had.clone();
    if let Some(target) = &mut had.target_ref {
        target.resource_version = None;
    }
    *wanted == had
}

fn endpoint(pod: &Pod, service: &Service, zone: Option<String>, address_type: &str) -> Endpoint {
    let serving = backends::is_ready(pod);
    let terminating = backends::is_leaving(pod);
    let ready = backends::publishes_all(service) || (serving && !terminating);
    let node_name = backends::node_name(pod).map(str::to_owned);
    Endpoint {
        addresses: backends::addresses(pod)
            .into_iter()
            .filter(|ip| type_of(*ip) == address_type)
            .map(|ip| ip.to_string())
            .collect(),
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hints: hints(service, ready, zone.as_deref(), node_name.as_deref()),
        hostname: backends::hostname(pod, service),
        node_name,
        target_ref: Some(target(pod)),
        zone,
        ..Endpoint::default()
    }
}

/// Hints for a service's `trafficDistribution`. Topology-aware hints, which distribute zones by
/// their CPUs and which that field replaces, are not supported.
fn hints(
    service: &Service,
    ready: bool,
    zone: Option<&str>,
    node: Option<&str>,
) -> Option<EndpointHints> {
    let wish = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    if !ready || !matches!(wish, "PreferClose" | "PreferSameZone" | "PreferSameNode") {
        return None;
    }
    let zone = zone.map(str::to_owned);
    let node = node.filter(|_| wish == "PreferSameNode").map(str::to_owned);
    let for_zones = zone.map(|name| vec![ForZone { name }]);
    let for_nodes = node.map(|name| vec![ForNode { name }]);
    (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints {
        for_nodes,
        for_zones,
    })
}

/// The target reference of a pod's endpoint.
pub(super) fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    backends::ports(service)
        .filter_map(|port| {
            Some(EndpointPort {
                app_protocol: port.app_protocol.clone(),
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(backends::port_number(pod, port)?),
                protocol: Some(backends::protocol(port.protocol.as_deref()).to_owned()),
            })
        })
        .collect()
}

/// A key for a set of ports, independent of their order.
pub(super) fn ports_key(ports: &[EndpointPort]) -> String {
    let parts: BTreeSet<_> = ports
        .iter()
        .map(|port| {
            (
                port.name.as_deref().unwrap_or_default(),
                port.port,
                backends::protocol(port.protocol.as_deref()),
                port.app_protocol.as_deref(),
            )
        })
        .collect();
    format!("{parts:?}")
}

/// The address type of a slice for an address.
pub(super) fn type_of(ip: IpAddr) -> &'static str {
    if ip.is_ipv6() { "IPv6" } else { "IPv4" }
}

fn address_types(service: &Service) -> BTreeSet<&'static str> {
    let spec = service.spec.as_ref();
    let families = spec
        .into_iter()
        .flat_map(|spec| spec.ip_families.iter().flatten());
    let named: BTreeSet<_> = families
        .filter_map(|family| ["IPv4", "IPv6"].into_iter().find(|known| known == family))
        .collect();
    if !named.is_empty() {
        return named;
    }
    let ip = spec.and_then(|spec| spec.cluster_ip.as_deref());
    match ip.and_then(|ip| ip.parse().ok()) {
        Some(ip) => BTreeSet::from([type_of(ip)]),
        None => BTreeSet::from(["IPv4", "IPv6"]),
    }
}

fn new_slice(service: &Service, ports: Vec<EndpointPort>, address_type: &str) -> EndpointSlice {
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(Vec::new()),
        metadata: ObjectMeta {
            generate_name: Some(generated_name(name(&service.metadata))),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![controller_reference(service)]),
            ..ObjectMeta::default()
        },
        ports: Some(ports),
    }
}

/// The labels of a service's slices: the service's own, and those of the controller.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service_labels(service);
    labels.insert(SERVICE_NAME.to_owned(), name(&service.metadata).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The labels of a service, and whether it is headless.
pub(super) fn service_labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if !backends::has_cluster_ip(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// The controller of a slice.
pub(super) fn managed_by(slice: &EndpointSlice) -> Option<&str> {
    label(&slice.metadata, MANAGED_BY)
}

fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    let is_service = |owner: &OwnerReference| {
        Some(&owner.uid) == service.metadata.uid.as_ref()
            && owner.kind == "Service"
            && owner.api_version == "v1"
    };
    let mut owners = slice.metadata.owner_references.iter().flatten();
    owners.any(is_service)
}

#[cfg(test)]
mod tests;
