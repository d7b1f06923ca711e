//! Where a pod can go and why, for people.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use machinery::patch::merge_difference;
use serde::Serialize;
use serde_json::{Value, json};

use crate::change::Moment;
use crate::cluster::Cluster;
use crate::decide::{Decision, Leave, decide};
use crate::fit::Demand;
use crate::images::{Knowledge, Used, images};
use crate::remedy::{Remedy, remedies};
use crate::settings::{RuntimeClass, Settings};

/// A decision, and what led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// In a word.
    pub decision: &'static str,
    /// In a sentence.
    pub summary: String,
    /// What is known of its images.
    pub images: Vec<String>,
    /// Every kind of node that there is.
    pub places: Vec<PlaceExplained>,
    /// What would make it fit, if it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// What is added to the spec of the pod, as a merge patch; none if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Value>,
}

/// A kind of node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceExplained {
    /// What it offers.
    pub place: String,
    /// How many nodes do.
    pub nodes: usize,
    /// Whether all images run there.
    pub runs: bool,
    /// What is wrong, if not.
    pub why: Vec<String>,
}

/// Explains what becomes of a pod. `classes` are the RuntimeClasses of the cluster, by name.
pub fn explain(
    pod: &Value,
    known: &BTreeMap<String, Knowledge>,
    classes: &BTreeMap<String, RuntimeClass>,
    cluster: &Cluster,
    settings: &Settings,
) -> Explanation {
    let decision = decide(pod, known, classes, cluster, settings);
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let used = images(spec);
    let given = match &decision {
        Decision::Place(placement) => placement.runtime_class.as_deref(),
        _ => None,
    };
    let asked = spec.get("runtimeClassName").and_then(Value::as_str);
    let class = asked.and_then(|name| classes.get(name)).or_else(|| {
        let offered = settings.offered.iter();
        offered
            .clone()
            .find(|class| Some(class.name.as_str()) == given)
    });
    let demand = Demand::new(&used, known, settings);
    let places: Vec<PlaceExplained> = cluster
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
            PlaceExplained {
                place: place.to_string(),
                nodes,
                runs: why.is_empty(),
                why,
            }
        })
        .collect();
    let (word, summary) = told(&decision, &places);
    Explanation {
        decision: word,
        summary,
        images: used.iter().map(|used| image(used, known)).collect(),
        places,
        remedies: match &decision {
            Decision::NoFit(no_fit) => remedies(pod, no_fit, classes, cluster, settings),
            _ => Vec::new(),
        },
        change: change(&decision, pod),
    }
}

fn told(decision: &Decision, places: &[PlaceExplained]) -> (&'static str, String) {
    match decision {
        Decision::Leave(why) => ("LeftAlone", left(*why).to_owned()),
        Decision::Ask(unknown) => {
            let unknown: Vec<&str> = unknown.iter().map(|used| used.image.as_str()).collect();
            let all = unknown.join(", ");
            ("NotKnown", format!("nobody looked yet what {all} is for"))
        }
        Decision::Place(placement) => {
            let sum = |all: &mut dyn Iterator<Item = &PlaceExplained>| -> usize {
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

/// Why a pod is left alone, in a sentence.
pub(crate) fn left(why: Leave) -> &'static str {
    match why {
        Leave::HasNode => "it has a node already",
        Leave::Mirror => "a kubelet made it from a file",
        Leave::SwitchedOff => "it is annotated to be left alone",
        Leave::OneNode => "it is for one node by name, and its images run there",
        Leave::NothingToTell => "none of its images says what it is for",
    }
}

fn image(used: &Used, known: &BTreeMap<String, Knowledge>) -> String {
    let told = match known.get(&used.image) {
        None => "not looked at".to_owned(),
        Some(Knowledge::Anywhere) => "runs nothing, so that any node will do".to_owned(),
        Some(Knowledge::Uninspectable(why)) => format!("cannot be looked at: {}", why.message),
        Some(Knowledge::Platforms(platforms)) => {
            let all: Vec<String> = platforms
                .written()
                .iter()
                .map(ToString::to_string)
                .collect();
            format!("for {}", all.join(", "))
        }
    };
    format!("{} ({}): {told}", used.image, used.by)
}

fn change(decision: &Decision, pod: &Value) -> Option<Value> {
    let Decision::Place(placement) = decision else {
        return None;
    };
    let mut changed = pod.clone();
    placement.write(&mut changed, Moment::Admission).then(|| {
        let spec = |pod: &Value| json!({ "spec": pod.get("spec") });
        merge_difference(&spec(pod), &spec(&changed))
    })
}
