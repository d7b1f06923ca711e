//! Handing placement over between Medley and the multiarch-tuning-operator.
//!
//! Each step leaves one operator at most that gates a pod, and a hand-over that was interrupted is continued by asking for it
//! again: the steps are derived from the current state only.
//!
//! ```text
//! take over:  operatorMode Auto   Medley places pods of namespaces that the other operator does not select
//!             the other operator's ClusterPodPlacementConfig is deleted, or selects fewer namespaces: it removes its webhook
//!                                 before its controller, which lifts its gates; Medley follows the webhook
//! hand back:  the ClusterPodPlacementConfig selects the namespaces again, or
//!             operatorMode Assist Medley gates no pod, and releases those that it has gated
//! ```

#[cfg(test)]
mod tests;

use std::fmt;

use api::mode::ModeSetting;
use api::operators::RunningOperator;
use serde_json::{Value, json};
use thiserror::Error;

use crate::multiarch::REGISTRATION;

/// Group, version, kind and plural of the other operator's configuration.
pub const CONFIG: [&str; 4] = [
    "multiarch.openshift.io",
    "v1beta1",
    "ClusterPodPlacementConfig",
    "clusterpodplacementconfigs",
];
/// The name of the only object of that kind (`SingletonResourceObjectName` in api/common/const.go).
pub const CONFIG_NAME: &str = "cluster";
/// The label that the API server sets on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Medley is to place pods.
    TakeOver,
    /// The multiarch-tuning-operator is to place pods.
    HandBack,
}

/// The state that a hand-over starts from.
#[derive(Debug, Clone, Copy)]
pub struct HandOverInputs<'a> {
    /// What is asked for.
    pub direction: Direction,
    /// The namespaces to hand over; all if empty.
    pub namespaces: &'a [String],
    /// `spec.operatorMode` of the PlacementPolicy `default`.
    pub mode: ModeSetting,
    /// Whether Medley's webhook is registered.
    pub admission: bool,
    /// Whether Medley's placement controller holds its Lease.
    pub controller: bool,
    /// The ClusterPodPlacementConfig, if there is one.
    pub config: Option<&'a Value>,
    /// How many PodPlacementConfigs there are: the other operator keeps its configuration while there are any.
    pub pod_configs: usize,
    /// Whether the other operator's webhook is registered.
    pub registered: bool,
    /// The other operator's placement controller, if it runs.
    pub running: Option<&'a RunningOperator>,
    /// The operator that maintains that controller and lifts its gates, if it runs.
    pub installer: Option<&'a RunningOperator>,
}

/// A write of a hand-over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sets `spec.operatorMode` of the PlacementPolicy `default`.
    SetMode(ModeSetting),
    /// Sets `spec.namespaceSelector` of the ClusterPodPlacementConfig.
    Select(Value),
    /// Deletes the ClusterPodPlacementConfig.
    DeleteConfig,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetMode(mode) => write!(
                f,
                "set spec.operatorMode of PlacementPolicy {} to {mode:?}",
                api::placement::NAME
            ),
            Self::Select(selector) => write!(
                f,
                "set spec.namespaceSelector of ClusterPodPlacementConfig {CONFIG_NAME} to {selector}"
            ),
            Self::DeleteConfig => write!(
                f,
                "delete ClusterPodPlacementConfig {CONFIG_NAME}; the multiarch-tuning-operator then removes its webhook and lifts its gates"
            ),
        }
    }
}

/// Why a hand-over is refused: pods would be placed by no operator, or stay at a gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandOverError {
    /// Medley cannot place pods.
    #[error(
        "placement of Medley is not ready, because {0}; pods would be placed by no operator; see `medley check --controllers placement`"
    )]
    NotReady(&'static str),
    /// The other operator cannot place pods.
    #[error(
        "the multiarch-tuning-operator is not ready, because {0}; pods would be placed by no operator"
    )]
    OtherNotReady(&'static str),
    /// The operator that lifts the gates is gone.
    #[error(
        "the multiarch-tuning-operator does not run, so it would not lift its gates; start it, then try again"
    )]
    NoInstaller,
    /// Its webhook outlived it.
    #[error(
        "there is no ClusterPodPlacementConfig, but MutatingWebhookConfiguration {REGISTRATION} exists; if the multiarch-tuning-operator is not being removed right now, delete it: kubectl delete mutatingwebhookconfiguration {REGISTRATION}"
    )]
    LeftRegistration,
    /// The other operator would keep its configuration.
    #[error(
        "there are PodPlacementConfigs ({0}), and the multiarch-tuning-operator keeps its ClusterPodPlacementConfig while there are any; delete them first"
    )]
    PodConfigs(usize),
    /// A namespace that was not taken over by name.
    #[error(
        "spec.namespaceSelector of ClusterPodPlacementConfig {CONFIG_NAME} does not exclude namespace {0} by name; change its labels or the selector by hand"
    )]
    NotExcluded(String),
    /// The selector cannot be read.
    #[error("spec.namespaceSelector of ClusterPodPlacementConfig {CONFIG_NAME} is malformed")]
    Malformed,
}

