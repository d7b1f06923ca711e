//! Resolves a reference to a Service to the address of an endpoint.
//!
//! There is no service network behind this server, so it connects to an endpoint directly, as
//! kube-apiserver does with `--enable-aggregator-routing`.

use std::ops::Bound;

use machinery::json::go_quote;
use serde_json::Value;

use crate::builtin::value::Read;
use crate::server::State;

/// Host and port behind a port of a Service.
pub(super) fn resolve(
    state: &State,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<(String, u16), String> {
    let service = get(
        state,
        &format!("/registry/services/specs/{namespace}/{name}"),
    )
    .ok_or_else(|| format!("service {} not found", go_quote(name)))?;
    if service.text("spec.type") == "ExternalName" {
        return Ok((service.text("spec.externalName").to_owned(), port));
    }
    let port_name = port_name(&service, port)?;
    let mut addresses = slice_addresses(state, namespace, name, port_name);
    // Services of tests often have Endpoints alone, written by hand; the controller that mirrors
    // them to slices may not run.
    if addresses.is_empty() {
        let key = format!("/registry/services/endpoints/{namespace}/{name}");
        addresses = get(state, &key)
            .map(|endpoints| endpoint_addresses(&endpoints, port_name))
            .unwrap_or_default();
    }
    // At random, as kube-proxy would: with a fixed choice one endpoint that hangs would fail every
    // call.
    let chosen = usize::try_from(state.random_below(addresses.len() as u64)).unwrap_or_default();
    addresses
        .into_iter()
        .nth(chosen)
        .ok_or_else(|| format!("no endpoints available for service {}", go_quote(name)))
}

fn get(state: &State, key: &str) -> Option<Value> {
    let entry = state.store.get(key)?;
    entry.object().ok().map(|object| (*object).clone())
}

/// The name of a port of a Service, which is how endpoints list it.
fn port_name(service: &Value, port: u16) -> Result<&str, String> {
    service
        .items("spec.ports")
        .iter()
        .find(|known| known.number("port") == i64::from(port))
        .map(|known| known.text("name"))
        .ok_or_else(|| {
            format!(
                "no service port {port} found for service {}",
                go_quote(service.name())
            )
        })
}

fn port_number(ports: &[Value], name: &str) -> Option<u16> {
    let port = ports.iter().find(|port| port.text("name") == name)?;
    u16::try_from(port.int("port")?).ok()
}

/// Ready addresses in the slices of a Service.
fn slice_addresses(state: &State, namespace: &str, name: &str, port: &str) -> Vec<(String, u16)> {
    let prefix = format!("/registry/endpointslices/{namespace}/");
    let Ok(page) = state.store.list(&prefix, Bound::Unbounded, 0, None) else {
        return Vec::new();
    };
    let mut addresses = Vec::new();
    for slice in page.entries.iter().filter_map(|entry| entry.object().ok()) {
        let service = slice.entry("metadata.labels", "kubernetes.io/service-name");
        let number = port_number(slice.items("ports"), port);
        let (Some(service), Some(number)) = (service, number) else {
            continue;
        };
        if service == name {
            addresses.extend(ready_addresses(&slice, number));
        }
    }
    addresses
}

/// The ready condition defaults to true; of several addresses the first is used.
fn ready_addresses(slice: &Value, port: u16) -> Vec<(String, u16)> {
    slice
        .items("endpoints")
        .iter()
        .filter(|endpoint| endpoint.at("conditions.ready") != false)
        .filter_map(|endpoint| endpoint.texts("addresses").first().copied())
        .map(|address| (address.to_owned(), port))
        .collect()
}

/// Addresses in legacy Endpoints.
fn endpoint_addresses(endpoints: &Value, port: &str) -> Vec<(String, u16)> {
    let mut addresses = Vec::new();
    for subset in endpoints.items("subsets") {
        if let Some(number) = port_number(subset.items("ports"), port) {
            let ready = subset.items("addresses").iter();
            addresses.extend(ready.map(|address| (address.text("ip").to_owned(), number)));
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{endpoint_addresses, port_name, port_number, ready_addresses};

    #[test]
    fn ports_of_services_are_ports_of_endpoints_by_name() {
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [
            {"name": "web", "port": 443}, {"name": "metrics", "port": 9090}]}});
        assert_eq!(port_name(&service, 443), Ok("web"));
        assert_eq!(
            port_name(&service, 1),
            Err("no service port 1 found for service \"s\"".to_owned())
        );
        let ports = [
            json!({"name": "metrics", "port": 1}),
            json!({"name": "web", "port": 8443}),
        ];
        assert_eq!(port_number(&ports, "web"), Some(8443));
    }

    #[test]
    fn only_ready_endpoints_are_used() {
        let slice = json!({"endpoints": [
            {"addresses": ["192.0.2.1", "192.0.2.9"], "conditions": {"ready": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
            {"addresses": ["192.0.2.3"]},
        ]});
        let ready = ready_addresses(&slice, 8443);
        assert_eq!(
            ready,
            [
                ("192.0.2.1".to_owned(), 8443),
                ("192.0.2.3".to_owned(), 8443)
            ]
        );
        let endpoints = json!({"subsets": [{
            "addresses": [{"ip": "192.0.2.1"}],
            "notReadyAddresses": [{"ip": "192.0.2.2"}],
            "ports": [{"name": "web", "port": 8443}],
        }]});
        assert_eq!(
            endpoint_addresses(&endpoints, "web"),
            [("192.0.2.1".to_owned(), 8443)]
        );
        assert_eq!(endpoint_addresses(&endpoints, "other"), []);
    }
}
