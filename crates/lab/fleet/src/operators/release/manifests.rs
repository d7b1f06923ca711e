//! Manifests of the cluster operators, as in their images: with placeholders for images and
//! versions, which the release build replaces.

use api::openshift::{ImageStream, annotations};
use release_migration::build::OperatorFolder;
use release_migration::payload::{Files, REFERENCES};
use runtime::Error;
use serde_json::{Value, json};

use super::catalog::{MACHINE_OS, OperatorInfo, UpdateBehaviour};
use super::{MACHINE_OS_VARIABLE, OPERATOR_LABEL};

/// Placeholder of an image, followed by its name.
const PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/placeholdernamespace";
/// Placeholder of the release version.
const SNAPSHOT: &str = "0.0.1-snapshot";
/// The cluster profile of the manifests.
const PROFILE: &str = "self-managed-high-availability";

/// The manifest folder of an operator.
pub(super) fn folder(about: &OperatorInfo) -> Result<OperatorFolder, Error> {
    let mut files = Files::new();
    for (number, what, object) in [
        ("01", "namespace", namespace(about)),
        ("05", "deployment", deployment(about)),
        ("09", "clusteroperator", cluster_operator(about)),
    ] {
        let name = format!(
            "0000_{:02}_{}-operator_{number}_{what}.yaml",
            about.level, about.name
        );
        files.insert(name, yaml(&object)?);
    }
    files.insert(REFERENCES.to_owned(), yaml(&references(about))?);
    Ok(OperatorFolder {
        name: about.image.to_owned(),
        files,
    })
}

fn yaml(object: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(object)
        .map_err(|error| Error::Invalid(format!("writing a manifest: {error}")))
}

fn placeholder(image: &str) -> String {
    format!("{PLACEHOLDER}:{image}")
}

fn included() -> Value {
    json!({ format!("{}{PROFILE}", annotations::INCLUDE): "true" })
}

/// The image references of an operator.
fn references(about: &OperatorInfo) -> Value {
    let tags = about.images().into_iter().map(|image| {
        json!({ "name": image, "from": { "kind": "DockerImage", "name": placeholder(image) } })
    });
    json!({
        "apiVersion": ImageStream::API_VERSION,
        "kind": ImageStream::KIND,
        "spec": { "tags": tags.collect::<Vec<_>>() },
    })
}

fn namespace(about: &OperatorInfo) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": about.namespace, "annotations": included() },
    })
}

fn variables(about: &OperatorInfo) -> Vec<Value> {
    let variable = |name: &str, value: String| json!({ "name": name, "value": value });
    let mut all = vec![variable(
        clusteroperator_reporter::RELEASE_VARIABLE,
        SNAPSHOT.to_owned(),
    )];
    if about.adopts {
        let image = placeholder(about.image);
        all.push(variable(
            clusteroperator_reporter::OPERATOR_IMAGE_VARIABLE,
            image,
        ));
    }
    for operand in about.operands {
        let prefix = operand.name.to_uppercase().replace('-', "_");
        let image = placeholder(operand.image);
        all.push(variable(&format!("{prefix}_IMAGE"), image));
        if let Some(component) = operand.version {
            let version = format!("{SNAPSHOT}-{component}");
            all.push(variable(&format!("{prefix}_VERSION"), version));
        }
    }
    if about.manner == UpdateBehaviour::Machines {
        all.push(variable(MACHINE_OS_VARIABLE, placeholder(MACHINE_OS)));
    }
    all
}

/// The operator's Deployment: one pod, on the control plane if there is one.
fn deployment(about: &OperatorInfo) -> Value {
    let control_plane = "node-role.kubernetes.io/control-plane";
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": about.image,
            "namespace": about.namespace,
            "annotations": included(),
            "labels": { OPERATOR_LABEL: about.name },
        },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "name": about.image } },
            "template": {
                "metadata": { "labels": { "name": about.image } },
                "spec": {
                    "affinity": { "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{
                            "weight": 100,
                            "preference": {
                                "matchExpressions": [{ "key": control_plane, "operator": "Exists" }],
                            },
                        }],
                    } },
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "tolerations": [{ "key": control_plane, "operator": "Exists", "effect": "NoSchedule" }],
                    "containers": [{
                        "name": about.image,
                        "image": placeholder(about.image),
                        "env": variables(about),
                        "resources": { "requests": { "cpu": "10m", "memory": "50Mi" } },
                    }],
                },
            },
        },
    })
}

/// The versions the operator has to report when the update is complete.
fn cluster_operator(about: &OperatorInfo) -> Value {
    let version = |name: &str, version: String| json!({ "name": name, "version": version });
    let mut versions = vec![version(
        clusteroperator_reporter::OPERATOR,
        SNAPSHOT.to_owned(),
    )];
    if about.adopts {
        versions.push(version(
            clusteroperator_reporter::OPERATOR_IMAGE,
            placeholder(about.image),
        ));
    }
    for operand in about.operands {
        let name = format!("{}-image", operand.name);
        versions.push(version(&name, placeholder(operand.image)));
        if let Some(component) = operand.version {
            versions.push(version(operand.name, format!("{SNAPSHOT}-{component}")));
        }
    }
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": { "name": about.name, "annotations": included() },
        "spec": {},
        "status": {
            "versions": versions,
            "relatedObjects": [
                { "group": "", "resource": "namespaces", "name": about.namespace },
                {
                    "group": "apps",
                    "resource": "deployments",
                    "namespace": about.namespace,
                    "name": about.image,
                },
            ],
        },
    })
}
