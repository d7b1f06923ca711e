//! Which operator manages the layers of golden images, and what is missing, from the conditions of the policy.

use api::golden::GoldenImagePolicy;
use api::mode::reasons;
use golden_images::coverage::{COVERED, SWITCH_FOLLOWED};
use golden_images::layers::Layer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::Level;

/// The layers and findings of a policy.
#[derive(Default)]
pub(super) struct Ownership {
    pub(super) layers: Vec<LayerLine>,
    pub(super) findings: Vec<String>,
}

/// A layer that Medley runs.
pub(super) struct LayerLine {
    pub(super) component: &'static str,
    pub(super) state: &'static str,
    pub(super) level: Level,
    pub(super) message: String,
}

impl Ownership {
    pub(super) fn of(policy: &GoldenImagePolicy) -> Self {
        let status = policy.status.as_ref();
        let conditions = status.map(|it| it.conditions.as_slice());
        let conditions = conditions.unwrap_or_default();
        let find = |kind: &str| conditions.iter().find(|it| it.type_ == kind);
        let layers = Layer::ALL.into_iter();
        let findings = [COVERED, SWITCH_FOLLOWED].into_iter().filter_map(find);
        Self {
            layers: layers
                .filter_map(|layer| Some(LayerLine::of(layer, find(layer.condition())?)))
                .collect(),
            findings: findings
                .filter(|it| it.status == "False")
                .map(|it| it.message.clone())
                .collect(),
        }
    }
}

impl LayerLine {
    fn of(layer: Layer, condition: &Condition) -> Self {
        let (state, level) = match condition.reason.as_str() {
            _ if condition.status == "True" => ("Manages", Level::Good),
            reasons::UPSTREAM_RUNS => ("Assists", Level::Good),
            _ => ("Does not write", Level::Warn),
        };
        Self {
            component: layer.component(),
            state,
            level,
            message: condition.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_become_lines_in_the_order_of_the_layers() {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": format!("about {kind}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let policy = serde_json::from_value(json!({
            "metadata": { "name": "default" }, "spec": {},
            "status": { "conditions": [
                condition("Accepted", "True", "Accepted"),
                condition("Covered", "False", "ArchitecturesMissing"),
                condition("ManagingImports", "False", "UpstreamOperatorRuns"),
                condition("Managing", "True", "Managing"),
                condition("ManagingMachines", "False", "SetByPolicy"),
                condition("SwitchFollowed", "True", "SwitchFollowed"),
            ] },
        }));
        let ownership = Ownership::of(&policy.unwrap());
        let layers = ownership.layers.iter();
        let layers: Vec<_> = layers.map(|it| (it.component, it.state)).collect();
        assert_eq!(
            layers,
            [
                ("images-ssp", "Manages"),
                ("images-cdi", "Assists"),
                ("images-vm", "Does not write"),
            ]
        );
        assert_eq!(ownership.findings, ["about Covered"]);
    }
}
