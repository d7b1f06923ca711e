//! The `certificates.k8s.io` group (rules: `pkg/apis/certificates/validation`).

use machinery::field::{FieldError, Path};
use machinery::time::{format_time, human_duration};
use serde_json::{Value, json};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::builtin::check;
use crate::builtin::entry::Capability::Status;
use crate::builtin::entry::Cell::{IfNotEmpty, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column, selectable_text};
use crate::builtin::value::{Read, indexed, items_mut, keep, remove, set};
use crate::kind::{Part, WriteContext};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[REQUEST];

const REQUEST: Entry = Entry {
    short_names: &["csr"],
    namespaced: false,
    capabilities: &[Status],
    prepare_create: |request, context| {
        // The identity of the requester is what a signer trusts, so it is never taken from the
        // body. kube-apiserver also records the groups and the UID of the user; here no signer runs
        // that would read them.
        for field in ["uid", "groups", "extra"] {
            remove(request, &format!("spec.{field}"));
        }
        set(request, "spec.username", context.user);
        set(request, "status", json!({}));
    },
    prepare_update,
    validate: |request| check_request(request),
    validate_update: check_update,
    name: check::any_name,
    selectable: &[selectable_text!("spec.signerName")],
    columns: COLUMNS,
    main_resets: Some(&["spec", "status"]),
    ..Entry::new(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    column!("SignerName" string IfNotEmpty("spec.signerName", "<none>") => "Who is asked to sign"),
    column!("Requestor" string Text("spec.username") => "Who asks"),
    column!("RequestedDuration" string Of(duration) => "How long the certificate should be valid"),
    column!("Condition" string Of(state) => "How far the request is"),
];

fn duration(request: &Value) -> Value {
    match request.int("spec.expirationSeconds") {
        Some(seconds) => human_duration(jiff::SignedDuration::from_secs(seconds)).into(),
        None => "<none>".into(),
    }
}

fn state(request: &Value) -> Value {
    let has = |kind: &str| {
        request
            .items("status.conditions")
            .iter()
            .any(|condition| condition.text("type") == kind)
    };
    let mut state = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !request.text("status.certificate").is_empty() {
        state.push_str(",Issued");
    }
    state.into()
}

fn prepare_update(new: &mut Value, old: &Value, part: Part<'_>, context: WriteContext<'_>) {
    match part {
        Part::Main => {
            keep(new, old, "spec");
            keep(new, old, "status");
        }
        Part::Status => {
            keep(new, old, "spec");
            stamp(new, old, context);
        }
        Part::Other(_) => {
            // `approval` changes conditions and nothing else.
            stamp(new, old, context);
            let conditions = new.at("status.conditions").clone();
            keep(new, old, "spec");
            keep(new, old, "status");
            if !conditions.is_null() {
                set(new, "status.conditions", conditions);
            }
        }
    }
}

/// Sets the time of conditions without one to that of this write.
fn stamp(new: &mut Value, old: &Value, context: WriteContext<'_>) {
    let now = format_time(context.now);
    for condition in items_mut(new, "status.conditions") {
        if !condition.has("lastUpdateTime") {
            set(condition, "lastUpdateTime", now.as_str());
        }
        if condition.has("lastTransitionTime") {
            continue;
        }
        let known = old.items("status.conditions").iter().find(|known| {
            known.text("type") == condition.text("type")
                && known.text("status") == condition.text("status")
                && known.has("lastTransitionTime")
        });
        match known {
            Some(known) => keep(condition, known, "lastTransitionTime"),
            None => set(condition, "lastTransitionTime", now.as_str()),
        }
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn check_request(request: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = request.at("spec");
    let mut errors = Errors::new();
    if let Err(why) = check_csr(spec.text("request")) {
        errors.invalid(&path.child("request"), spec.at("request").clone(), why);
    }
    let usages = spec.texts("usages");
    let here = path.child("usages");
    if usages.is_empty() {
        errors.required(&here, "");
    }
    for (i, usage) in usages.iter().enumerate() {
        errors += check::supported(&here.index(i), usage, USAGES);
    }
    for (i, usage) in usages
        .iter()
        .enumerate()
        .filter(|(i, usage)| usages[..*i].contains(usage))
    {
        errors.duplicate(&here.index(i), *usage);
    }
    errors += check_signer(&path.child("signerName"), spec.text("signerName"));
    match spec.int("expirationSeconds") {
        Some(seconds) if seconds < 600 => {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.invalid(&path.child("expirationSeconds"), seconds, detail);
        }
        _ => {}
    }
    errors += check_conditions(request);
    errors
}

/// The request has to be one PEM block with a PKCS#10 request.
fn check_csr(encoded: &str) -> Result<(), String> {
    use base64::Engine as _;
    let wrong = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .map_err(|_| wrong())?;
    let pem = Pem::iter_from_buffer(&bytes)
        .next()
        .and_then(Result::ok)
        .ok_or_else(wrong)?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(wrong());
    }
    x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents)
        .map(|_| ())
        .map_err(|error| format!("asn1: structure error: {error}"))
}

/// A signer name has a path after the domain.
fn check_signer(path: &Path, name: &str) -> Errors {
    if name.is_empty() {
        return FieldError::required(path, "").into();
    }
    if name == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        return FieldError::invalid(path, name, detail).into();
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, rest] = segments.as_slice() else {
        let detail = "must be a fully qualified domain and path of the form \
                      'example.com/signer-name'";
        return FieldError::invalid(path, name, detail).into();
    };
    let mut errors = Errors::new();
    for message in machinery::names::is_dns1123_subdomain(domain) {
        let detail = format!("validating label \"{domain}\": {message}");
        errors.invalid(path, *domain, detail);
    }
    if rest.is_empty() {
        errors.invalid(path, name, "validating label \"\": must not be empty");
    }
    errors
}

