//! Other operators beside the jobs governance, placement and release, read once with the permissions of a user.

use api::mode::Ownership;
use api::openshift::ClusterVersion;
use api::operators::RunningOperator;
use api::placement::{NAME, PlacementPolicy};
use api::release::ReleasePolicy;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use placement::multiarch::{self, MultiarchTuning};
use placement::ownership;
use release_migration::control::{self, Owners, owners};
use runtime::Error;
use serde_json::{Value, json};

use crate::list::unless_forbidden;
use crate::operators::OperatorObjects;
use crate::policies;

/// Who reconciles VirtPlatformConfigs; `installed` is false without their CRD.
pub async fn governance(client: &Client, installed: bool) -> Result<Ownership, Error> {
    let operator = governance::prototype::OPERATOR;
    let objects = OperatorObjects::read(client, [operator]).await?;
    let running = objects.running(&operator, Timestamp::now());
    Ok(governance::prototype::ownership(
        installed,
        running.as_ref(),
    ))
}

/// Who maintains the ClusterVersion. `manager` is Medley's field manager.
pub async fn release(
    client: &Client,
    version: Option<&ClusterVersion>,
    manager: &str,
) -> Result<Ownership, Error> {
    let objects = OperatorObjects::read(client, [control::OPERATOR]).await?;
    let owners = Owners {
        operator: objects.running(&control::OPERATOR, Timestamp::now()),
        ..version.map(|it| owners(it, manager)).unwrap_or_default()
    };
    let policy: Option<ReleasePolicy> = match policies::read(client).await {
        Err(error) if error.code() == Some(403) => None,
        found => found?,
    };
    Ok(control::ownership(
        policy.as_ref(),
        version.is_some(),
        &owners,
    ))
}

/// The multiarch-tuning-operator, and what the PlacementPolicies say about it.
#[derive(Debug, Clone, Default)]
pub struct PlacementRival {
    /// `spec.operatorMode` of the policy `default`.
    pub mode: api::mode::ModeSetting,
    /// Its webhook, if it is registered.
    pub registered: Option<MultiarchTuning>,
    /// Its placement controller, if it runs.
    pub running: Option<RunningOperator>,
    /// The operator that maintains that controller, if it runs.
    pub installer: Option<RunningOperator>,
}

impl PlacementRival {
    /// Reads them.
    pub async fn read(client: &Client) -> Result<Self, Error> {
        let registrations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let operation = format!(
            "reading MutatingWebhookConfiguration {}",
            multiarch::REGISTRATION
        );
        let registered = registrations.get(multiarch::REGISTRATION).await;
        let registered = unless_forbidden(operation, registered)?;
        let all = [ownership::OPERATOR, ownership::INSTALLER];
        let objects = OperatorObjects::read(client, all).await?;
        let policies: Option<Vec<PlacementPolicy>> = match policies::list(client).await {
            Err(error) if error.code() == Some(403) => None,
            found => found?,
        };
        let mut policies = policies.into_iter().flatten();
        let own = policies.find(|it| it.metadata.name.as_deref() == Some(NAME));
        let now = Timestamp::now();
        Ok(Self {
            mode: own.and_then(|it| it.spec.operator_mode).unwrap_or_default(),
            registered: registered.and_then(|it| MultiarchTuning::read(&json!(it))),
            running: objects.running(&ownership::OPERATOR, now),
            installer: objects.running(&ownership::INSTALLER, now),
        })
    }

    /// Who places pods.
    pub fn ownership(&self) -> Ownership {
        ownership::ownership(self.mode, self.registered.as_ref(), self.running.as_ref())
    }
}

/// The ClusterPodPlacementConfig, and the number of PodPlacementConfigs.
pub async fn pod_placement_configs(client: &Client) -> Result<(Option<Value>, usize), Error> {
    use placement::hand_over::{CONFIG, CONFIG_NAME};
    let [group, version, kind, plural] = CONFIG;
    let resource = |kind: &str, plural: &str| {
        let kind = GroupVersionKind::gvk(group, version, kind);
        ApiResource::from_gvk_with_plural(&kind, plural)
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind, plural));
    let operation = format!("reading {kind} {CONFIG_NAME}");
    let config = unless_forbidden(operation, api.get(CONFIG_NAME).await)?;
    let resource = resource("PodPlacementConfig", "podplacementconfigs");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let all = unless_forbidden(
        "listing PodPlacementConfigs",
        api.list(&kube::api::ListParams::default()).await,
    )?;
    let count = all.map_or(0, |all| all.items.len());
    Ok((config.map(|it| json!(it)), count))
}
