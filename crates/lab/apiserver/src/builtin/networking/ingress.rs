//! Ingresses and their classes.

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use machinery::names::is_wildcard_dns1123_subdomain;
use serde_json::{Value, json};

use super::GROUP;
use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, existing, fill, set};
use crate::builtin::{check, ip, print};
use crate::kind::Part;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Ingresses.
pub(super) const INGRESS: Entry = Entry {
    short_names: &["ing"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        ..Capabilities::NONE
    },
    default: |ingress| fill(ingress, "status.loadBalancer", json!({})),
    prepare_create: |ingress, _| set(ingress, "status", json!({ "loadBalancer": {} })),
    validate: |ingress| {
        let mut errors = check_ingress(ingress);
        let class = ingress.maybe_text("spec.ingressClassName");
        if let (Some(annotated), Some(class)) = (ingress.annotation(CLASS_ANNOTATION), class)
            && annotated != class
        {
            let path = Path::new("annotations").child(CLASS_ANNOTATION);
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid(&path, annotated, detail));
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
    cells: ingress_cells,
    ..Entry::new(GROUP, "v1", "Ingress", "ingresses", "ingress")
};

const INGRESS_COLUMNS: &[Column] = &[
    NAME,
    column("Class", "string", "Class of the ingress"),
    column("Hosts", "string", "Hosts it is for"),
    column("Address", "string", "Where it can be reached"),
    column("Ports", "string", "Ports it listens on"),
    AGE,
];

fn ingress_cells(ingress: &Value, now: Timestamp) -> Vec<Value> {
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
    let shown = match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        (false, false) => hosts.join(","),
    };
    let addresses = ingress.items("status.loadBalancer.ingress").iter();
    let mut addresses: Vec<&str> = addresses
        .map(|address| match address.text("ip") {
            "" => address.text("hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let ports = if ingress.count("spec.tls") > 0 {
        "80, 443"
    } else {
        "80"
    };
    vec![
        ingress.name().into(),
        print::maybe(ingress.maybe_text("spec.ingressClassName"), "<none>"),
        shown.into(),
        addresses.join(",").into(),
        ports.into(),
        print::age(ingress, now),
    ]
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
        errors.push(FieldError::invalid(&path, spec.at("rules").clone(), detail));
    }
    if spec.has("defaultBackend") {
        errors.extend(check_backend(
            &path.child("defaultBackend"),
            spec.at("defaultBackend"),
        ));
    }
    for (i, rule) in spec.items("rules").iter().enumerate() {
        let path = path.child("rules").index(i);
        let host = rule.text("host");
        if !host.is_empty() {
            let here = path.child("host");
            if ip::parse_sloppy(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(&here, host, detail));
            }
            errors.extend(check_host(&here, host));
        }
        if rule.has("http") {
            let path = path.child("http").child("paths");
            let paths = rule.items("http.paths");
            if paths.is_empty() {
                errors.push(FieldError::required(&path, ""));
            }
            for (j, entry) in paths.iter().enumerate() {
                errors.extend(check_path(&path.index(j), entry));
            }
        }
    }
    for (i, tls) in spec.items("tls").iter().enumerate() {
        let path = path.child("tls").index(i);
        for (j, host) in tls.texts("hosts").iter().enumerate() {
            errors.extend(check_host(&path.child("hosts").index(j), host));
        }
        let secret = tls.text("secretName");
        if !secret.is_empty() {
            errors.extend(check::subdomain(&path.child("secretName"), secret));
        }
    }
    if let Some(class) = spec.maybe_text("ingressClassName") {
        errors.extend(check::subdomain(&path.child("ingressClassName"), class));
    }
    errors
}

fn check_path(path: &Path, entry: &Value) -> Errors {
    let Some(kind) = entry.maybe_text("pathType") else {
        let path = path.child("pathType");
        return vec![FieldError::required(&path, "pathType must be specified")];
    };
    let mut errors = Errors::new();
    let at = entry.text("path");
    let here = path.child("path");
    let mut wrong = |detail: String| errors.push(FieldError::invalid(&here, at, detail));
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
            errors.push(FieldError::not_supported(
                &path.child("pathType"),
                kind,
                accepted,
            ));
        }
    }
    errors.extend(check_backend(&path.child("backend"), entry.at("backend")));
    errors
}

fn check_backend(path: &Path, backend: &Value) -> Errors {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            vec![FieldError::invalid(path, "", detail)]
        }
        (true, false) => check_reference(&path.child("resource"), backend.at("resource")),
        (false, true) => check_service(path, backend.at("service")),
        (false, false) => {
            vec![FieldError::invalid(
                path,
                "",
                "resource or service backend is required",
            )]
        }
    }
}

