//! The layers of golden images and their modes, read once with the permissions of a user.

use api::golden::GoldenImagePolicy;
use api::mode::Ownership;
use api::operators::RunningOperator;
use golden_images::layers::{Layer, LayerState};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use runtime::Error;

use crate::operators::OperatorObjects;
use crate::policies;

/// A layer and its mode.
#[derive(Debug, Clone)]
pub struct LayerView {
    /// The layer.
    pub layer: Layer,
    /// Its mode.
    pub ownership: Ownership,
    /// The genuine operator, if it runs.
    pub running: Option<RunningOperator>,
}

/// What the modes of all layers depend on.
#[derive(Debug, Clone, Default)]
pub struct LayerObjects {
    /// The genuine operators of the layers, and what restores them.
    pub operators: OperatorObjects,
    /// The policy, if there is one.
    pub policy: Option<GoldenImagePolicy>,
    /// Layers whose kind is not installed.
    pub missing: Vec<Layer>,
    /// When they were read.
    pub now: Timestamp,
}

impl LayerObjects {
    /// Reads them.
    pub async fn read(client: &Client) -> Result<Self, Error> {
        let operators = Layer::ALL
            .into_iter()
            .flat_map(|layer| layer.operator().into_iter().chain(layer.restorer()));
        let operators = OperatorObjects::read(client, operators).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut missing = Vec::new();
        for layer in Layer::ALL {
            // A user who may not read CustomResourceDefinitions gets the mode of an installed kind.
            if let Ok(None) = definitions.get_metadata_opt(layer.definition()).await {
                missing.push(layer);
            }
        }
        Ok(Self {
            operators,
            policy: policies::read(client).await?,
            missing,
            now: Timestamp::now(),
        })
    }

    /// The mode of a layer that a replica of Medley runs, or does not run.
    pub fn view(&self, layer: Layer, enabled: bool) -> LayerView {
        let operator = layer.operator();
        let running = operator.and_then(|it| self.operators.running(&it, self.now));
        let setting = self.policy.as_ref().map(|it| it.spec.mode);
        let ownership = layer.mode(&LayerState {
            setting: setting.unwrap_or_default(),
            enabled,
            installed: !self.missing.contains(&layer),
            running: running.as_ref(),
        });
        LayerView {
            layer,
            ownership,
            running,
        }
    }

    /// Whether the controller of a layer has reported its mode in the policy; `None` without a policy.
    pub fn reports(&self, layer: Layer) -> Option<bool> {
        let status = self.policy.as_ref()?.status.as_ref();
        let mut conditions = status.iter().flat_map(|it| &it.conditions);
        Some(conditions.any(|it| it.type_ == layer.condition()))
    }
}
