//! Looks at a cluster. What may not be seen is a fact, too.

mod rights;

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

use super::facts::{Facts, Policy, Seen, Version};
use crate::governance::configs::said;

/// What is to be looked at.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) pre: bool,
    pub(super) namespace: String,
    /// What runs; what the operator was told if nothing.
    pub(super) jobs: Option<BTreeSet<Job>>,
}

/// Looks.
pub(super) async fn gather(client: &Client, wanted: &Wanted) -> anyhow::Result<Facts> {
    // Whoever cannot be reached is no cluster where all is unknown.
    let version = client
        .apiserver_version()
        .await
        .context("asking the cluster for its version")?;
    let namespace = wanted.namespace.as_str();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let operator = seen(deployments.get_opt(ACCOUNT).await);
    let told = operator.as_ref().ok().and_then(Option::as_ref);
    let (jobs, profiles) = told.map(told_jobs).unwrap_or_default();
    let standard = || Job::STANDARD.iter().copied().collect();
    let jobs = wanted.jobs.clone().or(jobs).unwrap_or_else(standard);
    let options = Options {
        namespace: namespace.to_owned(),
        jobs,
        profiles,
        ..Options::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(LEASE).await;
    let mut registrations = BTreeMap::new();
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for name in options.jobs.iter().filter_map(|job| registration(*job)) {
        registrations.insert(name.to_owned(), seen(api.get_opt(name).await));
    }
    let (cannot_install, may_escalate) = if wanted.pre {
        rights::to_install(client, &options).await?
    } else {
        (Ok(Vec::new()), Ok(true))
    };
    let kinds = kinds(client).await;
    Ok(Facts {
        now: Timestamp::now(),
        pre: wanted.pre,
        namespace: namespace.to_owned(),
        version: Version {
            number: number(&version.major, &version.minor),
            text: version.git_version,
        },
        cannot_install,
        may_escalate,
        namespace_exists: seen(namespaces.get_opt(namespace).await).map(|it| it.is_some()),
        definitions: definitions(client).await,
        webhook: seen(deployments.get_opt(WEBHOOK).await),
        operator,
        lease: seen(lease).map(|it| it.and_then(|lease| lease.spec)),
        endpoints: endpoints(client, registrations.values()).await,
        registrations,
        accounts: if wanted.pre {
            Vec::new()
        } else {
            rights::of_accounts(client, &options).await?
        },
        policies: policies(client).await,
        monitored: monitored(client, namespace, &kinds).await,
        kinds,
        jobs: options.jobs,
    })
}

/// What the server said, as a fact.
fn seen<T>(answer: Result<T, kube::Error>) -> Seen<T> {
    answer.map_err(|error| format!("{:#}", said(error)))
}

/// The numbers of a version. Clouds add a sign to the minor one.
fn number(major: &str, minor: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    Some((digits(major)?, digits(minor)?))
}

/// What the operator was told to do: controllers, if they are named, and profiles.
fn told_jobs(deployment: &Deployment) -> (Option<BTreeSet<Job>>, BTreeSet<String>) {
    let template = deployment
        .spec
        .as_ref()
        .and_then(|it| it.template.spec.as_ref());
    let containers = template
        .map(|it| it.containers.as_slice())
        .unwrap_or_default();
    let arguments = containers.iter().flat_map(|it| it.args.iter().flatten());
    let (mut jobs, mut profiles) = (None, BTreeSet::new());
    for argument in arguments {
        if let Some(names) = argument.strip_prefix("--controllers=") {
            jobs = Some(names.split(',').filter_map(|it| it.parse().ok()).collect());
        }
        if let Some(names) = argument.strip_prefix("--enable-profile=") {
            profiles.extend(names.split(',').map(str::to_owned));
        }
    }
    (jobs, profiles)
}

/// What admission is registered as for a job.
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

/// Names alone: definitions are large, and OpenShift has hundreds.
async fn kinds(client: &Client) -> Seen<BTreeSet<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = seen(api.list_metadata(&ListParams::default()).await)?;
    Ok(found.items.iter().map(ResourceExt::name_any).collect())
}

async fn definitions(client: &Client) -> BTreeMap<String, Seen<Option<Value>>> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut found = BTreeMap::new();
    for definition in manifests::definitions() {
        let name = definition.name_any();
        let there = seen(api.get_opt(&name).await);
        let there = there.and_then(|it| {
            let value = it.map(serde_json::to_value).transpose();
            value.map_err(|error| error.to_string())
        });
        found.insert(name, there);
    }
    found
}

/// How many endpoints are ready, of every Service that registrations name.
async fn endpoints(
    client: &Client,
    registrations: impl Iterator<Item = &Seen<Option<MutatingWebhookConfiguration>>>,
) -> BTreeMap<String, Seen<usize>> {
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
        let slices = seen(api.list(&of_service).await);
        let ready = slices.map(|slices| {
            let all = slices
                .items
                .iter()
                .flat_map(|it| it.endpoints.iter().flatten());
            let ready = all.filter(|endpoint| {
                let conditions = endpoint.conditions.as_ref();
                // What is not known is taken for ready, as Kubernetes has it.
                conditions.and_then(|it| it.ready).unwrap_or(true)
            });
            ready.map(|endpoint| endpoint.addresses.len()).sum()
        });
        found.insert(format!("{namespace}/{name}"), ready);
    }
    found
}

/// Every policy there is, and whether it makes sense to whoever goes by it.
async fn policies(client: &Client) -> Vec<Seen<Policy>> {
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

/// All objects; none if the kind is not installed, which is told elsewhere.
async fn list<K>(api: &Api<K>) -> Seen<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.list(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => seen(Err(error)),
    }
}

/// What a condition says that is not true because what was written makes no sense.
fn invalid(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let wrong = conditions.iter().find(|condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        reason.starts_with("Invalid")
    })?;
    Some(wrong["message"].as_str().unwrap_or_default().to_owned())
}

/// Whether Prometheus is told of our metrics; not, where its kinds are missing.
async fn monitored(client: &Client, namespace: &str, kinds: &Seen<BTreeSet<String>>) -> Seen<bool> {
    let monitors = "servicemonitors.monitoring.coreos.com";
    if !kinds.as_ref().is_ok_and(|kinds| kinds.contains(monitors)) {
        return Ok(false);
    }
    let kind = GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    Ok(seen(api.get_opt(ACCOUNT).await)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_are_read_as_clouds_write_them() {
        assert_eq!(number("1", "36"), Some((1, 36)));
        assert_eq!(number("1", "30+"), Some((1, 30)));
        assert_eq!(number("", ""), None);
    }

    #[test]
    fn what_the_operator_was_told_is_read_from_its_arguments() {
        let deployment = |arguments: &[&str]| {
            serde_json::from_value(json!({
                "spec": {
                    "selector": {},
                    "template": { "spec": { "containers": [{ "name": "operator", "args": arguments }] } },
                },
            }))
            .unwrap()
        };
        let told = deployment(&[
            "run",
            "--controllers=release,placement",
            "--enable-profile=a,b",
        ]);
        let (jobs, profiles) = told_jobs(&told);
        assert_eq!(jobs, Some([Job::Release, Job::Placement].into()));
        assert_eq!(profiles, ["a".to_owned(), "b".to_owned()].into());
        assert_eq!(told_jobs(&deployment(&["run"])), (None, BTreeSet::new()));
    }

    #[test]
    fn a_policy_that_makes_no_sense_says_why() {
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
