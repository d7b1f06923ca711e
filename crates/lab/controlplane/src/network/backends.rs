//! A pod as backend of a service: whether it is selected, its addresses, and its ports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use runtime::Change;

/// The selector of a service whose endpoints follow its pods. `ExternalName` services and those
/// with an empty selector have none.
pub(super) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector
        .as_ref()
        .filter(|selector| !selector.is_empty())
}

/// Whether a pod has all labels of a selector.
pub(super) fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    selector
        .iter()
        .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// Whether a pod's `Ready` condition is true.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether a pod can receive traffic, even if it is terminating.
pub(super) fn is_reachable(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Failed" | "Succeeded")) && !addresses(pod).is_empty()
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
        found.extend(
            status
                .pod_ip
                .as_deref()
                .and_then(|ip| ip.parse::<IpAddr>().ok()),
        );
    }
    found
}

/// The node of a pod.
pub(super) fn node_name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref();
    name.filter(|name| !name.is_empty())
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

/// The protocol of a port, by default TCP.
pub(super) fn protocol(given: Option<&str>) -> &str {
    given.unwrap_or("TCP")
}

/// Whether a service has a cluster IP.
pub(super) fn has_cluster_ip(service: &Service) -> bool {
    let ip = service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.as_deref());
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
    old.metadata.labels != new.metadata.labels
        || names(old) != names(new)
        || is_leaving(old) != is_leaving(new)
        || is_ready(old) != is_ready(new)
        || is_reachable(old) != is_reachable(new)
        || addresses(old) != addresses(new)
}
