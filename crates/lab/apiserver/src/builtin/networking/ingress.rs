//! Ingresses and their classes (`ValidateIngress`, `ValidateIngressClass`).

use machinery::field::{FieldError, Path};
use machinery::names::is_wildcard_dns1123_subdomain;
use serde_json::{Value, json};

use super::GROUP;
use crate::builtin::entry::Capability::{Generation, Status};
use crate::builtin::entry::Cell::{IfSet, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, existing, fill, set};
use crate::builtin::{check, ip, print};
use crate::kind::Part;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Ingresses.
pub(super) const INGRESS: Entry = Entry {
    short_names: &["ing"],
    capabilities: &[Generation, Status],
    default: |ingress| fill(ingress, "status.loadBalancer", json!({})),
    prepare_create: |ingress, _| set(ingress, "status", json!({ "loadBalancer": {} })),
    validate: |ingress| {
        let mut errors = check_ingress(ingress);
        let class = ingress.maybe_text("spec.ingressClassName");
        // Only on creation: existing objects may have both, and controllers decide which one they
        // read.
        if let (Some(annotated), Some(class)) = (ingress.annotation(CLASS_ANNOTATION), class)
            && annotated != class
        {
            let path = Path::new("annotations").child(CLASS_ANNOTATION);
            let detail = "must match `ingressClassName` when both are specified";
            errors.invalid(&path, annotated, detail);
        }
        errors
    },
    validate_update: |new, old, part| match part {
        Part::Status => check_status(new, old),
        _ => check_ingress(new),
    },
    warnings: |ingress, old| {
        let annotated = ingress.annotation(CLASS_ANNOTATION).is_some();
        if old.is_none() && annotated && !ingress.has("spec.ingressClassName") {
            vec![format!(
                "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use \
                 'spec.ingressClassName' instead"
            )]
        } else {
            Vec::new()
        }
    },
    columns: INGRESS_COLUMNS,
    ..Entry::new(GROUP, "v1", "Ingress", "ingresses")
};

const INGRESS_COLUMNS: &[Column] = &[
    NAME,
    column!("Class" string IfSet("spec.ingressClassName", "<none>") => "Class of the ingress"),
    column!("Hosts" string Of(hosts) => "Hosts it is for"),
    column!("Address" string Of(|ingress| print::load_balancer(ingress).join(",").into())
        => "Where it can be reached"),
    column!("Ports" string Of(|ingress| {
        if ingress.count("spec.tls") > 0 { "80, 443" } else { "80" }.into()
    }) => "Ports it listens on"),
    AGE,
];

fn hosts(ingress: &Value) -> Value {
    let rules = ingress.items("spec.rules");
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        let host = rule.text("host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".into(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3).into(),
        (false, false) => hosts.join(",").into(),
    }
}

fn check_host(path: &Path, host: &str) -> Errors {
    if host.contains('*') {
        check::invalid_each(path, host, is_wildcard_dns1123_subdomain(host))
    } else {
        check::subdomain(path, host)
    }
}

fn check_ingress(ingress: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = ingress.at("spec");
    let mut errors = Errors::new();
    if spec.count("rules") == 0 && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&path, spec.at("rules").clone(), detail);
    }
    errors += check::if_set(&path, spec, "defaultBackend", check_backend);
    for (path, rule) in spec.each(&path, "rules") {
        let host = rule.text("host");
        if !host.is_empty() {
            let here = path.child("host");
            if ip::parse_sloppy(host).is_some() {
                errors.invalid(&here, host, "must be a DNS name, not an IP address");
            }
            errors += check_host(&here, host);
        }
        if rule.has("http") {
            let path = path.child("http").child("paths");
            let paths = rule.items("http.paths");
            if paths.is_empty() {
                errors.required(&path, "");
            }
            for (j, entry) in paths.iter().enumerate() {
                errors += check_path(&path.index(j), entry);
            }
        }
    }
    for (path, tls) in spec.each(&path, "tls") {
        for (j, host) in tls.texts("hosts").iter().enumerate() {
            errors += check_host(&path.child("hosts").index(j), host);
        }
        errors += check::empty_or(&path, tls, "secretName", check::subdomain);
    }
    errors += check::absent_or(&path, spec, "ingressClassName", check::subdomain);
    errors
}

