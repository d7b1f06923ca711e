//! What only the server can hand out because it has to be unique: addresses and ports of services.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::ops::Bound;

use machinery::field::{FieldError, Path};
use machinery::meta;
use machinery::status::Status;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::Store;

/// First address of the service network, `10.0.0.0/24` as kube-apiserver's default.
const NETWORK: [u8; 3] = [10, 0, 0];
/// Node ports, as kube-apiserver's default.
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// Completes a new object.
pub(crate) fn on_create(
    store: &Store,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Status> {
    let gvk = &resource.info.gvk;
    if gvk.group.is_empty() && gvk.kind == "Service" {
        service(store, resource, object)?;
    }
    Ok(())
}

fn service(store: &Store, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let kind = object
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .unwrap_or("ClusterIP")
        .to_owned();
    let given = object
        .pointer("/spec/clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if kind == "ExternalName" {
        return Ok(());
    }
    let others = used(store)?;
    let refuse = |field: &str, value: Value, why: &str| {
        let error = FieldError::invalid(&Path::new("spec").child(field), value, why);
        Status::invalid(&resource.info.gvk, meta::name(object), &[error])
    };
    let address = match given.as_str() {
        "None" => "None".to_owned(),
        "" => free_address(&others.addresses)
            .ok_or_else(|| Status::internal("failed to allocate a serviceIP: range is full"))?,
        taken if others.addresses.contains(taken) => {
            return Err(refuse(
                "clusterIPs",
                json!([taken]),
                &format!("failed to allocate IP {taken}: provided IP is already allocated"),
            ));
        }
        given => given.to_owned(),
    };
    object["spec"]["clusterIP"] = address.clone().into();
    object["spec"]["clusterIPs"] = json!([address]);
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        node_ports(object, others.ports)?;
    }
    Ok(())
}

fn node_ports(object: &mut Value, mut taken: HashSet<u64>) -> Result<(), Status> {
    if object.pointer("/spec/allocateLoadBalancerNodePorts") == Some(&Value::Bool(false)) {
        return Ok(());
    }
    let Some(ports) = object
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
    else {
        return Ok(());
    };
    for port in ports {
        if port.get("nodePort").and_then(Value::as_u64).unwrap_or(0) > 0 {
            continue;
        }
        let free = NODE_PORTS
            .clone()
            .find(|port| !taken.contains(port))
            .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        taken.insert(free);
        port["nodePort"] = free.into();
    }
    Ok(())
}

struct Used {
    addresses: HashSet<String>,
    ports: HashSet<u64>,
}

/// What the services there are hold. Services are few and created rarely: reading them beats
/// keeping a second truth.
fn used(store: &Store) -> Result<Used, Status> {
    let page = store
        .list("/registry/services/specs/", Bound::Unbounded, 0, None)
        .map_err(|error| Status::internal(&error.to_string()))?;
    let mut used = Used {
        addresses: HashSet::new(),
        ports: HashSet::new(),
    };
    for entry in page.entries {
        let object = entry
            .object()
            .map_err(|error| Status::internal(&error.to_string()))?;
        if let Some(address) = object.pointer("/spec/clusterIP").and_then(Value::as_str) {
            used.addresses.insert(address.to_owned());
        }
        for port in object
            .pointer("/spec/ports")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            used.ports
                .extend(port.get("nodePort").and_then(Value::as_u64));
        }
    }
    Ok(used)
}

/// The first free address behind the one of the API itself.
fn free_address(taken: &HashSet<String>) -> Option<String> {
    let [a, b, c] = NETWORK;
    (2..=254)
        .map(|last| Ipv4Addr::new(a, b, c, last).to_string())
        .find(|ip| !taken.contains(ip))
}