/// The steps of a hand-over, in order; none if everything is as asked for.
pub fn steps(inputs: &HandOverInputs<'_>) -> Result<Vec<Step>, HandOverError> {
    match inputs.direction {
        Direction::TakeOver => take_over(inputs),
        Direction::HandBack => hand_back(inputs),
    }
}

fn take_over(inputs: &HandOverInputs<'_>) -> Result<Vec<Step>, HandOverError> {
    if !inputs.admission {
        return Err(HandOverError::NotReady("its webhook is not registered"));
    }
    if !inputs.controller {
        return Err(HandOverError::NotReady("its controller does not run"));
    }
    let mut steps = Vec::new();
    // First: otherwise pods that the other operator lets go are placed by none.
    if inputs.mode != ModeSetting::Auto {
        steps.push(Step::SetMode(ModeSetting::Auto));
    }
    let Some(config) = inputs.config else {
        if inputs.registered {
            return Err(HandOverError::LeftRegistration);
        }
        return Ok(steps);
    };
    // A configuration that is being deleted is on its way already.
    if !config["metadata"]["deletionTimestamp"].is_null() {
        return Ok(steps);
    }
    if inputs.installer.is_none() {
        return Err(HandOverError::NoInstaller);
    }
    if inputs.namespaces.is_empty() {
        if inputs.pod_configs > 0 {
            return Err(HandOverError::PodConfigs(inputs.pod_configs));
        }
        steps.push(Step::DeleteConfig);
        return Ok(steps);
    }
    let before = &config["spec"]["namespaceSelector"];
    let after = exclude(before, inputs.namespaces)?;
    if *before != after {
        steps.push(Step::Select(after));
    }
    Ok(steps)
}

fn hand_back(inputs: &HandOverInputs<'_>) -> Result<Vec<Step>, HandOverError> {
    let config = inputs
        .config
        .filter(|config| config["metadata"]["deletionTimestamp"].is_null());
    let Some(config) = config else {
        return Err(HandOverError::OtherNotReady(
            "there is no ClusterPodPlacementConfig",
        ));
    };
    if !inputs.registered {
        return Err(HandOverError::OtherNotReady(
            "its webhook is not registered",
        ));
    }
    if inputs.running.is_none() {
        return Err(HandOverError::OtherNotReady(
            "its placement controller does not run",
        ));
    }
    if inputs.namespaces.is_empty() {
        return Ok(match inputs.mode {
            ModeSetting::Auto => vec![Step::SetMode(ModeSetting::Assist)],
            ModeSetting::Assist | ModeSetting::Off => Vec::new(),
        });
    }
    let after = include(&config["spec"]["namespaceSelector"], inputs.namespaces)?;
    Ok(vec![Step::Select(after)])
}

/// The expressions of a selector, and the position of the one that excludes namespaces by name.
fn expressions(selector: &Value) -> Result<(Vec<Value>, Option<usize>), HandOverError> {
    let all = match &selector["matchExpressions"] {
        Value::Null => Vec::new(),
        Value::Array(all) => all.clone(),
        _ => return Err(HandOverError::Malformed),
    };
    let by_name = all
        .iter()
        .position(|one| one["key"] == NAMESPACE_NAME && one["operator"] == "NotIn");
    Ok((all, by_name))
}

fn values(expression: &Value) -> Vec<String> {
    let values = expression["values"].as_array().into_iter().flatten();
    values
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

fn with(selector: &Value, expressions: Vec<Value>) -> Result<Value, HandOverError> {
    let mut fields = match selector {
        Value::Null => serde_json::Map::new(),
        Value::Object(fields) => fields.clone(),
        _ => return Err(HandOverError::Malformed),
    };
    if expressions.is_empty() {
        fields.remove("matchExpressions");
    } else {
        fields.insert("matchExpressions".to_owned(), expressions.into());
    }
    Ok(fields.into())
}

fn by_name(namespaces: &[String]) -> Value {
    json!({ "key": NAMESPACE_NAME, "operator": "NotIn", "values": namespaces })
}

/// The selector, without these namespaces.
fn exclude(selector: &Value, namespaces: &[String]) -> Result<Value, HandOverError> {
    let (mut all, position) = expressions(selector)?;
    let place = position.and_then(|position| all.get_mut(position));
    let mut names = place.as_deref().map(values).unwrap_or_default();
    names.extend(namespaces.iter().cloned());
    names.sort();
    names.dedup();
    match place {
        Some(place) => *place = by_name(&names),
        None => all.push(by_name(&names)),
    }
    with(selector, all)
}

/// The selector with these namespaces, which [`exclude`] has removed from it.
fn include(selector: &Value, namespaces: &[String]) -> Result<Value, HandOverError> {
    let (mut all, position) = expressions(selector)?;
    let mut names = position
        .and_then(|position| all.get(position))
        .map(values)
        .unwrap_or_default();
    for namespace in namespaces {
        if !names.contains(namespace) {
            return Err(HandOverError::NotExcluded(namespace.clone()));
        }
    }
    names.retain(|name| !namespaces.contains(name));
    if let Some(position) = position {
        if names.is_empty() {
            all.remove(position);
        } else if let Some(place) = all.get_mut(position) {
            *place = by_name(&names);
        }
    }
    with(selector, all)
}
