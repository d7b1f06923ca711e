//! The `networking.k8s.io` group.

mod ingress;

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Capabilities, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill, items_mut, set};
use crate::builtin::{check, ip, labels, print};

const GROUP: &str = "networking.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[ingress::CLASS, ingress::INGRESS, POLICY];

const POLICY: Entry = Entry {
    short_names: &["netpol"],
    capabilities: Capabilities {
        generation: true,
        ..Capabilities::NONE
    },
    default: |policy| {
        fill(policy, "spec.podSelector", json!({}));
        for list in ["spec.ingress", "spec.egress"] {
            for rule in items_mut(policy, list) {
                for port in items_mut(rule, "ports") {
                    fill(port, "protocol", "TCP");
                }
            }
        }
        if policy.count("spec.policyTypes") == 0 {
            let types = if policy.count("spec.egress") > 0 {
                json!(["Ingress", "Egress"])
            } else {
                json!(["Ingress"])
            };
            set(policy, "spec.policyTypes", types);
        }
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |policy| check_policy(policy, &[]),
    validate_update: |new, old, _| check_policy(new, &blocks(old)),
    columns: &[
        NAME,
        column("Pod-Selector", "string", "Pods the policy is about"),
        AGE,
    ],
    cells: |policy, now| {
        let selector = print::selector(policy.at("spec.podSelector"));
        vec![policy.name().into(), selector, print::age(policy, now)]
    },
    ..Entry::new(
        GROUP,
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "networkpolicy",
    )
};

/// Rules of a policy with the field their peers are under.
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// All ranges a policy mentions.
fn blocks(policy: &Value) -> Vec<&str> {
    let mut all = Vec::new();
    for (list, peers) in RULES {
        for rule in policy.at("spec").items(list) {
            for peer in rule.items(peers).iter().filter(|peer| peer.has("ipBlock")) {
                all.push(peer.text("ipBlock.cidr"));
                all.extend(peer.texts("ipBlock.except"));
            }
        }
    }
    all
}

fn check_policy(policy: &Value, existing: &[&str]) -> Errors {
    let path = Path::new("spec");
    let spec = policy.at("spec");
    let mut errors = labels::check_selector(&path.child("podSelector"), spec.at("podSelector"));
    for (list, peers) in RULES {
        for (i, rule) in spec.items(list).iter().enumerate() {
            let path = path.child(list).index(i);
            for (j, port) in rule.items("ports").iter().enumerate() {
                errors.extend(check_port(&path.child("ports").index(j), port));
            }
            for (j, peer) in rule.items(peers).iter().enumerate() {
                errors.extend(check_peer(&path.child(peers).index(j), peer, existing));
            }
        }
    }
    let types = spec.texts("policyTypes");
    let path = path.child("policyTypes");
    if types.len() > 2 {
        let shown = spec.at("policyTypes").clone();
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&path, shown, detail));
        return errors;
    }
    for (i, kind) in types.iter().enumerate() {
        errors.extend(check::supported(
            &path.index(i),
            kind,
            &["Ingress", "Egress"],
        ));
    }
    errors
}

fn check_port(path: &Path, port: &Value) -> Errors {
    let mut errors = Errors::new();
    let protocol = port.maybe_text("protocol");
    let accepted = ["TCP", "UDP", "SCTP"];
    errors.extend(check::maybe_one_of(
        &path.child("protocol"),
        protocol,
        &accepted,
    ));
    let here = path.child("endPort");
    let end = port.int("endPort");
    match (port.at("port"), end) {
        (Value::Null, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(&here, end, detail));
        }
        (Value::Null, None) => {}
        (Value::String(name), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&here, end, detail));
            }
            errors.extend(check::port_name(&path.child("port"), name));
        }
        (number, end) => {
            let number = number.as_i64().unwrap_or_default();
            errors.extend(check::port_number(&path.child("port"), number));
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&here, number, detail));
                }
                errors.extend(check::port_number(&here, end));
            }
        }
    }
    errors
}

fn check_peer(path: &Path, peer: &Value, existing: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if peer.has(field) {
            count += 1;
            errors.extend(labels::check_selector(&path.child(field), peer.at(field)));
        }
    }
    let block = peer.has("ipBlock");
    if block {
        errors.extend(check_block(
            &path.child("ipBlock"),
            peer.at("ipBlock"),
            existing,
        ));
        if count > 0 {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path, detail));
        }
    } else if count == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
    errors
}

fn check_block(path: &Path, block: &Value, existing: &[&str]) -> Errors {
    let range = block.text("cidr");
    if range.is_empty() {
        return vec![FieldError::required(&path.child("cidr"), "")];
    }
    let mut errors = ip::check_cidr(&path.child("cidr"), range, existing);
    let Some(outer) = ip::parse_cidr(range) else {
        return errors;
    };
    for (i, except) in block.texts("except").iter().enumerate() {
        let path = path.child("except").index(i);
        errors.extend(ip::check_cidr(&path, except, existing));
        if ip::parse_cidr(except).is_some_and(|inner| !ip::is_strict_subset(inner, outer)) {
            let detail = "must be a strict subset of `cidr`";
            errors.push(FieldError::invalid(&path, *except, detail));
        }
    }
    errors
}
