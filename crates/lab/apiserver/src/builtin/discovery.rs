//! The `discovery.k8s.io` group.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::{
    AGE, Capabilities, Column, Entry, Errors, NAME, column, content_changed,
};
use crate::builtin::value::{Read, fill, items_mut, same};
use crate::builtin::{check, ip, print};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[SLICE];

const SLICE: Entry = Entry {
    capabilities: Capabilities {
        generation: true,
        ..Capabilities::NONE
    },
    default: |slice| {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |slice| check_slice(slice, None),
    validate_update: |new, old, _| {
        let mut errors = check_slice(new, Some(old));
        let (kind, was) = (new.at("addressType"), old.at("addressType"));
        errors.extend(check::immutable(&Path::new("addressType"), kind, was));
        errors
    },
    warnings: |slice, old| {
        if old.is_none() && slice.text("addressType") == "FQDN" {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        } else {
            Vec::new()
        }
    },
    columns: COLUMNS,
    cells: |slice, now| {
        let ports: Vec<String> = slice.items("ports").iter().map(port_text).collect();
        let addresses: Vec<String> = slice
            .items("endpoints")
            .iter()
            .flat_map(|endpoint| endpoint.texts("addresses"))
            .map(str::to_owned)
            .collect();
        vec![
            slice.name().into(),
            slice.text("addressType").into(),
            print::some_of(&ports, ports.len(), 3, "<unset>"),
            print::some_of(&addresses, addresses.len(), 3, "<unset>"),
            print::age(slice, now),
        ]
    },
    new_generation: |new, old| {
        let labels = "metadata.labels";
        content_changed(new, old) || !same(new.at(labels), old.at(labels))
    },
    ..Entry::new(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        "endpointslice",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column("AddressType", "string", "What sort of addresses these are"),
    column("Ports", "string", "Ports of the endpoints"),
    column("Endpoints", "string", "Addresses of the endpoints"),
    AGE,
];

fn port_text(port: &Value) -> String {
    match port.int("port") {
        Some(number) => number.to_string(),
        None => port.maybe_text("name").unwrap_or("*").to_owned(),
    }
}

fn check_slice(slice: &Value, old: Option<&Value>) -> Errors {
    let kind = slice.text("addressType");
    let mut errors = check::one_of(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"]);
    errors.extend(check_ports(&Path::new("ports"), slice.items("ports")));
    let unchanged = old.is_some_and(|old| same(old.at("endpoints"), slice.at("endpoints")));
    if !unchanged {
        errors.extend(check_endpoints(
            &Path::new("endpoints"),
            slice.items("endpoints"),
            kind,
        ));
    }
    errors
}

fn check_ports(path: &Path, ports: &[Value]) -> Errors {
    if ports.len() > 20000 {
        return vec![FieldError::too_many(path, ports.len(), 20000)];
    }
    let mut errors = Errors::new();
    let mut names = std::collections::BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            errors.extend(check::label(&path.child("name"), name));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        let protocol = port.text("protocol");
        errors.extend(check::one_of(
            &path.child("protocol"),
            protocol,
            check::PROTOCOLS,
        ));
        if let Some(protocol) = port.maybe_text("appProtocol") {
            errors.extend(check::qualified(&path.child("appProtocol"), protocol));
        }
    }
    errors
}

fn check_endpoints(path: &Path, endpoints: &[Value], kind: &str) -> Errors {
    if endpoints.len() > 1000 {
        return vec![FieldError::too_many(path, endpoints.len(), 1000)];
    }
    let mut errors = Errors::new();
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(i);
        let here = path.child("addresses");
        let addresses = endpoint.texts("addresses");
        if addresses.is_empty() {
            errors.push(FieldError::required(
                &here,
                "must contain at least 1 address",
            ));
        } else if addresses.len() > 100 {
            errors.push(FieldError::too_many(&here, addresses.len(), 100));
        }
        for (j, address) in addresses.iter().enumerate() {
            errors.extend(check_address(&here, j, address, kind));
        }
        if let Some(node) = endpoint.maybe_text("nodeName") {
            errors.extend(check::subdomain(&path.child("nodeName"), node));
        }
        let topology = path.child("deprecatedTopology");
        let count = endpoint.count("deprecatedTopology");
        if count > 16 {
            errors.push(FieldError::too_many(&topology, count, 16));
        }
        if let Some(host) = endpoint.maybe_text("hostname") {
            errors.extend(check::label(&path.child("hostname"), host));
        }
        for (list, node) in [("forZones", false), ("forNodes", true)] {
            let here = path.child("hints").child(list);
            errors.extend(check_hints(&here, endpoint.at("hints").items(list), node));
        }
    }
    errors
}

fn check_address(path: &Path, index: usize, address: &str, kind: &str) -> Errors {
    let here = path.index(index);
    let (mut errors, v6) = match kind {
        "IPv4" => (ip::check(&here, address, &[]), false),
        "IPv6" => (ip::check_canonical(&here, address), true),
        "FQDN" => return check_domain(&here, address),
        _ => return Vec::new(),
    };
    if errors.is_empty() {
        if ip::is_v6(address) != v6 {
            let detail = format!("must be an {kind} address");
            errors.push(FieldError::invalid(path, address, detail));
        }
        errors.extend(ip::check_endpoint(&here, address));
    }
    errors
}

fn check_domain(path: &Path, name: &str) -> Errors {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = machinery::names::is_dns1123_subdomain(name);
    if !messages.is_empty() {
        return vec![FieldError::invalid(path, name, messages.join(","))];
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    for label in name.split('.') {
        let messages = machinery::names::is_dns1123_label(label);
        if !messages.is_empty() {
            return vec![FieldError::invalid(path, label, messages.join(","))];
        }
    }
    Vec::new()
}

fn check_hints(path: &Path, hints: &[Value], node: bool) -> Errors {
    if hints.len() > 8 {
        return vec![FieldError::too_many(path, hints.len(), 8)];
    }
    let mut errors = Errors::new();
    for (i, hint) in hints.iter().enumerate() {
        let path = path.index(i).child("name");
        let name = hint.text("name");
        if hints[..i].iter().any(|other| other.text("name") == name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        errors.extend(if node {
            check::subdomain(&path, name)
        } else {
            check::label_value(&path, name)
        });
    }
    errors
}
