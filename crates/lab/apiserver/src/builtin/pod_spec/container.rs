//! Containers: names, images, ports, environment, mounts, policies.

use std::collections::BTreeMap;

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::pod_spec::{is_sidecar, probe, security, volume};
use crate::builtin::resources;
use crate::builtin::value::{Read, indexed, is_zero};

/// Properties of the pod that containers are validated against.
pub(crate) struct Pod<'a> {
    /// Volumes that are well-formed, by name.
    pub(crate) volumes: BTreeMap<&'a str, &'a Value>,
    /// Names of resource claims, sorted.
    pub(crate) claims: Vec<&'a str>,
    /// Grace period of the pod in seconds.
    pub(crate) grace: Option<i64>,
    /// Restart policy.
    pub(crate) restart_policy: &'a str,
    /// Operating system, if set.
    pub(crate) os: Option<&'a str>,
    /// Whether the pod uses the host's user namespace.
    pub(crate) host_users: bool,
}

/// The main containers.
pub(crate) fn check_containers(path: &Path, containers: &[Value], pod: &Pod<'_>) -> Errors {
    if containers.is_empty() {
        return FieldError::required(path, "").into();
    }
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (path, container) in indexed(path, containers) {
        errors += check_common(&path, container, pod);
        let name = container.text("name");
        errors += check::unique(&path.child("name"), name, &mut names);
        errors += check_handlers(&path, container, pod);
        errors += check_restart(&path, container);
    }
    errors += check_host_ports(path, containers);
    errors
}

/// Init containers.
pub(crate) fn check_init_containers(
    path: &Path,
    containers: &[Value],
    main: &[Value],
    pod: &Pod<'_>,
) -> Errors {
    let mut errors = Errors::new();
    let mut names: Vec<&str> = main
        .iter()
        .map(|container| container.text("name"))
        .collect();
    for (here, container) in indexed(path, containers) {
        errors += check_common(&here, container, pod);
        if container.has("restartPolicy") {
            errors += check_restart(&here, container);
        } else if container.count("restartPolicyRules") > 0 {
            errors.required(
                &here.child("restartPolicy"),
                "must specify restartPolicy when restart rules are used",
            );
        }
        let name = container.text("name");
        if names.contains(&name) {
            errors.duplicate(&here.child("name"), name);
        } else if !name.is_empty() {
            names.push(name);
        }
        // Each alone: init containers run one after the other, and may use the same port.
        errors += check_host_ports(path, std::slice::from_ref(container));
        if is_sidecar(container) {
            errors += check_handlers(&here, container, pod);
        } else {
            for field in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                if container.has(field) {
                    errors.forbidden(
                        &here.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
        }
    }
    errors
}

/// Containers added for debugging.
pub(crate) fn check_ephemeral_containers(path: &Path, spec: &Value, pod: &Pod<'_>) -> Errors {
    const NOT_EPHEMERAL: [&str; 9] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "restartPolicy",
    ];
    let mut errors = Errors::new();
    let others: Vec<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| spec.items(field))
        .map(|container| container.text("name"))
        .collect();
    let mut names = others.clone();
    for (i, container) in spec.items("ephemeralContainers").iter().enumerate() {
        let path = path.index(i);
        errors += check_common(&path, container, pod);
        errors += check_image_space(&path, container);
        let name = container.text("name");
        errors += check::unique(&path.child("name"), name, &mut names);
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(&target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        let detail = "cannot be set for an Ephemeral Container";
        for field in NOT_EPHEMERAL {
            if !is_zero(container.at(field)) {
                errors.forbidden(&path.child(field), detail);
            }
        }
        for (i, mount) in container.items("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.forbidden(&path.child("volumeMounts").index(i).child(field), detail);
                }
            }
        }
    }
    errors
}

/// Images of pods, not of templates, must not have spaces around them.
pub(crate) fn check_image_space(path: &Path, container: &Value) -> Errors {
    let image = container.text("image");
    if image.trim().len() == image.len() {
        Errors::new()
    } else {
        let detail = "must not have leading or trailing whitespace";
        FieldError::invalid(&path.child("image"), image, detail).into()
    }
}

fn check_handlers(path: &Path, container: &Value, pod: &Pod<'_>) -> Errors {
    let mut errors = Errors::new();
    if container.has("lifecycle") {
        let lifecycle = container.at("lifecycle");
        errors += probe::check_lifecycle(&path.child("lifecycle"), lifecycle, pod.grace, pod.os);
    }
    let at = |field: &str| (path.child(field), container.at(field));
    let (here, liveness) = at("livenessProbe");
    errors += probe::check_single_success(&here, liveness, pod.grace);
    let (here, readiness) = at("readinessProbe");
    errors += probe::check_readiness(&here, readiness, pod.grace);
    let (here, startup) = at("startupProbe");
    errors += probe::check_single_success(&here, startup, pod.grace);
    errors
}

