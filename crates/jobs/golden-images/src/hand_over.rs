//! Handing a layer over to Medley, and back to its genuine operator.
//!
//! ```text
//! take-over   what restores the operator: replicas -> 0    the operator: replicas -> 0    its Lease expires: Medley manages
//! hand-back   the operator: replicas -> as before    what restores it: replicas -> as before    Medley steps back by itself
//! ```
//!
//! Nothing is remembered but an annotation on each Deployment, written with its replicas in one request. So both can be
//! repeated after an interruption at any point: they continue with the Deployments that are left.

#[cfg(test)]
mod tests;

use api::cdi::Named;
use api::mode::ModeSetting;
use api::operators::{GenuineOperator, Restorer, restorer, wants_replicas};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::action::{annotation, name_of};
use crate::layers::Layer;

/// On the Deployment of a genuine operator: how many replicas it wanted before Medley took over.
pub const REPLICAS: &str = "medley.dev/replicas-before-take-over";
/// On the Deployment: the layer that took over.
pub const TAKEN_OVER_BY: &str = "medley.dev/taken-over-by";

/// The Deployment of an operator, as far as a hand-over needs it.
#[derive(Debug, Clone, Copy)]
pub struct Installed<'a> {
    /// The operator.
    pub operator: GenuineOperator,
    /// Its Deployment, if there is one.
    pub deployment: Option<&'a Deployment>,
}

/// What a hand-over depends on.
#[derive(Debug, Clone, Copy)]
pub struct HandOverInputs<'a> {
    /// The layer.
    pub layer: Layer,
    /// Its genuine operator; `None` if it has none.
    pub operator: Option<Installed<'a>>,
    /// The operator that restores that one.
    pub restoring: Option<Installed<'a>>,
    /// The Lease by which the operator is found, if it is held although its Deployment wants no replicas.
    pub runs_elsewhere: Option<&'a Named>,
    /// Whether a replica of Medley runs the layer, as far as that is known.
    pub enabled: bool,
    /// Whether the kind of the layer is installed.
    pub installed: bool,
    /// `spec.mode` of the policy.
    pub setting: ModeSetting,
}

/// A change of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scale {
    /// The operator, in messages.
    pub operator: &'static str,
    /// The Deployment.
    pub deployment: Named,
    /// Its replicas now.
    pub from: i32,
    /// Its replicas afterwards.
    pub to: i32,
    /// The merge patch.
    #[serde(skip)]
    pub patch: Value,
}

/// A hand-over, in the order of its changes; empty if there is nothing left to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HandOver {
    /// The layer.
    pub layer: Layer,
    /// The changes of Deployments.
    pub scale: Vec<Scale>,
    /// Who manages the layer afterwards.
    pub owner: String,
    /// What else follows.
    pub consequences: Vec<&'static str>,
}

/// Why a hand-over is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No other operator reconciles the objects of the layer.
    #[error("{0}: no other operator writes its objects, so there is nothing to hand over")]
    NoOperator(Layer),
    /// The Deployment would be restored.
    #[error(
        "{layer}: cannot scale Deployment {} to 0: {restorer} restores it; {}",
        title(deployment),
        advice(restorer)
    )]
    Restored {
        /// The layer.
        layer: Layer,
        /// The Deployment.
        deployment: Named,
        /// What restores it.
        restorer: Restorer,
    },
    /// The operator runs without a Deployment.
    #[error(
        "{layer}: {operator} holds Lease {} without its Deployment; stop the process that holds it, or wait until the Lease has expired",
        title(lease)
    )]
    Elsewhere {
        /// The layer.
        layer: Layer,
        /// The operator.
        operator: &'static str,
        /// The Lease.
        lease: Named,
    },
    /// No controller of Medley would manage the objects.
    #[error(
        "{0}: no controller of Medley would manage its objects: neither the Deployment of the operator has {0} in --controllers, nor has its controller reported a mode in GoldenImagePolicy default; enable {0} first (medley manifests --controllers)"
    )]
    NotEnabled(Layer),
    /// The policy forbids it.
    #[error(
        "{layer}: GoldenImagePolicy default sets mode {setting:?}, so no controller of Medley would manage its objects; set spec.mode to Auto first"
    )]
    SetByPolicy {
        /// The layer.
        layer: Layer,
        /// The setting.
        setting: ModeSetting,
    },
    /// There is nothing to manage.
    #[error("{layer}: {kind} is not installed, so there is nothing to hand over")]
    NotInstalled {
        /// The layer.
        layer: Layer,
        /// The kind.
        kind: &'static str,
    },
    /// The operator is not installed.
    #[error(
        "{layer}: there is no Deployment {deployment} in the cluster; install {operator}, then Medley steps back by itself"
    )]
    NoDeployment {
        /// The layer.
        layer: Layer,
        /// The operator.
        operator: &'static str,
        /// The name of its Deployment.
        deployment: &'static str,
    },
}

