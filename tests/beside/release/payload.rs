//! Two releases of one version, for one architecture and for several, built by Medley from the manifests of three
//! operators.

use std::path::Path;

use anyhow::Context as _;
use api::openshift::{ImageStream, annotations, payloads};
use k8s_openapi::api::core::v1::ConfigMap;
use release_migration::build::{OperatorFolder, Options, build};
use release_migration::payload::{Files, REFERENCES, read_references};
use serde_json::{Value, json};

/// The version of both releases.
pub(crate) const VERSION: &str = "4.18.0";
const PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/placeholdernamespace";
const SNAPSHOT: &str = "0.0.1-snapshot";
/// The repository of releases, and that of the images in them.
const RELEASES: &str = "registry.example/ocp/release";
const COMPONENTS: &str = "registry.example/ocp/components";
/// The Deployment of the operator, and its program.
pub(crate) const CLUSTER_VERSION_OPERATOR: &str = "cluster-version-operator";
/// Folders of a release image (`pkg/payload/payload.go`): the operator's own manifests, and those of all others.
const FOLDERS: [&str; 2] = ["manifests", "release-manifests"];

/// An operator of the releases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator {
    /// The name of its ClusterOperator.
    pub(crate) name: &'static str,
    pub(crate) namespace: &'static str,
    /// The name of its image, its Deployment and its container.
    pub(crate) image: &'static str,
    level: u32,
    /// Whether it has to report its image.
    reports: bool,
    /// Whether its image is the same in both releases, as one for several architectures may be.
    is_the_same: bool,
}

pub(crate) const ETCD: Operator = Operator {
    name: "etcd",
    namespace: "openshift-etcd-operator",
    image: "cluster-etcd-operator",
    level: 12,
    reports: true,
    is_the_same: true,
};
pub(crate) const DNS: Operator = Operator {
    name: "dns",
    namespace: "openshift-dns-operator",
    image: "cluster-dns-operator",
    level: 70,
    reports: false,
    is_the_same: false,
};
pub(crate) const MACHINE_CONFIG: Operator = Operator {
    name: "machine-config",
    namespace: "openshift-machine-config-operator",
    image: "machine-config-operator",
    level: 80,
    reports: true,
    is_the_same: false,
};
/// In the order of the releases.
pub(crate) const OPERATORS: [Operator; 3] = [ETCD, DNS, MACHINE_CONFIG];
/// Each operator has a namespace, a Deployment and a ClusterOperator.
pub(crate) const MANIFESTS: usize = 3 * OPERATORS.len();

/// A built release.
pub(crate) struct Release {
    word: &'static str,
    digit: char,
    /// Its pull specification.
    pub(crate) image: String,
    /// The files of `release-manifests`.
    pub(crate) files: Files,
    /// The files of `manifests`, which are templates.
    own: Files,
}

impl Release {
    pub(crate) fn single() -> anyhow::Result<Self> {
        Self::build("single", 'a', false)
    }

    pub(crate) fn multi() -> anyhow::Result<Self> {
        Self::build("multi", 'b', true)
    }

    fn build(word: &'static str, digit: char, multi: bool) -> anyhow::Result<Self> {
        let tags = OPERATORS.map(|operator| {
            json!({ "name": operator.image, "from": {
                "kind": "DockerImage", "name": component(operator, digit),
            } })
        });
        let images = read_references(&image_stream(&tags)?)?;
        let options = Options {
            version: VERSION.to_owned(),
            multi,
            allow_missing: false,
        };
        let folders: anyhow::Result<Vec<_>> = OPERATORS.into_iter().map(sources).collect();
        let built = build(&folders?, &images, &options)?;
        Ok(Self {
            word,
            digit,
            image: format!("{RELEASES}@{}", digest(digit)),
            files: built.files,
            own: Files::new(),
        })
    }

    /// Adds the Deployment of the cluster-version operator itself, which comes first in a release.
    pub(crate) fn with_operator(mut self) -> Self {
        let operator = Operator {
            name: "cluster-version",
            namespace: payloads::NAMESPACE,
            image: CLUSTER_VERSION_OPERATOR,
            ..ETCD
        };
        let mut deployment = deployment(operator, "{{.ReleaseImage}}");
        deployment["spec"]["strategy"] = json!({ "type": "Recreate" });
        let name = format!("0000_00_{CLUSTER_VERSION_OPERATOR}_03_deployment.json");
        self.own.insert(name, deployment.to_string());
        self
    }

