//! Modes of the layers of golden images, and which of them Medley runs, as far as a user can read it.

use std::collections::BTreeSet;

use cluster_view::layers::{LayerObjects, LayerView};
use controllers::Job;
use golden_images::layers::Layer;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use manifests::ACCOUNT;

/// The controller of a layer.
pub(crate) fn job(layer: Layer) -> Job {
    match layer {
        Layer::Hco => Job::ImagesHco,
        Layer::Ssp => Job::ImagesSsp,
        Layer::Cdi => Job::ImagesCdi,
        Layer::Vm => Job::ImagesVm,
    }
}

/// The controllers and profiles that the operator's Deployment is configured with.
pub(crate) fn configured_jobs(
    deployment: &Deployment,
) -> (Option<BTreeSet<Job>>, BTreeSet<String>) {
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
            // An unknown name is a controller of a newer version, for which this one has no rules
            // to check.
            jobs = Some(names.split(',').filter_map(|it| it.parse().ok()).collect());
        }
        if let Some(names) = argument.strip_prefix("--enable-profile=") {
            profiles.extend(names.split(',').map(str::to_owned));
        }
    }
    (jobs, profiles)
}

/// The controllers of the operator in a namespace; `None` if there is none that can be read.
pub(crate) async fn installed_jobs(client: &Client, namespace: &str) -> Option<BTreeSet<Job>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = api.get_opt(ACCOUNT).await.ok()??;
    let (jobs, _) = configured_jobs(&found);
    // Without the flag, `medley run` starts the standard ones.
    Some(jobs.unwrap_or_else(|| Job::STANDARD.iter().copied().collect()))
}

/// Whether a replica of Medley runs a layer: the operator is configured with it, or its controller has reported a mode.
pub(crate) fn is_enabled(
    objects: &LayerObjects,
    jobs: Option<&BTreeSet<Job>>,
    layer: Layer,
) -> Option<bool> {
    let configured = jobs.map(|jobs| jobs.contains(&job(layer)));
    match (configured, objects.reports(layer)) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (configured, reported) => configured.or(reported),
    }
}

/// The modes of all layers. One of which it is not known whether Medley runs it counts as enabled.
pub(crate) fn views(objects: &LayerObjects, jobs: Option<&BTreeSet<Job>>) -> Vec<LayerView> {
    let view = |layer| objects.view(layer, is_enabled(objects, jobs, layer).unwrap_or(true));
    Layer::ALL.into_iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_and_profiles_are_read_from_operator_arguments() {
        let deployment = |arguments: &[&str]| {
            serde_json::from_value(json!({
                "spec": {
                    "selector": {},
                    "template": { "spec": { "containers": [{ "name": "operator", "args": arguments }] } },
                },
            }))
            .unwrap()
        };
        let deployed = deployment(&[
            "run",
            "--controllers=release,placement",
            "--enable-profile=a,b",
        ]);
        let (jobs, profiles) = configured_jobs(&deployed);
        assert_eq!(jobs, Some([Job::Release, Job::Placement].into()));
        assert_eq!(profiles, ["a".to_owned(), "b".to_owned()].into());
        assert_eq!(
            configured_jobs(&deployment(&["run"])),
            (None, BTreeSet::new())
        );
    }

    #[test]
    fn layer_is_enabled_if_configured_or_reported() {
        let policy = |conditions: serde_json::Value| {
            let object = json!({
                "metadata": { "name": "default" }, "spec": {},
                "status": { "conditions": conditions },
            });
            serde_json::from_value(object).unwrap()
        };
        let reporting = json!([{
            "type": "ManagingImports", "status": "False", "reason": "UpstreamOperatorRuns", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let with = |policy| LayerObjects {
            policy,
            ..LayerObjects::default()
        };
        let standard: BTreeSet<Job> = Job::STANDARD.iter().copied().collect();
        let images: BTreeSet<Job> = Job::IMAGES.iter().copied().collect();
        for (objects, jobs, expected) in [
            (with(None), None, None),
            (with(None), Some(&standard), Some(false)),
            (with(None), Some(&images), Some(true)),
            (with(Some(policy(json!([])))), None, Some(false)),
            (with(Some(policy(reporting.clone()))), None, Some(true)),
            // Run outside of the cluster, beside an operator with other controllers.
            (with(Some(policy(reporting))), Some(&standard), Some(true)),
        ] {
            assert_eq!(is_enabled(&objects, jobs, Layer::Cdi), expected);
        }
    }
}
