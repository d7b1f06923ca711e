//! The `networking.k8s.io` group (rules: `pkg/apis/networking/validation`).

mod ingress;

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::Capability::Generation;
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill, indexed, items_mut, set};
use crate::builtin::{check, ip, labels, print};

const GROUP: &str = "networking.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[ingress::CLASS, ingress::INGRESS, POLICY];

const POLICY: Entry = Entry {
    short_names: &["netpol"],
    capabilities: &[Generation],
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
    validate: |policy| check_policy(policy, &[]),
    validate_update: |new, old, _| check_policy(new, &blocks(old)),
    columns: &[
        NAME,
        column!("Pod-Selector" string Of(|policy| print::selector(policy.at("spec.podSelector")))
            => "Pods the policy is about"),
        AGE,
    ],
    ..Entry::new(GROUP, "v1", "NetworkPolicy", "networkpolicies")
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
        for (path, rule) in spec.each(&path, list) {
            for (j, port) in rule.items("ports").iter().enumerate() {
                errors += check_port(&path.child("ports").index(j), port);
            }
            for (j, peer) in rule.items(peers).iter().enumerate() {
                errors += check_peer(&path.child(peers).index(j), peer, existing);
            }
        }
    }
    let types = spec.texts("policyTypes");
    let path = path.child("policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.invalid(&path, spec.at("policyTypes").clone(), detail);
        return errors;
    }
    for (i, kind) in types.iter().enumerate() {
        errors += check::supported(&path.index(i), kind, &["Ingress", "Egress"]);
    }
    errors
}

fn check_port(path: &Path, port: &Value) -> Errors {
    let mut errors = Errors::new();
    errors += check::optional_choice(path, port, "protocol", &["TCP", "UDP", "SCTP"]);
    let here = path.child("endPort");
    let end = port.int("endPort");
    match (port.at("port"), end) {
        (Value::Null, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            errors.invalid(&here, end, detail);
        }
        (Value::Null, None) => {}
        (Value::String(name), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.invalid(&here, end, detail);
            }
            errors += check::port_name(&path.child("port"), name);
        }
        (number, end) => {
            let number = number.as_i64().unwrap_or_default();
            errors += check::port_number(&path.child("port"), number);
            if let Some(end) = end {
                if end < number {
                    errors.invalid(&here, number, "must be greater than or equal to `port`");
                }
                errors += check::port_number(&here, end);
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
            errors += labels::check_selector(&path.child(field), peer.at(field));
        }
    }
    let block = peer.has("ipBlock");
    if block {
        errors += check_block(&path.child("ipBlock"), peer.at("ipBlock"), existing);
        if count > 0 {
            errors.forbidden(path, "may not specify both ipBlock and another peer");
        }
    } else if count == 0 {
        errors.required(path, "must specify a peer");
    }
    errors
}

fn check_block(path: &Path, block: &Value, existing: &[&str]) -> Errors {
    let range = block.text("cidr");
    if range.is_empty() {
        return FieldError::required(&path.child("cidr"), "").into();
    }
    let mut errors = ip::check_cidr(&path.child("cidr"), range, existing);
    let Some(outer) = ip::parse_cidr(range) else {
        return errors;
    };
    for (path, except) in indexed(&path.child("except"), &block.texts("except")) {
        errors += ip::check_cidr(&path, except, existing);
        if ip::parse_cidr(except).is_some_and(|inner| !ip::is_strict_subset(inner, outer)) {
            errors.invalid(&path, *except, "must be a strict subset of `cidr`");
        }
    }
    errors
}
