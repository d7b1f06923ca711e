//! Pod specs and templates as a whole, in the order kube-apiserver reports
//! (`ValidatePodSpec`, `ValidatePodTemplateSpec`).

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::pod_spec::{container, containers, scheduling, security, volume};
use crate::builtin::value::{Read, indexed};
use crate::builtin::{check, ip, labels, layout, resources};

/// A pod spec. `pod` is the pod's metadata; templates have none.
pub(crate) fn check_spec(path: &Path, spec: &Value, pod: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let grace = spec.int("terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = pod.map(|metadata| metadata.text("name"));
    let (volumes, wrong) =
        volume::check_volumes(&path.child("volumes"), spec.items("volumes"), pod_name);
    errors += wrong;
    let mut claims: Vec<&str> = spec
        .items("resourceClaims")
        .iter()
        .map(|claim| claim.text("name"))
        .filter(|name| !name.is_empty())
        .collect();
    claims.sort_unstable();
    errors += check_claims(&path.child("resourceClaims"), spec.items("resourceClaims"));
    let context = container::Pod {
        volumes,
        claims,
        grace,
        restart_policy: spec.text("restartPolicy"),
        os: spec.maybe_text("os.name"),
        host_users: spec.at("hostUsers").as_bool().unwrap_or(true),
    };
    let main = spec.items("containers");
    errors += container::check_containers(&path.child("containers"), main, &context);
    errors += container::check_init_containers(
        &path.child("initContainers"),
        spec.items("initContainers"),
        main,
        &context,
    );
    errors +=
        container::check_ephemeral_containers(&path.child("ephemeralContainers"), spec, &context);
    errors += check_pod_resources(path, spec, &context.claims);
    errors += check_host_network(path, spec, pod.is_some());
    let accepted = ["Always", "OnFailure", "Never"];
    errors += check::choice(path, spec, "restartPolicy", &accepted);
    let accepted = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors += check::choice(path, spec, "dnsPolicy", &accepted);
    errors += labels::check(&path.child("nodeSelector"), spec.at("nodeSelector"));
    errors += security::check_pod(&path.child("securityContext"), spec);
    errors += scheduling::check_affinity(&path.child("affinity"), spec.at("affinity"));
    errors += check_dns(&path.child("dnsConfig"), spec);
    for (path, gate) in spec.each(path, "readinessGates") {
        let path = path.child("conditionType");
        errors += check::qualified(&path, gate.text("conditionType"));
    }
    errors += check_gates(
        &path.child("schedulingGates"),
        spec.items("schedulingGates"),
    );
    errors += scheduling::check_spreading(
        &path.child("topologySpreadConstraints"),
        spec.items("topologySpreadConstraints"),
    );
    errors += security::check_host_process(path, spec);
    errors += check_host_users(path, spec);
    errors += check_names(path, spec);
    errors += check_rest(path, spec);
    errors
}

fn check_names(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    if let Some(name) = spec.maybe_text("hostnameOverride") {
        let path = path.child("hostnameOverride");
        for (set, what) in [
            (spec.is_true("setHostnameAsFQDN"), "setHostnameAsFQDN"),
            (spec.is_true("hostNetwork"), "hostNetwork"),
        ] {
            if set {
                errors.forbidden(&path, format!("may not be specified when {what} is true"));
            }
        }
        if name.len() > 64 {
            errors.too_long(&path, 64);
        }
        errors += check::subdomain(&path, name);
    }
    for field in ["serviceAccountName", "nodeName"] {
        errors += check::empty_or(path, spec, field, check::subdomain);
    }
    if let Some(seconds) = spec.int("activeDeadlineSeconds") {
        let path = path.child("activeDeadlineSeconds");
        errors += check::in_range(&path, seconds, 1, i64::from(i32::MAX));
    }
    for field in ["hostname", "subdomain"] {
        errors += check::empty_or(path, spec, field, check::label);
    }
    errors
}

fn check_rest(path: &Path, spec: &Value) -> Errors {
    let mut errors =
        scheduling::check_tolerations(&path.child("tolerations"), spec.items("tolerations"));
    for (path, alias) in spec.each(path, "hostAliases") {
        errors += ip::check(&path.child("ip"), alias.text("ip"), &[]);
        for (j, name) in alias.texts("hostnames").iter().enumerate() {
            errors += check::subdomain(&path.child("hostnames").index(j), name);
        }
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        errors += check::empty_or(path, spec, field, check::subdomain);
    }
    errors += check::absent_or(path, spec, "preemptionPolicy", check::preemption_policy);
    errors += check::if_set(path, spec, "overhead", check_overhead);
    if spec.has("os") {
        let here = path.child("os");
        match spec.text("os.name") {
            "" => errors.required(&here.child("name"), ""),
            "linux" => errors += security::check_linux(path, spec),
            "windows" => errors += security::check_windows(path, spec),
            other => errors.not_supported(&here, other, ["linux", "windows"]),
        }
    }
    errors += check_file_refs(path, spec);
    errors
}

/// Overhead of a runtime class: limits of a container by another name.
pub(crate) fn check_overhead(path: &Path, overhead: &Value) -> Errors {
    let requirements = serde_json::json!({ "limits": overhead });
    resources::check_requirements(path, &requirements, resources::check_container_name, &[])
}

/// A template: metadata, spec, and nothing that only pods have.
pub(crate) fn check_template(path: &Path, template: &Value) -> Errors {
    let mut errors = labels::check(&path.child("labels"), template.at("metadata.labels"));
    let annotations = template.at("metadata.annotations");
    errors += check::annotations(&path.child("annotations"), annotations);
    let spec = template.at("spec");
    errors += check_annotations(&path.child("annotations"), annotations, spec);
    errors += check_spec(&path.child("spec"), spec, None);
    if spec.count("ephemeralContainers") > 0 {
        errors.forbidden(
            &path.child("spec").child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
    errors
}

/// Annotations with a meaning for pods.
pub(crate) fn check_annotations(path: &Path, annotations: &Value, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let value = |key: &str| annotations.get(key).and_then(Value::as_str);
    let mirror = "kubernetes.io/config.mirror";
    if let (Some(value), true) = (value(mirror), spec.text("nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(mirror), value, detail);
    }
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    if let Some(value) = value(cost) {
        // Leading zeros and signs are rejected, so that the annotation has one spelling for each
        // number (`pkg/apis/core/helper`).
        let plain = value == "0"
            || !value.trim_start_matches('-').starts_with('0') && !value.starts_with('+');
        if !plain || value.parse::<i32>().is_err() {
            errors.invalid(&path.key(cost), value, "must be a 32bit integer");
        }
    }
    errors
}

fn check_claims(path: &Path, claims: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (path, claim) in indexed(path, claims) {
        let name = claim.text("name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if seen.contains(&name) {
            errors.duplicate(&path.child("name"), name);
        } else {
            errors += check::label(&path.child("name"), name);
            seen.push(name);
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let detail = match fields.iter().filter(|field| claim.has(field)).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
        };
        if !detail.is_empty() {
            let kind = "PodResourceClaim";
            errors.push(layout::invalid(&path, kind, claim, detail));
        }
        for field in fields {
            errors += check::absent_or(&path, claim, field, check::subdomain);
        }
    }
    errors
}

fn check_pod_resources(path: &Path, spec: &Value, claims: &[&str]) -> Errors {
    if !spec.has("resources") {
        return Errors::new();
    }
    let path = path.child("resources");
    if spec.text("os.name") == "windows" {
        return FieldError::forbidden(&path, "may not be set for a windows pod").into();
    }
    let mut errors = Errors::new();
    if spec.has("resources.claims") {
        let detail = "claims may not be set for Resources at pod-level";
        errors.forbidden(&path.child("claims"), detail);
    }
    let requirements = spec.at("resources");
    errors +=
        resources::check_requirements(&path, requirements, resources::check_pod_level_name, claims);
    for (i, container) in spec.items("containers").iter().enumerate() {
        for (name, limit) in container.entries("resources.limits") {
            let Some(most) = requirements.entry("limits", name) else {
                continue;
            };
            if resources::quantity(limit) > resources::quantity(most) {
                let path = path.child("containers").index(i).key(name).child("limits");
                let most = resources::text(Some(most));
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&path, limit.clone(), detail);
            }
        }
    }
    errors
}

fn check_host_network(path: &Path, spec: &Value, is_pod: bool) -> Errors {
    if !spec.is_true("hostNetwork") {
        return Errors::new();
    }
    let mut errors = Errors::new();
    for (i, container) in spec.items("containers").iter().enumerate() {
        for (j, port) in container.items("ports").iter().enumerate() {
            let host = port.number("hostPort");
            // In a template the port is still defaulted from the container port, when its pod is
            // created.
            if (is_pod || host != 0) && host != port.number("containerPort") {
                let path = path.child("containers").index(i).child("ports").index(j);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.child("hostPort"), host, detail);
            }
        }
    }
    errors
}

fn check_dns(path: &Path, spec: &Value) -> Errors {
    let config = spec.at("dnsConfig");
    let servers = config.texts("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return FieldError::required(path, detail).into();
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return FieldError::required(&path.child("nameservers"), detail).into();
        }
    }
    let mut errors = Errors::new();
    let here = path.child("nameservers");
    // `MaxDNSNameservers` and its neighbours in `pkg/apis/core/validation/validation.go`: the
    // resolver of glibc reads three servers and ignores the rest.
    if servers.len() > 3 {
        let value = config.at("nameservers").clone();
        errors.invalid(&here, value, "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        errors += ip::check(&here.index(i), server, &[]);
    }
    let searches = config.texts("searches");
    let here = path.child("searches");
    if searches.len() > 32 {
        let value = config.at("searches").clone();
        errors.invalid(&here, value, "must not have more than 32 search paths");
    }
    if searches.join(" ").len() > 2048 {
        let value = config.at("searches").clone();
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&here, value, detail);
    }
    for (i, search) in searches
        .iter()
        .enumerate()
        .filter(|(_, search)| **search != ".")
    {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors += check_search(&here.index(i), search);
    }
    for (i, option) in config.items("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errors.required(&path.child("options").index(i), "must not be empty");
        }
    }
    errors
}

