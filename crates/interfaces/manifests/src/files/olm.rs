//! The installation as a bundle for the Operator Lifecycle Manager: workloads and their RBAC become
//! a ClusterServiceVersion, the other objects stay unchanged, without a namespace. OLM creates
//! accounts and bindings.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{Files, WRITTEN, documents};
use crate::{
    Error, HOME, IMAGE, MUST_GATHER_IMAGE, NAMESPACE, OLDEST_KUBERNETES, Options, VERSION,
};
use crate::{Part, definitions, objects};

const FOLDER: &str = "olm";
const PACKAGE: &str = "medley";
const CHANNEL: &str = "alpha";
/// The OpenShift version with [`OLDEST_KUBERNETES`].
const OLDEST_OPENSHIFT: &str = "v4.17";

/// How a catalogue shows a CRD.
struct Shown {
    kind: &'static str,
    title: &'static str,
    description: &'static str,
    /// Field, title and description.
    fields: &'static [(&'static str, &'static str, &'static str)],
}

const SHOWN: [Shown; 7] = [
    Shown {
        kind: "VirtPlatformConfig",
        title: "Governed configuration",
        description: "Configuration of third-party operators: planned, previewed, approved, applied, watched, and reverted.",
        fields: &[
            (
                "profile",
                "Profile",
                "The set of changes to apply; also the name of the object.",
            ),
            (
                "action",
                "Action",
                "DryRun computes a plan, Apply applies it, Ignore does nothing.",
            ),
        ],
    },
    Shown {
        kind: "GoldenImagePolicy",
        title: "Golden image policy",
        description: "How boot images are kept for every architecture of the cluster.",
        fields: &[(
            "defaultArchitecture",
            "Default architecture",
            "The architecture behind a stable name where there is a choice.",
        )],
    },
    Shown {
        kind: "ApprovalPolicy",
        title: "Approval policy",
        description: "How many users have to approve plans, who they may be, and when plans may run.",
        fields: &[(
            "requiredApprovals",
            "Required approvals",
            "Number of users who have to approve a plan before it is applied.",
        )],
    },
    Shown {
        kind: "PlatformProfile",
        title: "Platform profile",
        description: "A set of changes to the configuration of other operators, computed by expressions.",
        fields: &[(
            "description",
            "Description",
            "The purpose of the profile, as a sentence.",
        )],
    },
    Shown {
        kind: "CpuModelPolicy",
        title: "CPU model policy",
        description: "How CPU models are chosen, so that virtual machines can still migrate.",
        fields: &[(
            "minimalLaunchYear",
            "Minimal launch year",
            "No older model is chosen.",
        )],
    },
    Shown {
        kind: "ReleasePolicy",
        title: "Release policy",
        description: "How to verify that the cluster has completed its release.",
        fields: &[(
            "mode",
            "Mode",
            "Observe only reports; Own manages the ClusterVersion where no other operator does.",
        )],
    },
    Shown {
        kind: "PlacementPolicy",
        title: "Placement policy",
        description: "How pods are placed by the platforms of their images.",
        fields: &[(
            "onNoMatch",
            "Without a match",
            "How to treat a pod that no node can run.",
        )],
    },
];

pub(super) fn files() -> Result<Files, Error> {
    let sorted = Sorted::of(&Options::default())?;
    let mut files = Files::new();
    for (name, object) in &sorted.others {
        let path = format!("{FOLDER}/manifests/{name}.yaml");
        files.insert(path, documents(std::slice::from_ref(object))?);
    }
    files.insert(
        format!("{FOLDER}/manifests/{PACKAGE}.clusterserviceversion.yaml"),
        documents(&[service_version(&sorted)])?,
    );
    files.insert(
        format!("{FOLDER}/metadata/annotations.yaml"),
        documents(&[json!({ "annotations": annotations() })])?,
    );
    files.insert(format!("{FOLDER}/bundle.Dockerfile"), dockerfile());
    Ok(files)
}

/// Objects by how OLM handles them.
#[derive(Default)]
struct Sorted {
    /// Rules by account, in the whole cluster and in the namespace.
    everywhere: BTreeMap<String, Vec<Value>>,
    at_home: BTreeMap<String, Vec<Value>>,
    deployments: Vec<Value>,
    /// Objects included unchanged, by file name.
    others: BTreeMap<String, Value>,
}

