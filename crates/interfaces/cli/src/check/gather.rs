//! Reads the state of a cluster for the checks. A forbidden read is an input, too.

mod ownership;
mod permissions;
mod rivals;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use controllers::Job;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use manifests::{ACCOUNT, LEASE, Options, WEBHOOK};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::inputs::{CheckInputs, Observed, Policy, Version};
use super::network;
use super::openshift;
use crate::layers::configured_jobs;
use crate::read::api_error;

/// What to read.
#[derive(Debug)]
pub(super) struct CheckOptions {
    pub(super) pre: bool,
    pub(super) namespace: String,
    /// Controllers to check; `None` takes those the operator is configured with.
    pub(super) jobs: Option<BTreeSet<Job>>,
}

pub(super) async fn gather(client: &Client, wanted: &CheckOptions) -> anyhow::Result<CheckInputs> {
    // An unreachable API server is an error, not a cluster of unknown state.
    let version = client
        .apiserver_version()
        .await
        .context("reading the version of the cluster")?;
    let namespace = wanted.namespace.as_str();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let operator = observed(deployments.get_opt(ACCOUNT).await);
    let deployed = operator.as_ref().ok().and_then(Option::as_ref);
    let (jobs, profiles) = deployed.map(configured_jobs).unwrap_or_default();
    let standard = || Job::STANDARD.iter().copied().collect();
    // The flags of the running operator before the defaults: the check asks about the installation
    // that exists.
    let jobs = wanted.jobs.clone().or(jobs).unwrap_or_else(standard);
    let openshift = openshift::gather(client).await;
    let options = Options {
        namespace: namespace.to_owned(),
        jobs,
        profiles: profiles.clone(),
        openshift: matches!(openshift, Ok(Some(_))),
        ..Options::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(LEASE).await;
    let mut registrations = BTreeMap::new();
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for name in options.jobs.iter().filter_map(|job| registration(*job)) {
        registrations.insert(name.to_owned(), observed(api.get_opt(name).await));
    }
    let (cannot_install, may_escalate) = if wanted.pre {
        permissions::to_install(client, &options).await?
    } else {
        (Ok(Vec::new()), Ok(true))
    };
    let kinds = kinds(client).await;
    Ok(CheckInputs {
        now: Timestamp::now(),
        pre: wanted.pre,
        namespace: namespace.to_owned(),
        version: Version {
            number: number(&version.major, &version.minor),
            text: version.git_version,
        },
        cannot_install,
        may_escalate,
        openshift,
        namespace_exists: observed(namespaces.get_opt(namespace).await).map(|it| it.is_some()),
        definitions: definitions(client).await,
        webhook: observed(deployments.get_opt(WEBHOOK).await),
        operator,
        lease: observed(lease).map(|it| it.and_then(|lease| lease.spec)),
        endpoints: endpoints(client, registrations.values()).await,
        registrations,
        accounts: if wanted.pre {
            Vec::new()
        } else {
            permissions::of_accounts(client, &options).await?
        },
        policies: policies(client).await,
        network: network::gather(client, namespace).await,
        rivals: rivals::rivals(client, &profiles, &kinds).await,
        monitored: monitored(client, namespace, &kinds).await,
        ownership: ownership::read(client, &options.jobs).await,
        kinds,
        jobs: options.jobs,
    })
}

/// Turns an API error into a value for the checks.
pub(super) fn observed<T>(answer: Result<T, kube::Error>) -> Observed<T> {
    answer.map_err(|error| format!("{:#}", api_error(error)))
}

/// Parses a version. Cloud providers append `+` to the minor number.
fn number(major: &str, minor: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    Some((digits(major)?, digits(minor)?))
}

/// Name of the webhook configuration of a job.
fn registration(job: Job) -> Option<&'static str> {
    match job {
        Job::Governance => Some(api::advisor::WEBHOOK),
        Job::CpuModels => Some(api::cpu::WEBHOOK),
        Job::Placement => Some(api::placement::WEBHOOK),
        Job::ImagesHco | Job::ImagesSsp | Job::ImagesCdi | Job::ImagesVm => {
            Some(api::golden::WEBHOOK)
        }
        Job::Release | Job::RuntimeClasses => None,
    }
}

/// Metadata only: CRDs are large, and OpenShift has hundreds.
async fn kinds(client: &Client) -> Observed<BTreeSet<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = observed(api.list_metadata(&ListParams::default()).await)?;
    Ok(found.items.iter().map(ResourceExt::name_any).collect())
}

