//! Warnings about an accepted pod spec (`pkg/api/pod/warnings.go`).

use std::collections::BTreeMap;

use machinery::field::Path;
use machinery::json::go_quote;
use serde_json::Value;

use crate::builtin::pod_spec::containers;
use crate::builtin::resources;
use crate::builtin::value::Read;

/// The warning about a node label, if it is deprecated.
pub(crate) fn old_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        _ => return None,
    })
}

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const OLD_VOLUMES: &[(&str, &str)] = &[
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warns when a name is used in host names and is not valid there.
pub(crate) fn about_name(name: &str, used_in: &str) -> Vec<String> {
    let messages = machinery::names::is_dns1123_label(name);
    if messages.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS \
         label is recommended: [{}]",
        messages.join(" ")
    )]
}

/// Deprecated seccomp annotations; a field next to one takes precedence.
fn about_seccomp(path: &Path, pod: &Value) -> Vec<String> {
    let mut keys = Vec::new();
    if !pod.has("spec.securityContext.seccompProfile") {
        keys.push("seccomp.security.alpha.kubernetes.io/pod".to_owned());
    }
    for (_, container) in containers(path, pod.at("spec")) {
        if !container.has("securityContext.seccompProfile") {
            let name = container.text("name");
            keys.push(format!(
                "container.seccomp.security.alpha.kubernetes.io/{name}"
            ));
        }
    }
    let at = path.child("metadata").child("annotations");
    keys.iter()
        .filter(|key| pod.annotation(key).is_some())
        .map(|key| {
            format!(
                "{}: non-functional in v1.27+; use the \"seccompProfile\" field instead",
                at.key(key)
            )
        })
        .collect()
}

/// Warnings about a pod (at the root) or a template (at its path).
pub(crate) fn about(path: &Path, pod: &Value) -> Vec<String> {
    let spec = pod.at("spec");
    let at = path.child("spec");
    let mut warnings = Vec::new();
    for (key, _) in spec.entries("nodeSelector") {
        if let Some(message) = old_node_label(key) {
            warnings.push(format!("{}: {message}", at.child("nodeSelector").key(key)));
        }
    }
    about_node_affinity(
        &at.child("affinity").child("nodeAffinity"),
        spec,
        &mut warnings,
    );
    for (path, constraint) in spec.each(&at, "topologySpreadConstraints") {
        let key = constraint.text("topologyKey");
        if let Some(message) = old_node_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if !constraint.has("labelSelector") {
            warnings.push(null_selector(&path.child("labelSelector")));
        }
    }
    for (key, message) in OLD_ANNOTATIONS {
        if pod.annotation(key).is_some() {
            let path = path.child("metadata").child("annotations").key(key);
            warnings.push(format!("{path}: {message}"));
        }
    }
    warnings.extend(about_seccomp(path, pod));
    for (i, volume) in spec.items("volumes").iter().enumerate() {
        for (sort, message) in OLD_VOLUMES {
            if volume.has(sort) {
                let named = if *sort == "storageos" {
                    "storageOS"
                } else {
                    sort
                };
                warnings.push(format!(
                    "{}: {message}",
                    at.child("volumes").index(i).child(named)
                ));
            }
        }
    }
    about_repetitions(&at, spec, &mut warnings);
    for name in ["memory", "ephemeral-storage"] {
        about_fraction(
            &at.child("overhead"),
            spec.entry("overhead", name),
            name,
            &mut warnings,
        );
    }
    about_containers(&at, spec, &mut warnings);
    about_ports(&at, spec, &mut warnings);
    if spec.number("terminationGracePeriodSeconds") < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            at.child("terminationGracePeriodSeconds")
        ));
    }
    about_pod_affinity(&at.child("affinity"), spec, &mut warnings);
    warnings
}

fn null_selector(path: &Path) -> String {
    format!("{path}: a null labelSelector results in matching no pod")
}

fn about_node_affinity(path: &Path, spec: &Value, warnings: &mut Vec<String>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let affinity = spec.at("affinity.nodeAffinity");
    let terms = affinity
        .at(required)
        .items("nodeSelectorTerms")
        .iter()
        .enumerate();
    let terms = terms.map(|(i, term)| {
        (
            path.child(required).child("nodeSelectorTerms").index(i),
            term,
        )
    });
    let preferences = affinity.items(preferred).iter().enumerate();
    let preferences = preferences.map(|(i, term)| {
        (
            path.child(preferred).index(i).child("preference"),
            term.at("preference"),
        )
    });
    for (path, term) in terms.chain(preferences) {
        about_term(&path, term, warnings);
    }
}