impl Sorted {
    fn of(options: &Options) -> Result<Self, Error> {
        let mut sorted = Self::default();
        let mut roles: BTreeMap<(String, String), Value> = BTreeMap::new();
        let mut bindings = Vec::new();
        for object in objects(options)? {
            let mut value = object.value;
            let kind = text(&value["kind"]);
            let name = text(&value["metadata"]["name"]);
            if let Some(metadata) = value["metadata"].as_object_mut() {
                // The installation's namespace is chosen in the OperatorGroup, not in the bundle.
                metadata.remove("namespace");
            }
            match (object.part, kind.as_str()) {
                // Network policies are up to the owners of the namespace.
                (Part::Namespace | Part::Network, _) | (_, "ServiceAccount") => {}
                (_, "ClusterRole" | "Role") => {
                    roles.insert((kind, name), value);
                }
                (_, "ClusterRoleBinding" | "RoleBinding") => bindings.push(value),
                (_, "Deployment") => sorted.deployments.push(value),
                (Part::Crds, _) => {
                    sorted.others.insert(name, value);
                }
                _ => {
                    let file = format!("{name}.{}", kind.to_lowercase());
                    sorted.others.insert(file, value);
                }
            }
        }
        for binding in bindings {
            let role = &binding["roleRef"];
            let key = (text(&role["kind"]), text(&role["name"]));
            let account = text(&binding["subjects"][0]["name"]);
            let all = if key.0 == "Role" {
                &mut sorted.at_home
            } else {
                &mut sorted.everywhere
            };
            // OLM creates one role per account from the rules; a role of the same name in the
            // bundle would be a second copy.
            if let Some(mut role) = roles.remove(&key) {
                let rules = role["rules"].as_array_mut();
                all.entry(account)
                    .or_default()
                    .append(rules.unwrap_or(&mut Vec::new()));
            }
        }
        // Roles for users are bound by administrators.
        for ((kind, name), role) in roles {
            let file = format!("{name}.{}", kind.to_lowercase());
            sorted.others.insert(file, role);
        }
        Ok(sorted)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn service_version(sorted: &Sorted) -> Value {
    let (major, minor) = OLDEST_KUBERNETES;
    let permissions = |all: &BTreeMap<String, Vec<Value>>| -> Vec<Value> {
        all.iter()
            .map(|(account, rules)| json!({ "serviceAccountName": account, "rules": rules }))
            .collect()
    };
    let deployments: Vec<Value> = sorted
        .deployments
        .iter()
        .map(|deployment| {
            json!({
                "name": deployment["metadata"]["name"],
                "label": deployment["metadata"]["labels"],
                "spec": deployment["spec"],
            })
        })
        .collect();
    let mode = |kind: &str, supported: bool| json!({ "type": kind, "supported": supported });
    let owned: Vec<Value> = definitions().iter().map(owned).collect();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{VERSION}"),
            "annotations": {
                "alm-examples": format!("{:#}", examples()),
                "capabilities": "Deep Insights",
                "categories": "Integration & Delivery, OpenShift Optional",
                "containerImage": IMAGE,
                "description": "One operator for heterogeneous Kubernetes clusters.",
                "operatorframework.io/suggested-namespace": NAMESPACE,
                "operatorframework.io/cluster-monitoring": "true",
                "operators.openshift.io/must-gather-image": MUST_GATHER_IMAGE,
                "repository": HOME,
                "support": "Medley",
            },
            "labels": {
                "operatorframework.io/arch.amd64": "supported",
                "operatorframework.io/arch.arm64": "supported",
                "operatorframework.io/os.linux": "supported",
            },
        },
        "spec": {
            "displayName": "Medley",
            "description": description(),
            "version": VERSION,
            "maturity": "alpha",
            "minKubeVersion": format!("{major}.{minor}.0"),
            "provider": { "name": "Medley", "url": HOME },
            "links": [{ "name": "Documentation", "url": format!("{HOME}/tree/main/docs") }],
            "keywords": ["multi-arch", "kubevirt", "placement", "governance"],
            // Medley manages the whole cluster.
            "installModes": [
                mode("OwnNamespace", false),
                mode("SingleNamespace", false),
                mode("MultiNamespace", false),
                mode("AllNamespaces", true),
            ],
            "customresourcedefinitions": { "owned": owned },
            // What a mirror for disconnected clusters has to contain.
            "relatedImages": [
                { "name": "medley", "image": IMAGE },
                { "name": "must-gather", "image": MUST_GATHER_IMAGE },
            ],
            "install": {
                "strategy": "deployment",
                "spec": {
                    "clusterPermissions": permissions(&sorted.everywhere),
                    "permissions": permissions(&sorted.at_home),
                    "deployments": deployments,
                },
            },
        },
    })
}