    /// The image of an operator.
    pub(crate) fn component(&self, operator: Operator) -> String {
        component(operator, self.digit)
    }

    /// Unpacks it as its image is laid out.
    pub(crate) fn unpack(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, files) in FOLDERS.into_iter().zip([&self.own, &self.files]) {
            let inner = folder.join(name);
            std::fs::create_dir_all(&inner)
                .with_context(|| format!("creating {}", inner.display()))?;
            for (name, text) in files {
                let path = inner.join(name);
                std::fs::write(&path, text)
                    .with_context(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// The release as Medley reads it from a cluster.
    pub(crate) fn config_map(&self) -> anyhow::Result<ConfigMap> {
        let object = json!({
            "metadata": {
                "name": format!("release-{}", self.word),
                "namespace": payloads::NAMESPACE,
                "labels": { payloads::LABEL: payloads::LABELLED },
                "annotations": { payloads::IMAGE: self.image },
            },
            "data": self.files,
        });
        serde_json::from_value(object).context("a ConfigMap with a release")
    }
}

fn digest(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn component(operator: Operator, digit: char) -> String {
    let digit = if operator.is_the_same { '0' } else { digit };
    // In one repository, as in OpenShift.
    let index = OPERATORS.iter().position(|it| it.name == operator.name);
    let index = index.unwrap_or_default();
    let mut digest = digest(digit);
    digest.replace_range(digest.len() - 1.., &index.to_string());
    format!("{COMPONENTS}@{digest}")
}

fn image_stream(tags: &[Value]) -> anyhow::Result<String> {
    let stream = json!({
        "apiVersion": ImageStream::API_VERSION, "kind": ImageStream::KIND,
        "metadata": { "name": "images" }, "spec": { "tags": tags },
    });
    serde_json::to_string(&stream).context("an image stream")
}

/// The manifests in the image of an operator, with placeholders.
fn sources(operator: Operator) -> anyhow::Result<OperatorFolder> {
    let image = format!("{PLACEHOLDER}:{}", operator.image);
    let reference =
        json!({ "name": operator.image, "from": { "kind": "DockerImage", "name": image } });
    let mut files = Files::from([(REFERENCES.to_owned(), image_stream(&[reference])?)]);
    for (number, what, object) in [
        ("01", "namespace", namespace(operator)),
        ("05", "deployment", deployment(operator, &image)),
        ("09", "clusteroperator", cluster_operator(operator, &image)),
    ] {
        let name = format!(
            "0000_{}_{}-operator_{number}_{what}.yaml",
            operator.level, operator.name
        );
        files.insert(name, object.to_string());
    }
    Ok(OperatorFolder {
        name: operator.image.to_owned(),
        files,
    })
}

fn included() -> Value {
    json!({ format!("{}self-managed-high-availability", annotations::INCLUDE): "true" })
}

fn namespace(operator: Operator) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": operator.namespace, "annotations": included() },
    })
}

fn deployment(operator: Operator, image: &str) -> Value {
    let mut variables = vec![json!({
        "name": clusteroperator_reporter::RELEASE_VARIABLE, "value": SNAPSHOT,
    })];
    if operator.reports {
        variables.push(json!({
            "name": clusteroperator_reporter::OPERATOR_IMAGE_VARIABLE, "value": image,
        }));
    }
    let labels = json!({ "name": operator.image });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": operator.image, "namespace": operator.namespace, "annotations": included(),
        },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": operator.image, "image": image, "env": variables }] },
            },
        },
    })
}

fn cluster_operator(operator: Operator, image: &str) -> Value {
    let mut versions = vec![json!({
        "name": clusteroperator_reporter::OPERATOR, "version": SNAPSHOT,
    })];
    if operator.reports {
        versions.push(json!({
            "name": clusteroperator_reporter::OPERATOR_IMAGE, "version": image,
        }));
    }
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": { "name": operator.name, "annotations": included() },
        "spec": {},
        "status": {
            "versions": versions,
            "relatedObjects": [{ "group": "", "resource": "namespaces", "name": operator.namespace }],
        },
    })
}
