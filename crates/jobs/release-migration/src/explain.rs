//! Explains the state of an operator and the next steps.

#[cfg(test)]
mod tests;

use api::openshift::ClusterOperator;
use jiff::Timestamp;
use machinery::time::human_duration;
use serde::Serialize;

use crate::adoption::OPERATOR_IMAGE;
use crate::conditions::MACHINE_CONFIG;
use crate::diagnose::{Mismatch, diagnose};
use crate::evaluate::undone;
use crate::evidence::{Arrival, Evidence, PodImage};

/// The inputs of an explanation.
#[derive(Debug, Clone, Copy)]
pub struct OperatorInputs<'a> {
    /// The name of the operator.
    pub name: &'a str,
    /// The live ClusterOperator, if it exists.
    pub actual: Option<&'a ClusterOperator>,
    /// The ClusterOperator of the release, if the release is known. Without it only reported values can be shown.
    pub expected: Option<&'a ClusterOperator>,
    /// The images of its pods.
    pub running: &'a [PodImage],
    /// Their rollout state, if the release is known.
    pub evidence: Option<&'a Evidence>,
    /// The current time.
    pub now: Timestamp,
}

/// The explanation of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name of the operator.
    pub operator: String,
    /// Its state.
    pub state: String,
    /// The reasons.
    pub because: Vec<String>,
    /// The next steps.
    pub next: Vec<String>,
}

/// Explains an operator.
pub fn explain(facts: &OperatorInputs<'_>) -> Explanation {
    let name = facts.name;
    let mut because = Vec::new();
    let mut next = Vec::new();
    let Some(actual) = facts.actual else {
        return Explanation {
            operator: name.to_owned(),
            state: format!("{name} is not there"),
            because: vec!["there is no ClusterOperator of this name".to_owned()],
            next: vec![
                "check that its operator runs, which creates it; `kubectl get clusteroperators` lists the existing ones".to_owned(),
            ],
        };
    };
    for (kind, good) in [
        ("Available", "True"),
        ("Degraded", "False"),
        ("Progressing", "False"),
    ] {
        because.push(condition(actual, kind, facts.now));
        let is_good = actual.condition(kind).is_some_and(|it| it.status == good);
        // Progressing never blocks a release.
        if !is_good && kind != "Progressing" {
            next.push(format!(
                "it has to report {kind}={good} first: see its message, and the log of its operator"
            ));
        }
    }
    let is_well = next.is_empty();
    let undone = facts
        .expected
        .map(|expected| undone(expected, Some(actual)))
        .unwrap_or_default();
    for version in actual.versions() {
        let wrong = undone.iter().any(|it| it.name == version.name);
        if !wrong {
            let wanted = facts.expected.and_then(|it| it.version(&version.name));
            let end = if wanted.is_some() {
                ", as the release expects"
            } else {
                ""
            };
            because.push(format!("{} is {}{end}", version.name, version.version));
        }
    }
    for undone in &undone {
        let diagnosis = diagnose(undone, facts.running);
        next.push(suggest(name, diagnosis.mismatch));
        because.push(diagnosis.to_string());
    }
    let reports = actual.version(OPERATOR_IMAGE).is_some();
    if !reports {
        because.push(format!(
            "it does not report {OPERATOR_IMAGE}: its version alone does not prove which image runs"
        ));
    }
    because.extend(facts.evidence.map(describe_evidence).into_iter().flatten());
    let arrival = facts.evidence.map(|it| it.arrival);
    let state = match (is_well, undone.is_empty(), arrival) {
        (false, ..) => format!("{name} holds the release up: it is not well"),
        (true, false, _) => format!("{name} is on its way"),
        // Before the operator's own claim: pods are the better witness.
        (true, true, Some(Arrival::Rolling)) => {
            next.push(
                "wait for its pods; the cluster-version operator does not, and may claim completion early".to_owned(),
            );
            format!("{name} claims to have arrived, but its pods have not")
        }
        (true, true, _) if facts.expected.is_none() => format!(
            "{name} is healthy; whether it has arrived is only known with the release (--release)"
        ),
        (true, true, Some(Arrival::Starting)) => {
            format!("{name} has arrived, but not all of its pods are ready")
        }
        (true, true, Some(Arrival::Arrived)) => {
            format!("{name} has arrived, and so have its pods")
        }
        (true, true, _) if reports => format!("{name} has arrived"),
        _ => format!("{name} has arrived by its version alone"),
    };
    Explanation {
        operator: name.to_owned(),
        state,
        because,
        next,
    }
}

fn condition(operator: &ClusterOperator, kind: &str, now: Timestamp) -> String {
    let Some(found) = operator.condition(kind) else {
        return format!("{kind} is not reported");
    };
    let since = found
        .last_transition_time
        .as_ref()
        .map(|it| format!(" since {}", human_duration(now.duration_since(it.0))));
    let mut text = format!("{kind}={}{}", found.status, since.unwrap_or_default());
    for text_part in [&found.reason, &found.message] {
        if !text_part.is_empty() {
            text.push_str(": ");
            text.push_str(text_part);
        }
    }
    text
}

fn describe_evidence(evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    match evidence.arrival {
        Arrival::NothingRuns => {
            lines.push("no pod belongs to its relatedObjects".to_owned());
        }
        _ if evidence.stale.is_empty() => lines.push(format!(
            "{} containers of it run, all with images of the release",
            evidence.containers
        )),
        _ => {
            for it in &evidence.stale {
                lines.push(format!(
                    "container {} of pod {}/{} runs {}, which is not of the release",
                    it.container, it.namespace, it.pod, it.image
                ));
            }
        }
    }
    for pod in &evidence.unready {
        lines.push(format!("pod {pod} is not ready"));
    }
    lines
}

fn suggest(name: &str, mismatch: Mismatch) -> String {
    let text = match mismatch {
        Mismatch::OtherVersion | Mismatch::OtherImage if name == MACHINE_CONFIG => {
            "wait for the control plane nodes: `medley release status` shows them"
        }
        Mismatch::OtherVersion | Mismatch::OtherImage | Mismatch::StalePod => {
            "wait; an operator may take 20 minutes"
        }
        Mismatch::NotReported => {
            "check that the operator of the new release runs and has the flag or variable with the image"
        }
        Mismatch::OtherPlace => {
            "use a release that was rewritten for the registry (medley release mirror), or none that was"
        }
        Mismatch::TagForm | Mismatch::NotBuilt | Mismatch::NoImage => {
            "correct the flag or variable with the image of the operator: the release has a pull specification by digest for it"
        }
        Mismatch::WantedTagForm => {
            "rebuild the release with images by digest; medley release lint finds others"
        }
    };
    text.to_owned()
}