fn description() -> String {
    "Medley is for heterogeneous Kubernetes clusters: several CPU architectures, several CPU generations, \
     several operating systems, some of them running virtual machines with KubeVirt.\n\n\
     * **Governance**: plans, previews, approves, applies, watches and reverts the configuration of third-party operators.\n\
     * **Golden images**: every boot image for every architecture of the cluster, behind one stable name.\n\
     * **CPU models**: virtual machines get the newest CPU model that they can still migrate with.\n\
     * **Release migration**: verifies that the cluster has completed a multi-arch release.\n\
     * **Placement**: pods land only on nodes that can run their images.\n"
        .to_owned()
}

/// A CRD in the ClusterServiceVersion.
fn owned(definition: &CustomResourceDefinition) -> Value {
    let names = &definition.spec.names;
    let version = definition.spec.versions.first();
    let mut owned = json!({
        "name": format!("{}.{}", names.plural, definition.spec.group),
        "kind": names.kind,
        "version": version.map(|it| it.name.as_str()).unwrap_or_default(),
    });
    if let Some(shown) = SHOWN.iter().find(|shown| shown.kind == names.kind) {
        owned["displayName"] = shown.title.into();
        owned["description"] = shown.description.into();
        owned["specDescriptors"] = shown
            .fields
            .iter()
            .map(|(path, title, sentence)| {
                json!({ "path": path, "displayName": title, "description": sentence })
            })
            .collect();
        owned["statusDescriptors"] = json!([{
            "path": "conditions",
            "displayName": "Conditions",
            "description": "Status conditions.",
            "x-descriptors": ["urn:alm:descriptor:io.kubernetes.conditions"],
        }]);
    }
    owned
}

/// One example object of each CRD.
fn examples() -> Value {
    let policy = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": kind,
            "metadata": { "name": "default" }, "spec": spec,
        })
    };
    json!([
        {
            "apiVersion": "advisor.kubevirt.io/v1alpha1",
            "kind": "VirtPlatformConfig",
            "metadata": { "name": "load-aware-rebalancing" },
            "spec": { "profile": "load-aware-rebalancing", "action": "DryRun" },
        },
        policy("GoldenImagePolicy", json!({ "defaultArchitecture": "amd64", "gracePeriod": "1h" })),
        policy("CpuModelPolicy", json!({ "minimalLaunchYear": 2013 })),
        policy("ReleasePolicy", json!({ "mode": "Observe" })),
        policy("PlacementPolicy", json!({ "onNoMatch": "Hold" })),
        policy("ApprovalPolicy", json!({ "impacts": ["High"], "requiredApprovals": 2 })),
        {
            "apiVersion": "medley.dev/v1alpha1",
            "kind": "PlatformProfile",
            "metadata": { "name": "greeting.example.com" },
            "spec": {
                "description": "Keeps a greeting in a ConfigMap",
                "impact": "Low",
                "kinds": [{ "name": "maps", "kind": "ConfigMap", "resource": "configmaps", "versions": ["v1"] }],
                "items": [{
                    "name": "greet",
                    "target": { "of": "maps", "name": "greeting", "namespace": "default" },
                    "object": { "data": { "text": "hello" } },
                    "managed": ["data"],
                }],
            },
        },
    ])
}

/// Annotations that describe the bundle, in its image and in a file.
fn annotations() -> BTreeMap<String, String> {
    let bundle = "operators.operatorframework.io.bundle";
    [
        (format!("{bundle}.mediatype.v1"), "registry+v1"),
        (format!("{bundle}.manifests.v1"), "manifests/"),
        (format!("{bundle}.metadata.v1"), "metadata/"),
        (format!("{bundle}.package.v1"), PACKAGE),
        (format!("{bundle}.channels.v1"), CHANNEL),
        (format!("{bundle}.channel.default.v1"), CHANNEL),
        ("com.redhat.openshift.versions".to_owned(), OLDEST_OPENSHIFT),
    ]
    .into_iter()
    .map(|(key, value)| (key, value.to_owned()))
    .collect()
}

fn dockerfile() -> String {
    let mut text = format!("{WRITTEN}FROM scratch\n\n");
    for (key, value) in annotations() {
        let _ = writeln!(text, "LABEL {key}={value}");
    }
    text.push_str("\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n");
    text
}
