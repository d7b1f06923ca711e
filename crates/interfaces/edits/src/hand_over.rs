//! Hand-overs of placement between Medley and the multiarch-tuning-operator.

use ::placement::LEASE;
use ::placement::hand_over::{
    CONFIG, CONFIG_NAME, Direction, HandOverError, HandOverInputs, Step, steps,
};
use api::mode::ModeSetting;
use api::operators::expiry;
use api::placement::{NAME, PlacementPolicy, PlacementPolicySpec, WEBHOOK};
use cluster_view::rivals::{PlacementRival, pod_placement_configs};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent as _, Error, Writer};
use serde_json::{Map, Value, json};

use crate::ATTEMPTS;

/// The steps of a hand-over from the current state, or why it is refused. `installation` is the namespace of Medley.
pub async fn hand_over(
    client: &Client,
    direction: Direction,
    namespaces: &[String],
    installation: &str,
) -> Result<Result<Vec<Step>, HandOverError>, Error> {
    let rival = PlacementRival::read(client).await?;
    let (config, pod_configs) = pod_placement_configs(client).await?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let operation = format!("reading MutatingWebhookConfiguration {WEBHOOK}");
    let admission = registrations.get(WEBHOOK).await.not_found_as_none();
    let admission = admission.map_err(Error::api(operation))?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), installation);
    let lease = leases.get(LEASE).await.not_found_as_none();
    let lease = lease.map_err(Error::api(format!("reading Lease {installation}/{LEASE}")))?;
    let held = lease.as_ref().and_then(expiry);
    Ok(steps(&HandOverInputs {
        direction,
        namespaces,
        mode: rival.mode,
        admission: admission.is_some(),
        controller: held.is_some_and(|until| until > Timestamp::now()),
        config: config.as_ref(),
        pod_configs,
        registered: rival.registered.is_some(),
        running: rival.running.as_ref(),
        installer: rival.installer.as_ref(),
    }))
}

/// Writes a step, or only validates it (dry run). Returns the object and what was done to it, as kubectl prints it.
pub async fn take_step(
    client: &Client,
    step: &Step,
    (manager, dry_run): (&'static str, bool),
) -> Result<String, Error> {
    let [group, version, kind, plural] = CONFIG;
    let resource = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&resource, plural);
    let configs: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = format!("{}.{group}/{CONFIG_NAME}", kind.to_lowercase());
    let read = || async {
        let found = configs.get(CONFIG_NAME).await;
        found.map_err(Error::api(format!("reading {kind} {CONFIG_NAME}")))
    };
    match step {
        Step::SetMode(mode) => set_mode(client, *mode, (manager, dry_run)).await,
        Step::Select(selector) => {
            let found = read().await?;
            // A merge patch merges maps, so the keys of the former selector are removed in the same request.
            let mut fields = Map::new();
            let before = found.data.pointer("/spec/namespaceSelector");
            for key in before
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys)
            {
                fields.insert(key.clone(), Value::Null);
            }
            for (key, value) in selector.as_object().into_iter().flatten() {
                fields.insert(key.clone(), value.clone());
            }
            let patch = json!({
                // The selector was derived from the one that was read: a concurrent change must not be lost.
                "metadata": { "resourceVersion": found.resource_version() },
                "spec": { "namespaceSelector": fields },
            });
            let params = PatchParams {
                dry_run,
                field_manager: Some(manager.to_owned()),
                ..PatchParams::default()
            };
            let patched = configs
                .patch(CONFIG_NAME, &params, &Patch::Merge(patch))
                .await;
            patched.map_err(Error::api(format!("patching {kind} {CONFIG_NAME}")))?;
            Ok(format!("{name} patched"))
        }
        Step::DeleteConfig => {
            let found = read().await?;
            let params = DeleteParams {
                dry_run,
                // Not one that was created since.
                preconditions: Some(Preconditions {
                    uid: found.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            let deleted = configs.delete(CONFIG_NAME, &params).await;
            deleted.map_err(Error::api(format!("deleting {kind} {CONFIG_NAME}")))?;
            Ok(format!("{name} deleted"))
        }
    }
}

async fn set_mode(
    client: &Client,
    mode: ModeSetting,
    (manager, dry_run): (&'static str, bool),
) -> Result<String, Error> {
    let api: Api<PlacementPolicy> = Api::all(client.clone());
    let writer = Writer::new(api.clone(), manager).dry_run(dry_run);
    let object = format!("placementpolicy.{}/{NAME}", api::placement::GROUP);
    for _ in 0..ATTEMPTS {
        let found = api.get(NAME).await.not_found_as_none();
        let found = found.map_err(Error::api(format!("reading PlacementPolicy {NAME}")))?;
        let (outcome, verb) = if let Some(found) = found {
            let patch = json!({ "spec": { "operatorMode": mode } });
            let merged = writer.merge_into(&found.metadata, patch).await;
            (merged, "patched")
        } else {
            let spec = PlacementPolicySpec {
                operator_mode: Some(mode),
                ..PlacementPolicySpec::default()
            };
            let created = writer.create(&PlacementPolicy::new(NAME, spec)).await;
            (created, "created")
        };
        match outcome {
            Ok(_) => return Ok(format!("{object} {verb}")),
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Late(format!(
        "setting spec.operatorMode of PlacementPolicy {NAME}: it changed during each of {ATTEMPTS} attempts"
    )))
}
