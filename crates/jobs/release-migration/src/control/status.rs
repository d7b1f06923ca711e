//! The status of the policy: Medley's own verdict.

use api::release::{Mode, OperatorState, ReleasePolicyStatus, TargetRelease};
use api::words::says;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::judge::Judged;
use super::{Facts, rows};
use crate::conditions::{Claim, accepted};
use crate::history::Change;
use crate::words::CONDITIONS;

/// How many operators are named at most.
const NAMED: usize = 8;

/// The types of the conditions.
const PAYLOAD: &str = "PayloadReady";
const COMPLETE: &str = "Complete";
const PROGRESSING: &str = "Progressing";
const FAILING: &str = "Failing";
const AGREES: &str = "Agrees";
const KEEPS: &str = "KeepsClusterVersion";

/// What a condition says.
struct Said {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn said(
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> Said {
    debug_assert!(
        says(CONDITIONS, kind, status, reason),
        "{kind}={status} {reason} is not explained in words.rs"
    );
    Said {
        kind,
        status,
        reason,
        message: message.into(),
    }
}

fn yes(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

impl Said {
    fn condition(self, facts: &Facts<'_>, before: &ReleasePolicyStatus) -> Condition {
        let mut known = before.conditions.iter();
        let same = known.find(|it| it.type_ == self.kind && it.status == self.status);
        Condition {
            type_: self.kind.to_owned(),
            status: self.status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            last_transition_time: same
                .map_or_else(|| Time(facts.now), |same| same.last_transition_time.clone()),
            observed_generation: facts.policy.metadata.generation,
        }
    }
}

/// What is said where there is nothing to judge. What was learnt of operators is kept.
pub(super) fn absent(facts: &Facts<'_>, before: &ReleasePolicyStatus) -> ReleasePolicyStatus {
    let (reason, message) = if facts.installed {
        (
            "NoClusterVersion",
            "there is no ClusterVersion version: nobody says which release the cluster runs; it is picked up when it comes",
        )
    } else {
        (
            "KindsNotInstalled",
            "the kinds ClusterVersion and ClusterOperator of config.openshift.io are not installed: there is no release to judge; they are picked up when they come",
        )
    };
    let all = [PAYLOAD, COMPLETE, PROGRESSING, FAILING, AGREES, KEEPS];
    ReleasePolicyStatus {
        observed_generation: facts.policy.metadata.generation,
        conditions: all
            .map(|kind| said(kind, "Unknown", reason, message).condition(facts, before))
            .into(),
        history: before.history.clone(),
        ..ReleasePolicyStatus::default()
    }
}

/// What is said of what was judged.
pub(super) fn status(
    facts: &Facts<'_>,
    before: &ReleasePolicyStatus,
    judged: &Judged<'_>,
    keeps: bool,
) -> ReleasePolicyStatus {
    let operators = rows::rows(judged);
    let nobody: &[OperatorState] = &[];
    let same = before.target.as_ref().map(|it| it.image.as_str());
    let known = if same == Some(judged.release.image.as_str()) {
        before.operators.as_slice()
    } else {
        nobody
    };
    let past = ReleasePolicyStatus {
        operators: known.to_vec(),
        history: before.history.clone(),
        ..ReleasePolicyStatus::default()
    };
    let conditions = [
        payload(facts, judged),
        complete(judged, &operators),
        claimed(PROGRESSING, judged, |it| &it.progressing),
        claimed(FAILING, judged, |it| &it.failing),
        agrees(judged, &operators, keeps),
        kept(facts, keeps),
    ];
    ReleasePolicyStatus {
        observed_generation: facts.policy.metadata.generation,
        conditions: conditions.map(|said| said.condition(facts, before)).into(),
        target: target(judged),
        progress: rows::progress(judged, &operators),
        pools: judged.pools.clone(),
        history: rows::history(&past, &operators, facts.now),
        operators,
    }
}

fn target(judged: &Judged<'_>) -> Option<TargetRelease> {
    if judged.release.image.is_empty() {
        return None;
    }
    let loaded = judged.loaded;
    let version = loaded.map_or(&judged.release.version, |it| &it.payload.metadata.version);
    let is_multi = loaded.map_or(judged.release.architecture == "Multi", |it| {
        it.payload.metadata.is_multi()
    });
    Some(TargetRelease {
        version: version.clone(),
        image: judged.release.image.clone(),
        architecture: is_multi.then(|| "Multi".to_owned()),
        change: Some(judged.change.word().to_owned()),
        started_time: judged.started.map(Time),
        completion_time: judged.completed.map(Time),
    })
}

fn payload(facts: &Facts<'_>, judged: &Judged<'_>) -> Said {
    match (&judged.trouble, judged.loaded) {
        (Some(trouble), _) => said(PAYLOAD, "False", trouble.kind.word(), &trouble.message),
        (None, Some(loaded)) => {
            let claim = accepted(
                &loaded.payload.metadata.version,
                &loaded.image,
                architecture(facts, judged),
            );
            let odd = loaded.warnings.iter().map(|it| format!("; {it}"));
            let message = claim.message + &odd.collect::<String>();
            said(PAYLOAD, "True", claim.reason, message)
        }
        (None, None) => said(PAYLOAD, "Unknown", "NoRelease", "nobody says which release"),
    }
}

/// For what machines a release is, as the cluster version operator names it.
pub(super) fn architecture<'a>(facts: &Facts<'a>, judged: &Judged<'_>) -> &'a str {
    match judged.loaded {
        Some(loaded) if loaded.payload.metadata.is_multi() => "Multi",
        _ => facts.architecture,
    }
}

fn unknown(kind: &'static str) -> Said {
    let message = "the files of the release are not there, so that nobody knows";
    said(kind, "Unknown", "PayloadNotReady", message)
}

fn complete(judged: &Judged<'_>, rows: &[OperatorState]) -> Said {
    let Some(loaded) = judged.loaded else {
        return unknown(COMPLETE);
    };
    let version = &loaded.payload.metadata.version;
    if judged.complete {
        let message = format!(
            "all {} operators have arrived at {version}; {}",
            rows.len(),
            loaded.adoption
        );
        return said(COMPLETE, "True", "Arrived", message);
    }
    match &judged.failure {
        Some(failure) => {
            let mut message = failure.to_string();
            let missing = missing(rows);
            if !missing.is_empty() {
                message = format!("{message}: {missing}");
            }
            let late = judged.pools.iter().filter(|it| !it.done);
            if failure.reason() == crate::failure::Reason::Pool {
                for pool in late {
                    message = format!("{message}; {}: {}", pool.name, pool.message);
                }
            }
            said(COMPLETE, "False", failure.word(), message)
        }
        None => said(COMPLETE, "False", "Installing", missing(rows)),
    }
}

/// Who has not reported what.
fn missing(rows: &[OperatorState]) -> String {
    let undone = rows.iter().flat_map(|row| {
        let all = row.undone.iter();
        all.map(|it| format!("{} has not reported {} {}", row.name, it.name, it.to))
    });
    let all: Vec<String> = undone.collect();
    let named = all.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

fn claimed(
    kind: &'static str,
    judged: &Judged<'_>,
    of: impl Fn(&crate::conditions::Claims) -> &Claim,
) -> Said {
    let Some(claims) = &judged.claims else {
        return unknown(kind);
    };
    let claim = of(claims);
    let reason = match (claim.reason, claim.status, kind) {
        ("", "True", PROGRESSING) => "Updating",
        ("", ..) => "AsExpected",
        (reason, ..) => reason,
    };
    said(kind, claim.status, reason, claim.message.clone())
}

fn agrees(judged: &Judged<'_>, rows: &[OperatorState], keeps: bool) -> Said {
    let version = &judged.release.version;
    if keeps {
        let message = "Medley keeps the ClusterVersion itself";
        return said(AGREES, "True", "Own", message);
    }
    if judged.loaded.is_none() {
        return unknown(AGREES);
    }
    match (judged.claimed, judged.complete) {
        // What went wrong after it had arrived was not claimed too early.
        (true, false) if judged.completed.is_none() => {
            let mut why = missing(rows);
            if why.is_empty() {
                why = judged
                    .failure
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
            }
            let message = format!(
                "the cluster version operator says that {version} is complete, but it is not: {why}"
            );
            said(AGREES, "False", "ClaimedEarly", message)
        }
        (false, true) if judged.change != Change::Install => {
            let message = format!(
                "all operators have arrived at {version}, and the cluster version operator has not noticed yet"
            );
            said(AGREES, "False", "NotNoticed", message)
        }
        _ => {
            let message = "the cluster version operator says the same";
            said(AGREES, "True", "Agrees", message)
        }
    }
}

fn kept(facts: &Facts<'_>, keeps: bool) -> Said {
    if facts.policy.spec.mode == Mode::Observe {
        let message = "spec.mode is Observe: Medley looks on and writes no ClusterVersion";
        return said(KEEPS, "False", "Observing", message);
    }
    if !keeps {
        let owners: Vec<&str> = facts.owners.of_status.iter().map(String::as_str).collect();
        let message = format!(
            "spec.mode is Own, but the managed fields of ClusterVersion version say that {} keeps its status: Medley writes nothing there; set spec.mode to Observe, or have the other one stop and take its entry out of metadata.managedFields",
            owners.join(", ")
        );
        return said(KEEPS, "False", "ForeignOwner", message);
    }
    if let Some(why) = facts.forbidden {
        let message = format!(
            "spec.mode is Own, but Medley may not write the status of ClusterVersion version: {why}; deploy/optional/release-owner.yaml has the right"
        );
        return said(KEEPS, "False", "Forbidden", message);
    }
    let message = "Medley keeps the status of ClusterVersion version";
    said(KEEPS, yes(true), "Own", message)
}
