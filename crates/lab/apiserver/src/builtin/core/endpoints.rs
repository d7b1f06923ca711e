//! Endpoints.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::{AGE, Capabilities, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill_empty, items_mut, same};
use crate::builtin::{check, ip, print};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ep"],
    deprecation: Some(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    capabilities: Capabilities {
        create_on_update: true,
        ..Capabilities::NONE
    },
    default: |endpoints| {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_empty(port, "protocol", "TCP");
            }
        }
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |endpoints| check_subsets(endpoints.items("subsets")),
    validate_update: |new, old, _| {
        // Unchanged subsets are not validated again.
        if same(new.at("subsets"), old.at("subsets")) {
            Vec::new()
        } else {
            check_subsets(new.items("subsets"))
        }
    },
    columns: &[
        NAME,
        column("Endpoints", "string", "Addresses and ports"),
        AGE,
    ],
    cells: |endpoints, now| {
        vec![
            endpoints.name().into(),
            addresses(endpoints),
            print::age(endpoints, now),
        ]
    },
    ..Entry::new("", "v1", "Endpoints", "endpoints", "endpoints")
};

fn check_subsets(subsets: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (i, subset) in subsets.iter().enumerate() {
        let path = Path::new("subsets").index(i);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.count(list) == 0) {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&path, detail));
        }
        for list in lists {
            for (j, address) in subset.items(list).iter().enumerate() {
                errors.extend(check_address(&path.child(list).index(j), address));
            }
        }
        let ports = subset.items("ports");
        for (j, port) in ports.iter().enumerate() {
            errors.extend(check_port(
                &path.child("ports").index(j),
                port,
                ports.len() > 1,
            ));
        }
    }
    errors
}

fn check_address(path: &Path, address: &Value) -> Errors {
    let text = address.text("ip");
    let mut errors = ip::check(&path.child("ip"), text, &[]);
    let host = address.text("hostname");
    if !host.is_empty() {
        errors.extend(check::label(&path.child("hostname"), host));
    }
    if let Some(node) = address.maybe_text("nodeName") {
        errors.extend(check::subdomain(&path.child("nodeName"), node));
    }
    errors.extend(ip::check_endpoint(&path.child("ip"), text));
    errors
}

fn check_port(path: &Path, port: &Value, needs_name: bool) -> Errors {
    let mut errors = Errors::new();
    let name = port.text("name");
    if needs_name && name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else if !name.is_empty() {
        errors.extend(check::label(&path.child("name"), name));
    }
    errors.extend(check::port_number(&path.child("port"), port.number("port")));
    errors.extend(check::one_of(
        &path.child("protocol"),
        port.text("protocol"),
        check::PROTOCOLS,
    ));
    if let Some(protocol) = port.maybe_text("appProtocol") {
        errors.extend(check::qualified(&path.child("appProtocol"), protocol));
    }
    errors
}

fn addresses(endpoints: &Value) -> Value {
    let subsets = endpoints.items("subsets");
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut list = Vec::new();
    for subset in subsets {
        let ips = subset
            .items("addresses")
            .iter()
            .map(|address| address.text("ip"));
        let ports = subset.items("ports");
        if ports.is_empty() {
            list.extend(ips.map(str::to_owned));
        } else {
            for port in ports {
                let port = port.number("port");
                list.extend(ips.clone().map(|ip| {
                    if ip.contains(':') {
                        format!("[{ip}]:{port}")
                    } else {
                        format!("{ip}:{port}")
                    }
                }));
            }
        }
    }
    print::some_of(&list, list.len(), 3, "")
}