fn check_service(path: &Path, service: &Value) -> Errors {
    let mut errors = Errors::new();
    let here = path.child("service");
    match service.text("name") {
        "" => errors.push(FieldError::required(&here.child("name"), "")),
        name => errors.extend(check::label(&here.child("name"), name)),
    }
    let here = here.child("port");
    match (service.text("port.name"), service.number("port.number")) {
        ("", 0) => errors.push(FieldError::required(
            path,
            "port name or number is required",
        )),
        ("", number) => errors.extend(check::port_number(&here.child("number"), number)),
        (name, 0) => errors.extend(check::port_name(&here.child("name"), name)),
        _ => {
            errors.push(FieldError::invalid(
                path,
                "",
                "cannot set both port name & port number",
            ));
        }
    }
    errors
}

fn check_reference(path: &Path, reference: &Value) -> Errors {
    let mut errors = Errors::new();
    if let Some(group) = reference.maybe_text("apiGroup") {
        errors.extend(check::subdomain(&path.child("apiGroup"), group));
    }
    for field in ["kind", "name"] {
        match reference.text(field) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            text => errors.extend(check::segment(&path.child(field), text)),
        }
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
    for (i, ingress) in new.items(list).iter().enumerate() {
        let path = check::path(list).index(i);
        let address = ingress.text("ip");
        if !address.is_empty() {
            errors.extend(ip::check(&path.child("ip"), address, &existing));
        }
        let host = ingress.text("hostname");
        if !host.is_empty() {
            let here = path.child("hostname");
            errors.extend(check::subdomain(&here, host));
            if ip::parse_sloppy(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(&here, host, detail));
            }
        }
    }
    errors
}

/// Classes.
pub(super) const CLASS: Entry = Entry {
    namespaced: false,
    capabilities: Capabilities {
        generation: true,
        ..Capabilities::NONE
    },
    default: |class| {
        if let Some(parameters) = existing(class, "spec.parameters") {
            fill(parameters, "scope", "Cluster");
        }
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: check_class,
    validate_update: |new, old, _| {
        let path = check::path("spec.controller");
        let (controller, was) = (new.at("spec.controller"), old.at("spec.controller"));
        let mut errors = check::immutable(&path, controller, was);
        errors.extend(check_class(new));
        errors
    },
    columns: &[
        NAME,
        column("Controller", "string", "Who handles ingresses of the class"),
        column("Parameters", "string", "More settings for the controller"),
        AGE,
    ],
    cells: |class, now| {
        let key = "ingressclass.kubernetes.io/is-default-class";
        let mark = if class.annotation(key) == Some("true") {
            " (default)"
        } else {
            ""
        };
        let parameters = match class.at("spec.parameters") {
            Value::Null => "<none>".to_owned(),
            parameters => {
                let group = parameters.maybe_text("apiGroup");
                let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                format!(
                    "{}{group}/{}",
                    parameters.text("kind"),
                    parameters.text("name")
                )
            }
        };
        vec![
            format!("{}{mark}", class.name()).into(),
            class.text("spec.controller").into(),
            parameters.into(),
            print::age(class, now),
        ]
    },
    ..Entry::new(
        GROUP,
        "v1",
        "IngressClass",
        "ingressclasses",
        "ingressclass",
    )
};

fn check_class(class: &Value) -> Errors {
    let path = Path::new("spec");
    let controller = class.text("spec.controller");
    let mut errors = Errors::new();
    if controller.len() > 250 {
        errors.push(FieldError::too_long(&path.child("controller"), 250));
    }
    errors.extend(check::domain_prefixed_path(
        &path.child("controller"),
        controller,
    ));
    let parameters = class.at("spec.parameters");
    if parameters.is_null() {
        return errors;
    }
    let path = path.child("parameters");
    errors.extend(check_reference(&path, parameters));
    let here = path.child("namespace");
    match (
        parameters.maybe_text("scope"),
        parameters.maybe_text("namespace"),
    ) {
        (None, _) => errors.push(FieldError::required(&path.child("scope"), "")),
        (Some("Namespace"), None) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(&here, detail));
        }
        (Some("Namespace"), Some(namespace)) => errors.extend(check::label(&here, namespace)),
        (Some("Cluster"), Some(_)) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(&here, detail));
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => {
            let path = path.child("scope");
            errors.push(FieldError::not_supported(
                &path,
                other,
                ["Cluster", "Namespace"],
            ));
        }
    }
    errors
}