fn check_conditions(request: &Value) -> Errors {
    let path = Path::new("status.conditions");
    let mut errors = Errors::new();
    let mut seen: Vec<&str> = Vec::new();
    for (here, condition) in indexed(&path, request.items("status.conditions")) {
        let kind = condition.text("type");
        errors += check::required(&here.child("type"), kind);
        let accepted: &[&str] = if matches!(kind, "Approved" | "Denied" | "Failed") {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        errors += check::choice(&here, condition, "status", accepted);
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(&opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&path, kind, detail);
        }
        errors += check::unique(&here.child("type"), kind, &mut seen);
    }
    errors
}

fn check_update(new: &Value, old: &Value, part: Part<'_>) -> Errors {
    let mut errors = check_request(new);
    let path = Path::new("status.conditions");
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let all = request.items("status.conditions").iter();
        all.filter(|condition| condition.text("type") == kind)
            .cloned()
            .collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.forbidden(&path, detail);
        }
    }
    // Approval is a permission of its own (`certificatesigningrequests/approval`); the other
    // endpoints must not grant it by the way.
    if !matches!(part, Part::Other("approval")) {
        for kind in ["Approved", "Denied"] {
            let (now, was) = (of(new, kind), of(old, kind));
            let what = match now.len().cmp(&was.len()) {
                std::cmp::Ordering::Greater => "add",
                std::cmp::Ordering::Equal if now != was => "modify",
                _ => continue,
            };
            let detail = format!("updates may not {what} a condition of type \"{kind}\"");
            errors.forbidden(&path, detail);
        }
    }
    let (now, was) = (
        new.text("status.certificate"),
        old.text("status.certificate"),
    );
    if now != was {
        let path = Path::new("status.certificate");
        if part != Part::Status {
            let detail = "updates may not set certificate content";
            errors.forbidden(&path, detail);
        } else if !was.is_empty() {
            errors.forbidden(&path, "updates may not modify existing certificate content");
        }
    }
    errors
}