/// A search path: a subdomain whose labels may have underscores, as service names do in DNS.
fn check_search(path: &Path, search: &str) -> Errors {
    let mut errors = Errors::new();
    if search.len() > 253 {
        errors.invalid(path, search, machinery::names::max_len_error(253));
    }
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = search.split('.').all(|label| {
        let label = label.strip_prefix('_').unwrap_or(label);
        label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
    });
    if !fits {
        let label = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
        let detail = machinery::names::regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '_', '-' or '.', and must start and end with an alphanumeric character",
            &format!("{label}(\\.{label})*"),
            &["example.com"],
        );
        errors.invalid(path, search, detail);
    }
    errors
}

fn check_gates(path: &Path, gates: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (i, gate) in gates.iter().enumerate() {
        let name = gate.text("name");
        errors += check::qualified(&path.index(i), name);
        errors += check::unique(&path.index(i), name, &mut seen);
    }
    errors
}

fn check_host_users(path: &Path, spec: &Value) -> Errors {
    if spec.at("hostUsers").as_bool() != Some(false) {
        return Errors::new();
    }
    let detail = "when `hostUsers` is false";
    let mut errors = Errors::new();
    for (field, named) in [
        ("hostNetwork", "hostNetwork"),
        // With a capital, as upstream's path has it.
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.is_true(field) {
            errors.forbidden(&path.child(named), detail);
        }
    }
    for (path, container) in containers(path, spec) {
        if container.count("volumeDevices") > 0 {
            errors.forbidden(&path.child("volumeDevices"), detail);
        }
    }
    errors
}

/// Environment variables read from files need an emptyDir volume.
fn check_file_refs(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let volumes = spec.items("volumes");
    for (path, container) in containers(path, spec) {
        for (path, variable) in container.each(&path, "env") {
            let reference = variable.at("valueFrom.fileKeyRef");
            if reference.is_null() {
                continue;
            }
            let path = path.child("valueFrom.fileKeyRef.volumeName");
            let name = reference.text("volumeName");
            match volumes.iter().find(|volume| volume.text("name") == name) {
                None => errors.not_found(&path, name),
                Some(volume) if !volume.has("emptyDir") => {
                    errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
    errors
}
