//! The versions in a cluster: of Kubernetes, the operator, the webhook and the CRDs.

use anyhow::Context as _;
use api::published::PublishedOperator;
use edits::operators;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt as _};
use manifests::{ACCOUNT, LEASE, WEBHOOK};
use serde_json::{Value, json};

use crate::read::api_error;

/// How many minor versions the parts of an installation may be apart, as docs/upgrade.md promises.
const SUPPORTED_SKEW: u32 = 1;

/// What runs in a cluster.
#[derive(Debug, Default)]
pub(super) struct ServerVersions {
    kubernetes: String,
    platform: String,
    /// The namespace of the operator, or where it was searched.
    namespace: String,
    operator: Option<PublishedOperator>,
    /// Whether the operator renews its Lease.
    is_running: bool,
    leader: Option<String>,
    operator_image: Option<String>,
    webhook_image: Option<String>,
    /// CRDs of Medley and their served versions.
    definitions: Vec<(String, Vec<String>)>,
    /// Why parts are missing.
    unreadable: Vec<String>,
}

/// Reads the versions. Only the version of Kubernetes has to be readable.
pub(super) async fn read(client: &Client, namespace: &str) -> anyhow::Result<ServerVersions> {
    let kubernetes = client
        .apiserver_version()
        .await
        .map_err(api_error)
        .context("reading the version of Kubernetes")?;
    let found = operators(client, namespace).await;
    let running = found.running.into_iter().next();
    let is_running = running.is_some();
    let operator = running.or_else(|| found.gone.into_iter().next());
    let mut server = ServerVersions {
        kubernetes: kubernetes.git_version,
        platform: kubernetes.platform,
        namespace: operator
            .as_ref()
            .map_or_else(|| namespace.to_owned(), |it| it.namespace.clone()),
        operator,
        is_running,
        unreadable: found.unreadable.into_iter().collect(),
        ..ServerVersions::default()
    };
    let namespace = server.namespace.clone();
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let lease = leases.get_opt(LEASE).await;
    let lease = server.readable(lease, "the Lease of the leader election");
    let holder = lease.and_then(|it| it.spec?.holder_identity);
    server.leader = holder.filter(|it| !it.is_empty());
    server.operator_image = server.image(client, &namespace, ACCOUNT).await;
    server.webhook_image = server.image(client, &namespace, WEBHOOK).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in manifests::definitions() {
        let name = definition.name_any();
        let found = definitions.get_opt(&name).await;
        let is_forbidden = found.is_err();
        if let Some(found) = server.readable(found, "the CustomResourceDefinitions") {
            let versions = found.spec.versions.into_iter();
            let served = versions.filter(|it| it.served).map(|it| it.name);
            server.definitions.push((name, served.collect()));
        }
        // The others are forbidden as well.
        if is_forbidden {
            break;
        }
    }
    Ok(server)
}

impl ServerVersions {
    fn readable<T>(&mut self, found: Result<Option<T>, kube::Error>, what: &str) -> Option<T> {
        found.unwrap_or_else(|error| {
            let why = format!("cannot read {what}: {:#}", api_error(error));
            self.unreadable.push(why);
            None
        })
    }

    /// The image of a Deployment.
    async fn image(&mut self, client: &Client, namespace: &str, name: &str) -> Option<String> {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let found = deployments.get_opt(name).await;
        let found = self.readable(found, &format!("Deployment {name}"))?;
        let containers = found.spec?.template.spec?.containers;
        containers.into_iter().next()?.image
    }

    /// Unsupported differences of versions, and what could not be read.
    pub(super) fn warnings(&self, client: &str) -> Vec<String> {
        let mut warnings = self.unreadable.clone();
        let Some(operator) = &self.operator else {
            if self.unreadable.is_empty() {
                warnings.push(format!(
                    "no operator of Medley was found: there is no Lease {} in namespace {}",
                    api::published::LEASE,
                    self.namespace
                ));
            }
            return warnings;
        };
        let webhook = self.webhook_image.as_deref().and_then(version_of);
        let pairs = [
            (
                "client",
                Some(client),
                "operator",
                operator.version.as_str(),
            ),
            ("webhook", webhook, "operator", operator.version.as_str()),
        ];
        for (name, version, other, expected) in pairs {
            if let Some(version) = version
                && !is_supported(version, expected)
            {
                warnings.push(format!(
                    "the version of the {name} ({version}) and of the {other} ({expected}) differ by more than the supported skew of one minor version"
                ));
            }
        }
        warnings
    }

    /// Adds them to the versions of the client.
    pub(super) fn add_to(&self, versions: &mut Value, client: &str) {
        versions["serverVersion"] =
            json!({ "gitVersion": self.kubernetes, "platform": self.platform });
        if let Some(operator) = &self.operator {
            versions["operator"] = json!({
                "namespace": operator.namespace, "version": operator.version,
                "controllers": operator.controllers, "leader": self.leader,
                "image": self.operator_image,
                "state": if self.is_running { "Running" } else { "Gone" },
            });
        }
        if let Some(image) = &self.webhook_image {
            versions["webhook"] = json!({ "image": image, "version": version_of(image) });
        }
        let definitions = self.definitions.iter();
        versions["customResourceDefinitions"] = definitions
            .map(|(name, served)| json!({ "name": name, "versions": served }))
            .collect();
        versions["warnings"] = json!(self.warnings(client));
    }
}

/// The version in the tag of an image.
fn version_of(image: &str) -> Option<&str> {
    let name = image.split('@').next()?;
    let (_, tag) = name
        .rsplit_once('/')
        .unwrap_or(("", name))
        .1
        .split_once(':')?;
    minor(tag).map(|_| tag)
}

/// Whether versions may be used together. Versions that cannot be compared are not warned about.
fn is_supported(one: &str, other: &str) -> bool {
    match (minor(one), minor(other)) {
        (Some(one), Some(other)) => one.0 == other.0 && one.1.abs_diff(other.1) <= SUPPORTED_SKEW,
        _ => true,
    }
}

/// Major and minor of `v1.2.3`.
fn minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_of_one_minor_version_is_supported() {
        for (one, other, supported) in [
            ("v0.3.1", "v0.3.9", true),
            ("v0.3.0", "v0.4.0", true),
            ("v0.3.0", "v0.5.0", false),
            ("v1.0.0", "v0.9.0", false),
            ("latest", "v0.9.0", true),
        ] {
            assert_eq!(is_supported(one, other), supported, "{one} {other}");
        }
    }

    #[test]
    fn version_is_the_tag_of_an_image() {
        assert_eq!(version_of("ghcr.io/x/medley:v0.3.0"), Some("v0.3.0"));
        assert_eq!(version_of("r:5000/medley:v0.3.0@sha256:ab"), Some("v0.3.0"));
        assert_eq!(version_of("r:5000/medley"), None);
        assert_eq!(version_of("medley:latest"), None);
    }

    #[test]
    fn warnings_name_what_differs_or_is_missing() {
        let operator = PublishedOperator {
            namespace: "medley-system".to_owned(),
            version: "v0.3.0".to_owned(),
            controllers: Vec::new(),
            renewed: None,
        };
        let server = ServerVersions {
            operator: Some(operator),
            webhook_image: Some("medley:v0.1.0".to_owned()),
            ..ServerVersions::default()
        };
        let warnings = server.warnings("v0.3.1");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("webhook (v0.1.0)"), "{warnings:?}");
        let warnings = ServerVersions::default().warnings("v0.3.1");
        assert!(warnings[0].contains("no operator"), "{warnings:?}");
    }
}