fn title(of: &Named) -> String {
    format!("{}/{}", of.namespace, of.name)
}

/// What would have to change so that a Deployment stays scaled down.
fn advice(restorer: &Restorer) -> String {
    match restorer {
        Restorer::Olm { version } => format!(
            "set the replicas of the Deployment in ClusterServiceVersion {version} to 0, or uninstall the operator and keep its CRDs"
        ),
        Restorer::ClusterVersion => {
            "add the Deployment to spec.overrides of ClusterVersion version as unmanaged".to_owned()
        }
        Restorer::Owner { kind, name } => {
            format!("stop the operator of {kind} {name}, or set the replicas there")
        }
    }
}

/// The changes by which Medley takes a layer over.
pub fn take_over(inputs: &HandOverInputs<'_>) -> Result<HandOver, Refusal> {
    let layer = inputs.layer;
    let Some(operator) = inputs.operator else {
        return Err(Refusal::NoOperator(layer));
    };
    if !inputs.installed {
        let (_, kind) = layer.kind();
        return Err(Refusal::NotInstalled { layer, kind });
    }
    if inputs.setting != ModeSetting::Auto {
        let setting = inputs.setting;
        return Err(Refusal::SetByPolicy { layer, setting });
    }
    if !inputs.enabled {
        return Err(Refusal::NotEnabled(layer));
    }
    let mut scale = Vec::new();
    // First what restores the operator, which would undo the rest.
    let restoring = inputs.restoring.filter(|it| it.deployment.is_some());
    if let Some((installed, deployment)) = running(restoring) {
        refuse_restored(layer, &deployment.metadata, false)?;
        scale.push(down(layer, installed.operator, deployment));
    }
    match running(Some(operator)) {
        Some((installed, deployment)) => {
            // Its owner does nothing once the operator of the owner is scaled down.
            let knows_restorer = restoring.is_some() || layer.restorer().is_some();
            refuse_restored(layer, &deployment.metadata, knows_restorer)?;
            scale.push(down(layer, installed.operator, deployment));
        }
        None => {
            if let (Some(lease), None) = (inputs.runs_elsewhere, taken_over(operator.deployment)) {
                return Err(Refusal::Elsewhere {
                    layer,
                    operator: operator.operator.title,
                    lease: lease.clone(),
                });
            }
        }
    }
    Ok(HandOver {
        layer,
        scale,
        owner: layer.component().to_owned(),
        consequences: consequences(layer),
    })
}

