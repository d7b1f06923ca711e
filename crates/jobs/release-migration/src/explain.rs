//! Why it is with an operator as it is, and what would help.

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
use crate::evidence::{Arrival, Evidence, Running};

/// What is known of an operator.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What it is called.
    pub name: &'a str,
    /// What it says of itself, if it is there.
    pub actual: Option<&'a ClusterOperator>,
    /// What it has to say, if the release is known. Else only what it says can be told.
    pub expected: Option<&'a ClusterOperator>,
    /// What its pods run.
    pub running: &'a [Running],
    /// What that means, if the release is known.
    pub evidence: Option<&'a Evidence>,
    /// The time.
    pub now: Timestamp,
}

/// Why it is with an operator as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What it is called.
    pub operator: String,
    /// How it is.
    pub state: String,
    /// Why.
    pub because: Vec<String>,
    /// What would help.
    pub next: Vec<String>,
}

/// Explains an operator.
pub fn explain(facts: &Facts<'_>) -> Explanation {
    let name = facts.name;
    let mut because = Vec::new();
    let mut next = Vec::new();
    let Some(actual) = facts.actual else {
        return Explanation {
            operator: name.to_owned(),
            state: format!("{name} is not there"),
            because: vec!["there is no ClusterOperator of this name".to_owned()],
            next: vec![
                "see whether its operator runs, which makes it; `kubectl get clusteroperators` lists those that are there".to_owned(),
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
        if !is_good && kind != "Progressing" {
            next.push(format!(
                "it has to say {kind}={good} before anything else counts: read its message, and the log of its operator"
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
                ", as the release wants"
            } else {
                ""
            };
            because.push(format!("{} is {}{end}", version.name, version.version));
        }
    }
    for undone in &undone {
        let diagnosis = diagnose(undone, facts.running);
        next.push(help(name, diagnosis.mismatch));
        because.push(diagnosis.to_string());
    }
    let reports = actual.version(OPERATOR_IMAGE).is_some();
    if !reports {
        because.push(format!(
            "it does not report {OPERATOR_IMAGE}: that its version is right says nothing about what runs"
        ));
    }
    because.extend(facts.evidence.map(told).into_iter().flatten());
    let arrival = facts.evidence.map(|it| it.arrival);
    let state = match (is_well, undone.is_empty(), arrival) {
        (false, ..) => format!("{name} holds the release up: it is not well"),
        (true, false, _) => format!("{name} is on its way"),
        (true, true, Some(Arrival::Rolling)) => {
            next.push(
                "wait for its pods; the cluster does not, and may claim to be done".to_owned(),
            );
            format!("{name} says to have arrived, but its pods have not")
        }
        (true, true, _) if facts.expected.is_none() => format!(
            "{name} is well; whether it has arrived is only known with the release (--release)"
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
        return format!("{kind} is not said");
    };
    let since = found
        .last_transition_time
        .as_ref()
        .map(|it| format!(" since {}", human_duration(now.duration_since(it.0))));
    let mut text = format!("{kind}={}{}", found.status, since.unwrap_or_default());
    for said in [&found.reason, &found.message] {
        if !said.is_empty() {
            text.push_str(": ");
            text.push_str(said);
        }
    }
    text
}

fn told(evidence: &Evidence) -> Vec<String> {
    let mut told = Vec::new();
    match evidence.arrival {
        Arrival::NothingRuns => {
            told.push("no pod belongs to it, as far as its relatedObjects say".to_owned());
        }
        _ if evidence.stale.is_empty() => told.push(format!(
            "{} containers of it run, all with images of the release",
            evidence.containers
        )),
        _ => {
            for it in &evidence.stale {
                told.push(format!(
                    "container {} of pod {}/{} runs {}, which is not of the release",
                    it.container, it.namespace, it.pod, it.image
                ));
            }
        }
    }
    for pod in &evidence.unready {
        told.push(format!("pod {pod} is not ready"));
    }
    told
}

fn help(name: &str, mismatch: Mismatch) -> String {
    let text = match mismatch {
        Mismatch::OtherVersion | Mismatch::OtherImage if name == MACHINE_CONFIG => {
            "wait for the machines of the control plane: `medley release status` shows them"
        }
        Mismatch::OtherVersion | Mismatch::OtherImage | Mismatch::StalePod => {
            "wait; an operator may take 20 minutes"
        }
        Mismatch::NotReported => {
            "see whether the operator of the new release runs and has the flag or variable that tells it"
        }
        Mismatch::OtherPlace => {
            "use a release that was rewritten for the registry (medley release mirror), or none that was"
        }
        Mismatch::TagForm | Mismatch::NotBuilt | Mismatch::NoImage => {
            "mend the flag or variable that tells the operator its image: the release has a pull specification by digest for it"
        }
        Mismatch::WantedTagForm => {
            "build the release anew with images by digest; medley release lint finds such"
        }
    };
    text.to_owned()
}
