//! Endpoints (`ValidateEndpoints`).

use machinery::field::Path;
use serde_json::Value;

use crate::builtin::entry::Capability::CreateOnUpdate;
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill_empty, indexed, items_mut, same};
use crate::builtin::{check, ip, print};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ep"],
    deprecation: Some(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    capabilities: &[CreateOnUpdate],
    default: |endpoints| {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_empty(port, "protocol", "TCP");
            }
        }
    },
    validate: |endpoints| check_subsets(endpoints.items("subsets")),
    validate_update: |new, old, _| {
        // Unchanged subsets are not validated again.
        if same(new.at("subsets"), old.at("subsets")) {
            Errors::new()
        } else {
            check_subsets(new.items("subsets"))
        }
    },
    columns: &[
        NAME,
        column!("Endpoints" string Of(addresses) => "Addresses and ports"),
        AGE,
    ],
    ..Entry::new("", "v1", "Endpoints", "endpoints")
};

fn check_subsets(subsets: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (path, subset) in indexed(&Path::new("subsets"), subsets) {
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.count(list) == 0) {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            for (j, address) in subset.items(list).iter().enumerate() {
                errors += check_address(&path.child(list).index(j), address);
            }
        }
        let ports = subset.items("ports");
        for (j, port) in ports.iter().enumerate() {
            errors += check_port(&path.child("ports").index(j), port, ports.len() > 1);
        }
    }
    errors
}

fn check_address(path: &Path, address: &Value) -> Errors {
    let text = address.text("ip");
    let mut errors = ip::check(&path.child("ip"), text, &[]);
    errors += check::empty_or(path, address, "hostname", check::label);
    errors += check::absent_or(path, address, "nodeName", check::subdomain);
    errors += ip::check_endpoint(&path.child("ip"), text);
    errors
}

fn check_port(path: &Path, port: &Value, needs_name: bool) -> Errors {
    let mut errors = Errors::new();
    let name = port.text("name");
    if needs_name && name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors += check::empty_or(path, port, "name", check::label);
    }
    errors += check::port_number(&path.child("port"), port.number("port"));
    errors += check::choice(path, port, "protocol", check::PROTOCOLS);
    errors += check::absent_or(path, port, "appProtocol", check::qualified);
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
    print::some_of(&list, 3, "")
}