/// The changes by which Medley hands a layer back.
pub fn hand_back(inputs: &HandOverInputs<'_>) -> Result<HandOver, Refusal> {
    let layer = inputs.layer;
    let Some(operator) = inputs.operator else {
        return Err(Refusal::NoOperator(layer));
    };
    let Some(deployment) = operator.deployment else {
        return Err(Refusal::NoDeployment {
            layer,
            operator: operator.operator.title,
            deployment: operator.operator.deployment,
        });
    };
    // First the operator: what restores it would start it with the replicas of a default.
    let restoring = inputs.restoring.and_then(|it| Some((it, it.deployment?)));
    let all = [(operator, deployment)].into_iter().chain(restoring);
    let scale = all
        .filter(|(_, deployment)| !wants_replicas(deployment) || is_marked(deployment))
        .map(|(installed, deployment)| up(installed.operator, deployment))
        .collect();
    Ok(HandOver {
        layer,
        scale,
        owner: operator.operator.title.to_owned(),
        consequences: vec![
            "Medley steps back by itself as soon as the Deployment wants replicas.",
            "Objects keep their names; imports under way are continued, and nothing is imported again.",
        ],
    })
}

fn running(installed: Option<Installed<'_>>) -> Option<(Installed<'_>, &Deployment)> {
    let installed = installed?;
    let deployment = installed.deployment?;
    wants_replicas(deployment).then_some((installed, deployment))
}

/// Refuses to scale a Deployment that is restored, unless by an owner whose operator is scaled down as well.
fn refuse_restored(layer: Layer, meta: &ObjectMeta, owner_is_stopped: bool) -> Result<(), Refusal> {
    match restorer(meta) {
        None => Ok(()),
        Some(Restorer::Owner { .. }) if owner_is_stopped => Ok(()),
        Some(restorer) => Err(Refusal::Restored {
            layer,
            deployment: name_of(meta),
            restorer,
        }),
    }
}

fn replicas(deployment: &Deployment) -> i32 {
    // The API server sets 1 if the field is absent.
    deployment
        .spec
        .as_ref()
        .and_then(|it| it.replicas)
        .unwrap_or(1)
}

fn is_marked(deployment: &Deployment) -> bool {
    annotation(&deployment.metadata, REPLICAS).is_some()
}

/// The layer that scaled a Deployment down.
fn taken_over(deployment: Option<&Deployment>) -> Option<&str> {
    annotation(&deployment?.metadata, TAKEN_OVER_BY)
}

fn down(layer: Layer, operator: GenuineOperator, deployment: &Deployment) -> Scale {
    let from = replicas(deployment);
    Scale {
        operator: operator.title,
        deployment: name_of(&deployment.metadata),
        from,
        to: 0,
        patch: json!({
            "metadata": { "annotations": {
                REPLICAS: from.to_string(), TAKEN_OVER_BY: layer.component(),
            } },
            "spec": { "replicas": 0 },
        }),
    }
}

fn up(operator: GenuineOperator, deployment: &Deployment) -> Scale {
    let from = replicas(deployment);
    let before = annotation(&deployment.metadata, REPLICAS).and_then(|it| it.parse().ok());
    // A Deployment that was scaled up in the meantime keeps its replicas, and only loses the annotations. One that was
    // scaled down by another user gets the API server's default.
    let to = if from > 0 {
        from
    } else {
        before.filter(|it| *it > 0).unwrap_or(1)
    };
    Scale {
        operator: operator.title,
        deployment: name_of(&deployment.metadata),
        from,
        to,
        patch: json!({
            "metadata": { "annotations": { REPLICAS: null, TAKEN_OVER_BY: null } },
            "spec": { "replicas": to },
        }),
    }
}

/// What a take-over means besides that another controller writes.
fn consequences(layer: Layer) -> Vec<&'static str> {
    let own = match layer {
        Layer::Hco => {
            "Nothing else that the HyperConverged configures (KubeVirt, CDI, networking) is reconciled until hand-back."
        }
        Layer::Ssp => {
            "Its validator of VM templates and its metrics stop until hand-back; VMs that run are not affected."
        }
        Layer::Cdi => {
            "Uploads and sources that Medley does not import wait until hand-back; CDI is not updated meanwhile."
        }
        Layer::Vm => "",
    };
    let mut all = vec![
        "Objects keep their names; imports under way are continued, and nothing is imported again.",
        "Medley takes over when the Lease of the operator has expired, and writes nothing before.",
    ];
    if !own.is_empty() {
        all.push(own);
    }
    all
}