async fn definitions(client: &Client) -> BTreeMap<String, Observed<Option<Value>>> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut found = BTreeMap::new();
    // One by one: a list would fetch the schema of every CRD in the cluster.
    for definition in manifests::definitions() {
        let name = definition.name_any();
        let there = observed(api.get_opt(&name).await);
        let there = there.and_then(|it| {
            let value = it.map(serde_json::to_value).transpose();
            value.map_err(|error| error.to_string())
        });
        found.insert(name, there);
    }
    found
}

/// Number of ready endpoints of each Service that a webhook references.
async fn endpoints(
    client: &Client,
    registrations: impl Iterator<Item = &Observed<Option<MutatingWebhookConfiguration>>>,
) -> BTreeMap<String, Observed<usize>> {
    let hooks = registrations.filter_map(|it| it.as_ref().ok()?.as_ref()?.webhooks.as_ref());
    let services = hooks
        .flatten()
        .filter_map(|hook| hook.client_config.service.as_ref());
    let services: BTreeSet<(&str, &str)> = services
        .map(|it| (it.namespace.as_str(), it.name.as_str()))
        .collect();
    let mut found = BTreeMap::new();
    for (namespace, name) in services {
        let api: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
        let of_service =
            ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        let slices = observed(api.list(&of_service).await);
        let ready = slices.map(|slices| {
            let all = slices
                .items
                .iter()
                .flat_map(|it| it.endpoints.iter().flatten());
            let ready = all.filter(|endpoint| {
                let conditions = endpoint.conditions.as_ref();
                // An unset `ready` condition counts as ready, see EndpointConditions in
                // discovery.k8s.io/v1.
                conditions.and_then(|it| it.ready).unwrap_or(true)
            });
            ready.map(|endpoint| endpoint.addresses.len()).sum()
        });
        found.insert(format!("{namespace}/{name}"), ready);
    }
    found
}

/// Every policy object, and whether its controller accepts it.
async fn policies(client: &Client) -> Vec<Observed<Policy>> {
    let mut found = Vec::new();
    for definition in manifests::definitions() {
        let names = &definition.spec.names;
        let version = definition.spec.versions.first();
        let Some(version) = version.filter(|_| names.kind.ends_with("Policy")) else {
            continue;
        };
        let kind = GroupVersionKind::gvk(&definition.spec.group, &version.name, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        match list::<DynamicObject>(&Api::all_with(client.clone(), &resource)).await {
            Ok(objects) => found.extend(objects.iter().map(|object| {
                Ok(Policy {
                    name: format!("{}/{}", names.kind, object.name_any()),
                    invalid: invalid(&object.data),
                })
            })),
            Err(why) => found.push(Err(format!("{}: {why}", names.plural))),
        }
    }
    found
}

/// All objects; none if the CRD is not installed, which another check reports.
async fn list<K>(api: &Api<K>) -> Observed<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => observed(Err(error)),
    }
}

/// Message of a condition that reports the spec as invalid.
fn invalid(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let wrong = conditions.iter().find(|condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        reason.starts_with("Invalid")
    })?;
    Some(wrong["message"].as_str().unwrap_or_default().to_owned())
}

/// Whether the ServiceMonitor of the operator exists; `false` where its CRD is missing.
async fn monitored(
    client: &Client,
    namespace: &str,
    kinds: &Observed<BTreeSet<String>>,
) -> Observed<bool> {
    let monitors = "servicemonitors.monitoring.coreos.com";
    if !kinds.as_ref().is_ok_and(|kinds| kinds.contains(monitors)) {
        return Ok(false);
    }
    let kind = GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    Ok(observed(api.get_opt(ACCOUNT).await)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn minor_version_with_suffix_is_parsed() {
        assert_eq!(number("1", "36"), Some((1, 36)));
        assert_eq!(number("1", "30+"), Some((1, 30)));
        assert_eq!(number("", ""), None);
    }

    #[test]
    fn invalid_policy_reports_condition_message() {
        let status = |reason: &str| {
            json!({ "status": { "conditions": [
                { "type": "Ready", "status": "False", "reason": reason, "message": "year 3" },
            ] } })
        };
        assert_eq!(invalid(&status("InvalidPolicy")), Some("year 3".to_owned()));
        assert_eq!(invalid(&status("KubeVirtNotInstalled")), None);
        assert_eq!(invalid(&json!({})), None);
    }
}