fn check_restart(path: &Path, container: &Value) -> Errors {
    let mut errors = Errors::new();
    let rules = container.items("restartPolicyRules");
    match container.maybe_text("restartPolicy") {
        None if rules.is_empty() => return errors,
        None => errors.required(
            &path.child("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        ),
        Some(policy) => {
            let accepted = ["Always", "Never", "OnFailure"];
            errors += check::supported(&path.child("restartPolicy"), policy, &accepted);
        }
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_many(&rules_path, rules.len(), 20);
    }
    for (path, rule) in indexed(&rules_path, rules) {
        let accepted = ["Restart", "RestartAllContainers"];
        errors += check::supported(&path.child("action"), rule.text("action"), &accepted);
        let path = path.child("exitCodes");
        if rule.has("exitCodes") {
            let operator = rule.text("exitCodes.operator");
            errors += check::supported(&path.child("operator"), operator, &["In", "NotIn"]);
            let count = rule.count("exitCodes.values");
            if count > 255 {
                errors.too_many(&path.child("values"), count, 255);
            }
        } else {
            errors.required(&path, "must be specified");
        }
    }
    errors
}

fn check_common(path: &Path, container: &Value, pod: &Pod<'_>) -> Errors {
    let mut errors = Errors::new();
    errors += check::required_as(path, container, "name", check::label);
    errors += check::required(&path.child("image"), container.text("image"));
    let accepted = ["File", "FallbackToLogsOnError"];
    errors += check::choice(path, container, "terminationMessagePolicy", &accepted);
    errors += check_ports(&path.child("ports"), container.items("ports"));
    errors += check_env(&path.child("env"), container.items("env"));
    errors += check_env_from(&path.child("envFrom"), container.items("envFrom"));
    errors += volume::check_mounts(path, container, &pod.volumes);
    let accepted = ["Always", "IfNotPresent", "Never"];
    errors += check::choice(path, container, "imagePullPolicy", &accepted);
    errors += resources::check_requirements(
        &path.child("resources"),
        container.at("resources"),
        resources::check_container_name,
        &pod.claims,
    );
    errors += check_resize(&path.child("resizePolicy"), container, pod.restart_policy);
    errors += security::check_container(
        &path.child("securityContext"),
        container.at("securityContext"),
        pod.host_users,
    );
    errors
}

fn check_resize(path: &Path, container: &Value, restart_policy: &str) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (i, policy) in container.items("resizePolicy").iter().enumerate() {
        let name = policy.text("resourceName");
        errors += check::unique(&path.index(i), name, &mut seen);
        // The path of the list, without the index, as upstream's `validateResizePolicy` reports it.
        errors += check::one_of(path, name, &["cpu", "memory"]);
        let restart = policy.text("restartPolicy");
        errors += check::one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if restart_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, restart, detail);
        }
    }
    errors
}

fn check_ports(path: &Path, ports: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (path, port) in indexed(path, ports) {
        let name = port.text("name");
        if !name.is_empty() {
            let wrong = check::port_name(&path.child("name"), name);
            // A malformed name is not reported as a duplicate on top.
            if wrong.is_empty() {
                errors += check::unique(&path.child("name"), name, &mut names);
            }
            errors += wrong;
        }
        match port.number("containerPort") {
            0 => errors.required(&path.child("containerPort"), ""),
            number => errors += check::port_number(&path.child("containerPort"), number),
        }
        match port.number("hostPort") {
            0 => {}
            number => errors += check::port_number(&path.child("hostPort"), number),
        }
        errors += check::choice(&path, port, "protocol", check::PROTOCOLS);
    }
    errors
}

fn check_host_ports(path: &Path, containers: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in container.items("ports").iter().enumerate() {
            let number = port.number("hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if seen.contains(&key) {
                let path = path.index(i).child("ports").index(j).child("hostPort");
                errors.duplicate(&path, key);
            } else {
                seen.push(key);
            }
        }
    }
    errors
}

fn check_env(path: &Path, variables: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (path, variable) in indexed(path, variables) {
        errors += check::required_as(&path, variable, "name", check::env_name);
        if variable.has("valueFrom") {
            errors += check_value_from(&path.child("valueFrom"), variable);
        }
    }
    errors
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn check_value_from(path: &Path, variable: &Value) -> Errors {
    let from = variable.at("valueFrom");
    let mut errors = Errors::new();
    let mut sources = 0;
    if from.has("fieldRef") {
        sources += 1;
        errors += volume::check_field_ref(&path.child("fieldRef"), from.at("fieldRef"), ENV_FIELDS);
    }
    if from.has("resourceFieldRef") {
        sources += 1;
        let path = path.child("resourceFieldRef");
        errors += volume::check_resource_ref(&path, from.at("resourceFieldRef"), false);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let reference = from.at(field);
        if reference.is_null() {
            continue;
        }
        sources += 1;
        let path = path.child(field);
        errors += check::subdomain(&path.child("name"), reference.text("name"));
        errors += check::required_as(&path, reference, "key", check::config_key);
    }
    if from.has("fileKeyRef") {
        sources += 1;
        errors += check_file_ref(&path.child("fileKeyRef"), from.at("fileKeyRef"));
    }
    let detail = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
         `fileKeyRef`"
    } else if !variable.text("value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        "may not have more than one field specified at a time"
    } else {
        return errors;
    };
    errors.invalid(path, "", detail);
    errors
}

fn check_file_ref(path: &Path, reference: &Value) -> Errors {
    let mut errors = Errors::new();
    errors += check::required_as(path, reference, "key", check::env_name);
    errors += check::required_as(path, reference, "volumeName", check::label);
    errors += check::required_as(path, reference, "path", check::no_backsteps);
    errors
}

fn check_env_from(path: &Path, sources: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (here, source) in indexed(path, sources) {
        errors += check::empty_or(&here, source, "prefix", check::env_name);
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            if !source.has(field) {
                continue;
            }
            count += 1;
            let path = here.child(field).child("name");
            match source.at(field).text("name") {
                "" => errors.required(&path, ""),
                name => {
                    let messages = machinery::names::name_is_dns_subdomain(name, true);
                    errors += check::invalid_each(&path, name, messages);
                }
            }
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        // The path of the list, as in upstream's `ValidateEnvFrom`.
        errors.invalid(path, "", detail);
    }
    errors
}
