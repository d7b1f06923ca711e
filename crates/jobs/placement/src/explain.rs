//! Explains where a pod can run, and why.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use machinery::patch::merge_difference;
use serde::Serialize;
use serde_json::{Value, json};

use crate::change::ChangeStage;
use crate::cluster::Cluster;
use crate::decide::{Decision, LeaveReason, decide};
use crate::fit::Demand;
use crate::images::{ImageUse, Inspection, images};
use crate::policy::Skip;
use crate::remedy::{Remedy, remedies};
use crate::settings::{RuntimeClass, Settings};

/// Decision for a pod that is not changed.
const LEFT_ALONE: &str = "LeftAlone";

/// A placement decision and its grounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// CamelCase decision.
    pub decision: &'static str,
    /// One-sentence summary.
    pub summary: String,
    /// What is known about each image of the pod.
    pub images: Vec<String>,
    /// Each node platform in the cluster.
    pub places: Vec<PlatformExplanation>,
    /// How to make the pod fit, if it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// The merge patch for the spec of the pod; none if it is not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Value>,
}

/// A node platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformExplanation {
    /// The platform.
    pub place: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// Whether all images run there.
    pub runs: bool,
    /// Why not, per image.
    pub why: Vec<String>,
}

/// Explains the placement decision for a pod, with the settings of its policy, or why it has none. `classes` are the
/// RuntimeClasses of the cluster, by name.
pub fn explain(
    pod: &Value,
    known: &BTreeMap<String, Inspection>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: Result<&Settings, Skip>,
) -> Explanation {
    // A pod that is left alone is still explained on each platform.
    let default = Settings::default();
    let (settings, skip) = match settings {
        Ok(settings) => (settings, None),
        Err(skip) => (&default, Some(skip)),
    };
    let decision = decide(pod, known, classes, cluster, settings);
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let used = images(spec);
    let given = match &decision {
        Decision::Place(placement) => placement.runtime_class.as_deref(),
        _ => None,
    };
    let requested = spec.get("runtimeClassName").and_then(Value::as_str);
    let class = requested.and_then(|name| classes.get(name)).or_else(|| {
        let offered = settings.offered.iter();
        offered
            .clone()
            .find(|class| Some(class.name.as_str()) == given)
    });
    let demand = Demand::new(&used, known, settings);
    let places: Vec<PlatformExplanation> = cluster
        .places()
        .map(|(place, nodes)| {
            let mut why: Vec<String> = Vec::new();
            for runtime in cluster.runtimes_of(place) {
                let misfits = demand.misfits(place, runtime, class);
                why.extend(misfits.into_iter().map(|(used, unfit)| {
                    format!("image {} of {} is for {unfit}", used.image, used.by)
                }));
            }
            why.dedup();
            PlatformExplanation {
                place: place.to_string(),
                nodes,
                runs: why.is_empty(),
                why,
            }
        })
        .collect();
    let (reason, summary) = match skip {
        Some(skip) => (LEFT_ALONE, skip.describe().to_owned()),
        None => summarize(&decision, &places),
    };
    Explanation {
        decision: reason,
        summary,
        images: used.iter().map(|used| image(used, known)).collect(),
        places,
        remedies: match &decision {
            Decision::NoFit(no_fit) if skip.is_none() => {
                remedies(pod, no_fit, classes, cluster, settings)
            }
            _ => Vec::new(),
        },
        change: change(&decision, pod).filter(|_| skip.is_none()),
    }
}

fn summarize(decision: &Decision, places: &[PlatformExplanation]) -> (&'static str, String) {
    match decision {
        Decision::Leave(why) => (LEFT_ALONE, describe_leave(*why).to_owned()),
        Decision::Ask(unknown) => {
            let unknown: Vec<&str> = unknown.iter().map(|used| used.image.as_str()).collect();
            let all = unknown.join(", ");
            (
                "NotKnown",
                format!("the platforms of {all} are not inspected yet"),
            )
        }
        Decision::Place(placement) => {
            let sum = |all: &mut dyn Iterator<Item = &PlatformExplanation>| -> usize {
                all.map(|place| place.nodes).sum()
            };
            let good = sum(&mut places.iter().filter(|place| place.runs));
            let all = sum(&mut places.iter());
            let class = placement.runtime_class.as_ref();
            let class = class.map_or_else(String::new, |class| {
                format!(", with the runtime class {class}")
            });
            (
                "Placed",
                format!("its images run on {good} of {all} nodes{class}"),
            )
        }
        Decision::NoFit(no_fit) => (no_fit.shortfall.reason(), no_fit.to_string()),
    }
}

/// Why a pod is left unchanged, as a sentence.
pub(crate) fn describe_leave(why: LeaveReason) -> &'static str {
    match why {
        LeaveReason::HasNode => "it is already bound to a node",
        LeaveReason::Mirror => "it is the mirror of a static pod",
        LeaveReason::SwitchedOff => "it is annotated to opt out of placement",
        LeaveReason::OneNode => "it is for one node by name, and its images run there",
        LeaveReason::NoPlatformConstraint => "none of its images restricts the platform",
    }
}

fn image(used: &ImageUse, known: &BTreeMap<String, Inspection>) -> String {
    let text = match known.get(&used.image) {
        None => "not inspected".to_owned(),
        Some(Inspection::Anywhere) => "contains nothing to run: any node fits".to_owned(),
        Some(Inspection::Uninspectable(why)) => format!("cannot be inspected: {}", why.message),
        Some(Inspection::Platforms(platforms)) => {
            let all: Vec<String> = platforms
                .written()
                .iter()
                .map(ToString::to_string)
                .collect();
            format!("for {}", all.join(", "))
        }
    };
    format!("{} ({}): {text}", used.image, used.by)
}

fn change(decision: &Decision, pod: &Value) -> Option<Value> {
    let Decision::Place(placement) = decision else {
        return None;
    };
    let mut changed = pod.clone();
    placement
        .write(&mut changed, ChangeStage::Admission)
        .then(|| {
            let spec = |pod: &Value| json!({ "spec": pod.get("spec") });
            merge_difference(&spec(pod), &spec(&changed))
        })
}
