//! Service accounts of pods (`plugin/pkg/admission/serviceaccount`).

use machinery::meta;
use serde_json::{Value, json};

use crate::builtin::value::{Read, items_mut, set};

/// The service account of pods that name none.
pub(crate) const DEFAULT: &str = "default";
/// Name prefix of token volumes.
const VOLUME: &str = "kube-api-access-";
/// Mount path of the token.
const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Slightly over an hour: tokens of this lifetime are accepted for longer, with a warning.
// `WarnOnlyBoundTokenExpirationSeconds` in `pkg/serviceaccount/claims.go`; the odd seven seconds
// mark tokens that the server injected.
const EXPIRATION: u64 = 3607;
/// Annotation that restricts pods to the secrets their account names.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// Annotation of mirror pods, which a kubelet runs from static manifests.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The name of the service account a new pod needs, if any, or why it is rejected.
pub(crate) fn required_account(pod: &Value) -> Result<Option<String>, String> {
    let named = pod.text("spec.serviceAccountName");
    if pod.annotation(MIRROR).is_none() {
        let name = if named.is_empty() { DEFAULT } else { named };
        return Ok(Some(name.to_owned()));
    }
    let sources = projections(pod);
    let refused = if !named.is_empty() {
        "a mirror pod may not reference service accounts"
    } else if uses_secrets(pod) {
        "a mirror pod may not reference secrets"
    } else if sources
        .iter()
        .any(|source| source.has("serviceAccountToken"))
    {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(None);
    };
    Err(refused.to_owned())
}

/// Applies a service account to a pod.
pub(crate) fn admit(
    pod: &mut Value,
    name: &str,
    account: &Value,
    random: impl FnMut() -> u32,
) -> Result<(), String> {
    set(pod, "spec.serviceAccountName", name);
    // The deprecated name of the same field.
    set(pod, "spec.serviceAccount", name);
    if mounts_token(pod, account) {
        mount_token(pod, random);
    }
    let pull_secrets = account.items("imagePullSecrets");
    if pod.count("spec.imagePullSecrets") == 0 && !pull_secrets.is_empty() {
        let named = |secret: &Value| json!({ "name": secret.text("name") });
        let all: Vec<Value> = pull_secrets.iter().map(named).collect();
        set(pod, "spec.imagePullSecrets", all);
    }
    let enforced = account.annotation(ENFORCE).is_some_and(is_true);
    if enforced {
        limit(pod, account)
    } else {
        Ok(())
    }
}

/// Whether Go reads a text as true.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// The pod's setting takes precedence over the account's.
fn mounts_token(pod: &Value, account: &Value) -> bool {
    let own = pod.at("spec.automountServiceAccountToken").as_bool();
    let others = account.at("automountServiceAccountToken").as_bool();
    own.or(others).unwrap_or(true)
}

fn mount_token(pod: &mut Value, random: impl FnMut() -> u32) {
    let volumes = pod.items("spec.volumes").iter();
    let known = volumes
        .map(|volume| volume.text("name"))
        // Admission runs again when a webhook has changed the pod; the volume of the first round is
        // found and reused.
        .find(|name| name.starts_with(VOLUME))
        .map(str::to_owned);
    let name = known
        .clone()
        .unwrap_or_else(|| meta::generate_name(VOLUME, random));
    let mut used = false;
    for list in ["spec.initContainers", "spec.containers"] {
        for container in items_mut(pod, list) {
            let mut mounts = container.items("volumeMounts").to_vec();
            // An existing mount at this path is kept.
            if mounts.iter().any(|mount| mount.text("mountPath") == MOUNT) {
                continue;
            }
            mounts.push(json!({ "name": name, "readOnly": true, "mountPath": MOUNT }));
            set(container, "volumeMounts", mounts);
            used = true;
        }
    }
    if used && known.is_none() {
        let mut volumes = pod.items("spec.volumes").to_vec();
        volumes.push(token_volume(&name));
        set(pod, "spec.volumes", volumes);
    }
}

/// The volume with token, certificate authority and namespace.
fn token_volume(name: &str) -> Value {
    let namespace = json!({ "apiVersion": "v1", "fieldPath": "metadata.namespace" });
    json!({
        "name": name,
        "projected": {
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": EXPIRATION, "path": "token" } },
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{ "key": "ca.crt", "path": "ca.crt" }],
                    },
                },
                { "downwardAPI": { "items": [{ "path": "namespace", "fieldRef": namespace }] } },
            ],
            "defaultMode": 420,
        },
    })
}

/// Rejects secrets that the account does not name.
fn limit(pod: &Value, account: &Value) -> Result<(), String> {
    let name = account.name();
    let mountable = |secret: &str| {
        let mut known = account.items("secrets").iter();
        known.any(|one| one.text("name") == secret)
    };
    let reason = format!("is not allowed because service account {name} does not reference that");
    for volume in pod
        .items("spec.volumes")
        .iter()
        .filter(|one| one.has("secret"))
    {
        let secret = volume.text("secret.secretName");
        if !mountable(secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" {reason} secret"
            ));
        }
    }
    for (list, kind) in [
        ("spec.initContainers", "init container"),
        ("spec.containers", "container"),
    ] {
        for container in pod.items(list) {
            let of = format!("{kind} {}", container.text("name"));
            for variable in container.items("env") {
                let source = variable.at("valueFrom.secretKeyRef");
                let secret = source.text("name");
                if !source.is_null() && !mountable(secret) {
                    let variable = variable.text("name");
                    return Err(format!(
                        "{of} with envVar {variable} referencing secret.secretName=\"{secret}\" \
                         {reason} secret"
                    ));
                }
            }
            for source in container.items("envFrom") {
                let secret = source.text("secretRef.name");
                if source.has("secretRef") && !mountable(secret) {
                    return Err(format!(
                        "{of} with envFrom referencing secret.secretName=\"{secret}\" {reason} secret"
                    ));
                }
            }
        }
    }
    let pullable = |secret: &str| {
        let mut known = account.items("imagePullSecrets").iter();
        known.any(|one| one.text("name") == secret)
    };
    for (index, secret) in pod.items("spec.imagePullSecrets").iter().enumerate() {
        let secret = secret.text("name");
        if !pullable(secret) {
            return Err(format!(
                "imagePullSecrets[{index}].name=\"{secret}\" {reason} imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// The sources of all projected volumes.
fn projections(pod: &Value) -> Vec<&Value> {
    let volumes = pod.items("spec.volumes").iter();
    volumes
        .flat_map(|volume| volume.items("projected.sources"))
        .collect()
}

/// Whether a pod references a secret: for image pulls, in environment variables, or in volumes.
fn uses_secrets(pod: &Value) -> bool {
    let lists = [
        "spec.initContainers",
        "spec.containers",
        "spec.ephemeralContainers",
    ];
    let mut containers = lists.iter().flat_map(|list| pod.items(list));
    let mut volumes = pod.items("spec.volumes").iter();
    pod.count("spec.imagePullSecrets") > 0
        || projections(pod).iter().any(|source| source.has("secret"))
        || volumes.any(|volume| volume.has("secret") || volume.has("csi.nodePublishSecretRef"))
        || containers.any(|container| {
            let mut variables = container.items("env").iter();
            let mut sources = container.items("envFrom").iter();
            variables.any(|variable| variable.has("valueFrom.secretKeyRef"))
                || sources.any(|source| source.has("secretRef"))
        })
}

#[cfg(test)]
mod tests;