/// Warnings about one term of a node selector.
pub(crate) fn about_term(path: &Path, term: &Value, warnings: &mut Vec<String>) {
    for (i, expression) in term.items("matchExpressions").iter().enumerate() {
        let key = expression.text("key");
        if let Some(message) = old_node_label(key) {
            let path = path.child("matchExpressions").index(i).child("key");
            warnings.push(format!("{path}: {key} is {message}"));
        }
    }
}

fn about_pod_affinity(path: &Path, spec: &Value, warnings: &mut Vec<String>) {
    for sort in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.at("affinity").at(sort);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.items(required).iter().enumerate() {
            if !term.has("labelSelector") {
                let path = path
                    .child(sort)
                    .child(required)
                    .index(i)
                    .child("labelSelector");
                warnings.push(null_selector(&path));
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in affinity.items(preferred).iter().enumerate() {
            if !term.has("podAffinityTerm.labelSelector") {
                let path = path.child(sort).child(preferred).index(i);
                warnings.push(null_selector(
                    &path.child("podAffinityTerm").child("labelSelector"),
                ));
            }
        }
    }
}

fn about_repetitions(path: &Path, spec: &Value, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = Vec::new();
        for (i, item) in spec.items(list).iter().enumerate() {
            let value = item.text(field);
            if seen.contains(&value) {
                let path = path.child(list).index(i).child(field);
                warnings.push(format!("{path}: duplicate {field} {}", go_quote(value)));
            }
            seen.push(value);
        }
    }
    for (i, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            let path = path.child("imagePullSecrets").index(i).child("name");
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
    }
}

fn about_fraction(path: &Path, value: Option<&Value>, name: &str, warnings: &mut Vec<String>) {
    if let Some(value) = value.filter(|value| !resources::is_whole(&resources::quantity(value))) {
        let text = go_quote(&resources::text(Some(value)));
        let path = path.key(name);
        warnings.push(format!(
            "{path}: fractional byte value {text} is invalid, must be an integer"
        ));
    }
}

fn about_containers(path: &Path, spec: &Value, warnings: &mut Vec<String>) {
    for (path, container) in containers(path, spec) {
        for name in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                let value = container.at("resources").entry(list, name);
                let path = path.child("resources").child(list);
                about_fraction(&path, value, name, warnings);
            }
        }
        let mut seen = Vec::new();
        for (path, variable) in container.each(&path, "env") {
            let name = variable.text("name");
            if !seen.contains(&name) {
                seen.push(name);
                continue;
            }
            // Repeating a name is legitimate when the value refers to the previous one.
            let reference = format!("$({name})");
            let value = variable.text("value");
            if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
                warnings.push(format!(
                    "{path}: hides previous definition of {}, which may be dropped when using apply",
                    go_quote(name)
                ));
            }
        }
    }
}

fn about_ports(path: &Path, spec: &Value, warnings: &mut Vec<String>) {
    let mut known: BTreeMap<String, Vec<(Path, &Value)>> = BTreeMap::new();
    let mut named: BTreeMap<&str, Path> = BTreeMap::new();
    let mut about_names = Vec::new();
    for (path, container) in containers(path, spec) {
        for (path, port) in container.each(&path, "ports") {
            let key = format!("{}/{}", port.number("containerPort"), port.text("protocol"));
            let others = known.entry(key).or_default();
            for (other_path, other) in others.iter() {
                if let Some(what) = port_conflict(port, other) {
                    warnings.push(format!("{path}: {what} port definition with {other_path}"));
                }
            }
            others.push((path.clone(), port));
            let name = port.text("name");
            if name.is_empty() {
                continue;
            }
            match named.get(name) {
                Some(other) => about_names.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select \
                     ports by name will use {other}",
                    go_quote(name)
                )),
                None => {
                    named.insert(name, path);
                }
            }
        }
    }
    warnings.extend(about_names);
}

fn port_conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let (host, other_host) = (port.number("hostPort"), other.number("hostPort"));
    let (ip, other_ip) = (port.text("hostIP"), other.text("hostIP"));
    if ip == other_ip && host == other_host {
        Some("duplicate")
    } else if host == 0 || other_host == 0 {
        Some("overlapping")
    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}