fn check_path(path: &Path, entry: &Value) -> Errors {
    let Some(kind) = entry.maybe_text("pathType") else {
        let path = path.child("pathType");
        return FieldError::required(&path, "pathType must be specified").into();
    };
    let mut errors = Errors::new();
    let at = entry.text("path");
    let here = path.child("path");
    let mut wrong = |detail: String| errors.invalid(&here, at, detail);
    match kind {
        "Exact" | "Prefix" => {
            if !at.starts_with('/') {
                wrong("must be an absolute path".to_owned());
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if at.contains(sequence) {
                    wrong(format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if at.ends_with(suffix) {
                    wrong(format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !at.is_empty() && !at.starts_with('/') {
                wrong("must be an absolute path".to_owned());
            }
        }
        _ => {
            let accepted = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), kind, accepted);
        }
    }
    errors += check_backend(&path.child("backend"), entry.at("backend"));
    errors
}

fn check_backend(path: &Path, backend: &Value) -> Errors {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            FieldError::invalid(path, "", "cannot set both resource and service backends").into()
        }
        (true, false) => check_reference(&path.child("resource"), backend.at("resource")),
        (false, true) => check_service(path, backend.at("service")),
        (false, false) => {
            FieldError::invalid(path, "", "resource or service backend is required").into()
        }
    }
}

fn check_service(path: &Path, service: &Value) -> Errors {
    let mut errors = Errors::new();
    let here = path.child("service");
    errors += check::required_as(&here, service, "name", check::label);
    let here = here.child("port");
    match (service.text("port.name"), service.number("port.number")) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", number) => errors += check::port_number(&here.child("number"), number),
        (name, 0) => errors += check::port_name(&here.child("name"), name),
        _ => {
            errors.invalid(path, "", "cannot set both port name & port number");
        }
    }
    errors
}

fn check_reference(path: &Path, reference: &Value) -> Errors {
    let mut errors = Errors::new();
    errors += check::absent_or(path, reference, "apiGroup", check::subdomain);
    for field in ["kind", "name"] {
        errors += check::required_as(path, reference, field, check::segment);
    }
    errors
}

fn check_status(new: &Value, old: &Value) -> Errors {
    let list = "status.loadBalancer.ingress";
    let existing: Vec<&str> = old
        .items(list)
        .iter()
        .map(|ingress| ingress.text("ip"))
        .collect();
    let mut errors = Errors::new();
    for (path, ingress) in new.each(&Path::root(), list) {
        let address = ingress.text("ip");
        if !address.is_empty() {
            errors += ip::check(&path.child("ip"), address, &existing);
        }
        let host = ingress.text("hostname");
        if !host.is_empty() {
            let here = path.child("hostname");
            errors += check::subdomain(&here, host);
            if ip::parse_sloppy(host).is_some() {
                errors.invalid(&here, host, "must be a DNS name, not an IP address");
            }
        }
    }
    errors
}

/// Classes.
pub(super) const CLASS: Entry = Entry {
    namespaced: false,
    capabilities: &[Generation],
    default: |class| {
        if let Some(parameters) = existing(class, "spec.parameters") {
            fill(parameters, "scope", "Cluster");
        }
    },
    validate: check_class,
    validate_update: |new, old, _| {
        let mut errors = check::unchanged(new, old, "spec.controller");
        errors += check_class(new);
        errors
    },
    columns: &[
        Column {
            cell: Of(|class| print::marked_default(class, &[DEFAULT_CLASS])),
            ..NAME
        },
        column!("Controller" string Text("spec.controller")
            => "Who handles ingresses of the class"),
        column!("Parameters" string Of(parameters) => "More settings for the controller"),
        AGE,
    ],
    ..Entry::new(GROUP, "v1", "IngressClass", "ingressclasses")
};

const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

fn parameters(class: &Value) -> Value {
    let parameters = class.at("spec.parameters");
    if parameters.is_null() {
        return "<none>".into();
    }
    let kind = parameters.text("kind");
    let kind = match parameters.maybe_text("apiGroup") {
        Some(group) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    };
    format!("{kind}/{}", parameters.text("name")).into()
}

fn check_class(class: &Value) -> Errors {
    let path = Path::new("spec");
    let controller = class.text("spec.controller");
    let mut errors = Errors::new();
    if controller.len() > 250 {
        errors.too_long(&path.child("controller"), 250);
    }
    errors += check::domain_prefixed_path(&path.child("controller"), controller);
    let parameters = class.at("spec.parameters");
    if parameters.is_null() {
        return errors;
    }
    let path = path.child("parameters");
    errors += check_reference(&path, parameters);
    let here = path.child("namespace");
    match (
        parameters.maybe_text("scope"),
        parameters.maybe_text("namespace"),
    ) {
        (None, _) => errors.required(&path.child("scope"), ""),
        (Some("Namespace"), None) => {
            errors.required(&here, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(namespace)) => errors += check::label(&here, namespace),
        (Some("Cluster"), Some(_)) => {
            errors.forbidden(&here, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => {
            errors.not_supported(&path.child("scope"), other, ["Cluster", "Namespace"]);
        }
    }
    errors
}
