//! The `discovery.k8s.io` group (rules: `pkg/apis/discovery/validation`).

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Capability::Generation;
use crate::builtin::entry::Cell::{Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column, content_changed};
use crate::builtin::value::{Read, fill, indexed, items_mut, same};
use crate::builtin::{check, ip, print};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[SLICE];

const SLICE: Entry = Entry {
    capabilities: &[Generation],
    default: |slice| {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    validate: |slice| check_slice(slice, None),
    validate_update: |new, old, _| {
        let mut errors = check_slice(new, Some(old));
        errors += check::unchanged(new, old, "addressType");
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
    new_generation: |new, old| {
        let labels = "metadata.labels";
        content_changed(new, old) || !same(new.at(labels), old.at(labels))
    },
    ..Entry::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("AddressType" string Text("addressType") => "IPv4, IPv6 or FQDN"),
    column!("Ports" string Of(|slice| {
        let ports: Vec<String> = slice.items("ports").iter().map(port_text).collect();
        print::some_of(&ports, 3, "<unset>")
    }) => "Ports of the endpoints"),
    column!("Endpoints" string Of(|slice| {
        let addresses = slice.items("endpoints").iter().flat_map(|e| e.texts("addresses"));
        print::some_of(&addresses.collect::<Vec<_>>(), 3, "<unset>")
    }) => "Addresses of the endpoints"),
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
    errors += check_ports(&Path::new("ports"), slice.items("ports"));
    let unchanged = old.is_some_and(|old| same(old.at("endpoints"), slice.at("endpoints")));
    if !unchanged {
        errors += check_endpoints(&Path::new("endpoints"), slice.items("endpoints"), kind);
    }
    errors
}

fn check_ports(path: &Path, ports: &[Value]) -> Errors {
    if ports.len() > 20000 {
        return FieldError::too_many(path, ports.len(), 20000).into();
    }
    let mut errors = Errors::new();
    let mut names = std::collections::BTreeSet::new();
    for (path, port) in indexed(path, ports) {
        let name = port.text("name");
        errors += check::empty_or(&path, port, "name", check::label);
        if !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        errors += check::choice(&path, port, "protocol", check::PROTOCOLS);
        errors += check::absent_or(&path, port, "appProtocol", check::qualified);
    }
    errors
}

fn check_endpoints(path: &Path, endpoints: &[Value], kind: &str) -> Errors {
    if endpoints.len() > 1000 {
        return FieldError::too_many(path, endpoints.len(), 1000).into();
    }
    let mut errors = Errors::new();
    for (path, endpoint) in indexed(path, endpoints) {
        let here = path.child("addresses");
        let addresses = endpoint.texts("addresses");
        if addresses.is_empty() {
            errors.required(&here, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.too_many(&here, addresses.len(), 100);
        }
        for (j, address) in addresses.iter().enumerate() {
            errors += check_address(&here, j, address, kind);
        }
        errors += check::absent_or(&path, endpoint, "nodeName", check::subdomain);
        let topology = path.child("deprecatedTopology");
        let count = endpoint.count("deprecatedTopology");
        if count > 16 {
            errors.too_many(&topology, count, 16);
        }
        errors += check::absent_or(&path, endpoint, "hostname", check::label);
        for (list, node) in [("forZones", false), ("forNodes", true)] {
            let here = path.child("hints").child(list);
            errors += check_hints(&here, endpoint.at("hints").items(list), node);
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
        _ => return Errors::new(),
    };
    if errors.is_empty() {
        if ip::is_v6(address) != v6 {
            errors.invalid(path, address, format!("must be an {kind} address"));
        }
        errors += ip::check_endpoint(&here, address);
    }
    errors
}

fn check_domain(path: &Path, name: &str) -> Errors {
    if name.is_empty() {
        return FieldError::required(path, "").into();
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = machinery::names::is_dns1123_subdomain(name);
    if !messages.is_empty() {
        return FieldError::invalid(path, name, messages.join(",")).into();
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return FieldError::invalid(path, name, detail).into();
    }
    for label in name.split('.') {
        let messages = machinery::names::is_dns1123_label(label);
        if !messages.is_empty() {
            return FieldError::invalid(path, label, messages.join(",")).into();
        }
    }
    Errors::new()
}

fn check_hints(path: &Path, hints: &[Value], node: bool) -> Errors {
    if hints.len() > 8 {
        return FieldError::too_many(path, hints.len(), 8).into();
    }
    let mut errors = Errors::new();
    for (i, hint) in hints.iter().enumerate() {
        let path = path.index(i).child("name");
        let name = hint.text("name");
        if hints[..i].iter().any(|other| other.text("name") == name) {
            errors.duplicate(&path, name);
        }
        errors += if node {
            check::subdomain(&path, name)
        } else {
            check::label_value(&path, name)
        };
    }
    errors
}
