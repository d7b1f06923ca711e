//! A pod as backend of a service: whether it is selected, its addresses, and its ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use runtime::Change;

use crate::object::label;
use crate::pod::is_terminal;
pub(super) use crate::pod::{is_ready, node_name};

/// The selector of a service whose endpoints follow its pods. `ExternalName` services and those
/// with an empty selector have none.
pub(super) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let selector = spec.selector.as_ref();
    selector.filter(|selector| !selector.is_empty())
}

/// Whether a pod has all labels of a selector.
pub(super) fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let mut wanted = selector.iter();
    wanted.all(|(key, value)| label(&pod.metadata, key) == Some(value))
}

/// Whether a pod can receive traffic, even if it is terminating.
pub(super) fn is_reachable(pod: &Pod) -> bool {
    !is_terminal(pod) && !addresses(pod).is_empty()
}

/// Whether a pod is being deleted.
pub(super) fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// The addresses of a pod.
pub(super) fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else {
        return Vec::new();
    };
    let all = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    let mut found: Vec<IpAddr> = all.filter_map(|ip| ip.parse().ok()).collect();
    if found.is_empty() {
        // Statuses written by simple kubelets have only the single address.
        let only = status.pod_ip.as_deref();
        found.extend(only.and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    found
}

/// The host name of a pod in a service, from its `hostname` and `subdomain`.
pub(super) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let asked = spec.subdomain == service.metadata.name
        && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname
        .clone()
        .filter(|hostname| asked && !hostname.is_empty())
}

/// The number of a service's port on a pod. A named port is looked up in the containers and in the
/// sidecars.
pub(super) fn port_number(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers
        .iter()
        .chain(sidecars)
        .find_map(|container| named_port(container, name, protocol(port.protocol.as_deref())))
}

fn named_port(container: &Container, name: &str, wanted: &str) -> Option<i32> {
    let ports = container.ports.iter().flatten();
    ports
        .filter(|port| port.name.as_deref() == Some(name))
        .find(|port| protocol(port.protocol.as_deref()) == wanted)
        .map(|port| port.container_port)
}

/// The ports of a service.
pub(super) fn ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let spec = service.spec.iter();
    spec.flat_map(|spec| spec.ports.iter().flatten())
}

/// Whether a service publishes addresses that are not ready.
pub(super) fn publishes_all(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// The protocol of a port, by default TCP.
pub(super) fn protocol(given: Option<&str>) -> &str {
    given.unwrap_or("TCP")
}

/// Whether a service has a cluster IP.
pub(super) fn has_cluster_ip(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let ip = spec.and_then(|spec| spec.cluster_ip.as_deref());
    !matches!(ip, None | Some("" | "None"))
}

/// Whether a change of a pod can affect the endpoints of a service.
pub(super) fn concerns_services(change: &Change<Pod>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    let names = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        spec.map(|spec| (spec.hostname.clone(), spec.subdomain.clone()))
    };
    // Kubelets write the status of a pod often; only these fields reach an endpoint.
    old.metadata.labels != new.metadata.labels
        || names(old) != names(new)
        || is_leaving(old) != is_leaving(new)
        || is_ready(old) != is_ready(new)
        || is_reachable(old) != is_reachable(new)
        || addresses(old) != addresses(new)
}
