//! The status of the ReleasePolicy: Medley's own verdict.

use std::fmt::Write as _;

use api::reasons::has_condition;
use api::release::{Mode, OperatorState, ReleasePolicyStatus, TargetRelease};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::evaluation::ClusterEvaluation;
use super::{ReleaseInputs, owner, rows};
use crate::conditions::{ConditionState, accepted};
use crate::failure::Reason;
use crate::reasons::CONDITIONS;

/// Maximum number of operators named in a message.
const MAX_NAMED: usize = 8;

/// Condition types.
const PAYLOAD: &str = "PayloadReady";
const COMPLETE: &str = "Complete";
const PROGRESSING: &str = "Progressing";
const FAILING: &str = "Failing";
const AGREES: &str = "Agrees";
const KEEPS: &str = "KeepsClusterVersion";

/// A condition of the policy.
struct PolicyCondition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn condition_of(
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> PolicyCondition {
    debug_assert!(
        has_condition(CONDITIONS, kind, status, reason),
        "{kind}={status} {reason} is not explained in reasons.rs"
    );
    PolicyCondition {
        kind,
        status,
        reason,
        message: message.into(),
    }
}

fn status_text(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

impl PolicyCondition {
    fn condition(self, facts: &ReleaseInputs<'_>, before: &ReleasePolicyStatus) -> Condition {
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

/// The status without a release to evaluate. Recorded durations are kept.
pub(super) fn absent(
    facts: &ReleaseInputs<'_>,
    before: &ReleasePolicyStatus,
) -> ReleasePolicyStatus {
    let (reason, message) = if facts.installed {
        (
            "NoClusterVersion",
            "ClusterVersion version not found: the release of the cluster is unknown; no restart is needed once it exists",
        )
    } else {
        (
            "KindsNotInstalled",
            "the kinds ClusterVersion and ClusterOperator of config.openshift.io are not installed: there is no release to evaluate; no restart is needed once they are",
        )
    };
    let all = [PAYLOAD, COMPLETE, PROGRESSING, FAILING, AGREES, KEEPS];
    ReleasePolicyStatus {
        observed_generation: facts.policy.metadata.generation,
        conditions: all
            .map(|kind| condition_of(kind, "Unknown", reason, message).condition(facts, before))
            .into(),
        history: before.history.clone(),
        ..ReleasePolicyStatus::default()
    }
}

/// The status of an evaluated release.
pub(super) fn status(
    facts: &ReleaseInputs<'_>,
    before: &ReleasePolicyStatus,
    judged: &ClusterEvaluation<'_>,
    keeps: bool,
) -> ReleasePolicyStatus {
    let operators = rows::rows(judged);
    let no_operators: &[OperatorState] = &[];
    let same = before.target.as_ref().map(|it| it.image.as_str());
    // Durations are recorded when an operator leaves its wait; rows of another release would end waits that never
    // began.
    let known = if same == Some(judged.release.image.as_str()) {
        before.operators.as_slice()
    } else {
        no_operators
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
        conditions: conditions.map(|it| it.condition(facts, before)).into(),
        target: target(judged),
        progress: rows::progress(judged, &operators),
        pools: judged.pools.clone(),
        history: rows::history(&past, &operators, facts.now),
        operators,
    }
}

fn target(judged: &ClusterEvaluation<'_>) -> Option<TargetRelease> {
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

fn payload(facts: &ReleaseInputs<'_>, judged: &ClusterEvaluation<'_>) -> PolicyCondition {
    match (&judged.trouble, judged.loaded) {
        (Some(trouble), _) => condition_of(PAYLOAD, "False", trouble.kind.word(), &trouble.message),
        (None, Some(loaded)) => {
            let claim = accepted(
                &loaded.payload.metadata.version,
                &loaded.image,
                architecture(facts, judged),
            );
            let odd = loaded.warnings.iter().map(|it| format!("; {it}"));
            let message = claim.message + &odd.collect::<String>();
            condition_of(PAYLOAD, "True", claim.reason, message)
        }
        (None, None) => condition_of(
            PAYLOAD,
            "Unknown",
            "NoRelease",
            "the release of the cluster is unknown",
        ),
    }
}

/// The architecture of a release, as the cluster-version operator names it.
pub(super) fn architecture<'a>(
    facts: &ReleaseInputs<'a>,
    judged: &ClusterEvaluation<'_>,
) -> &'a str {
    match judged.loaded {
        Some(loaded) if loaded.payload.metadata.is_multi() => "Multi",
        _ => facts.architecture,
    }
}

fn unknown(kind: &'static str) -> PolicyCondition {
    let message = "unknown without the files of the release";
    condition_of(kind, "Unknown", "PayloadNotReady", message)
}

fn complete(judged: &ClusterEvaluation<'_>, rows: &[OperatorState]) -> PolicyCondition {
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
        return condition_of(COMPLETE, "True", "Arrived", message);
    }
    match &judged.failure {
        Some(failure) => {
            let mut message = failure.to_string();
            let missing = missing(rows);
            if !missing.is_empty() {
                message = format!("{message}: {missing}");
            }
            let late = judged.pools.iter().filter(|it| !it.done);
            if failure.reason() == Reason::Pool {
                for pool in late {
                    message = format!("{message}; {}: {}", pool.name, pool.message);
                }
            }
            condition_of(COMPLETE, "False", failure.word(), message)
        }
        None => condition_of(COMPLETE, "False", "Installing", missing(rows)),
    }
}

/// The operators with the versions they have not reported.
fn missing(rows: &[OperatorState]) -> String {
    let undone = rows.iter().flat_map(|row| {
        let all = row.undone.iter();
        all.map(|it| format!("{} has not reported {} {}", row.name, it.name, it.to))
    });
    let all: Vec<String> = undone.collect();
    let named = all.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

fn claimed(
    kind: &'static str,
    judged: &ClusterEvaluation<'_>,
    of: impl Fn(&crate::conditions::ProgressConditions) -> &ConditionState,
) -> PolicyCondition {
    let Some(claims) = &judged.claims else {
        return unknown(kind);
    };
    let claim = of(claims);
    let reason = match (claim.reason, claim.status, kind) {
        ("", "True", PROGRESSING) => "Updating",
        ("", ..) => "AsExpected",
        (reason, ..) => reason,
    };
    condition_of(kind, claim.status, reason, claim.message.clone())
}

fn agrees(judged: &ClusterEvaluation<'_>, rows: &[OperatorState], keeps: bool) -> PolicyCondition {
    let version = &judged.release.version;
    if keeps {
        let message = "Medley maintains the ClusterVersion itself";
        return condition_of(AGREES, "True", "Own", message);
    }
    if judged.loaded.is_none() {
        return unknown(AGREES);
    }
    match (judged.claimed, judged.complete) {
        // A failure after completion is not an early claim, and one that the ClusterVersion reports is its own verdict.
        (true, false) if judged.completed.is_none() && !is_reported(judged) => {
            let mut why = missing(rows);
            if why.is_empty() {
                why = judged
                    .failure
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
            }
            let message = format!(
                "the cluster version operator claims that {version} is complete, but it is not: {why}"
            );
            condition_of(AGREES, "False", "ClaimedEarly", message)
        }
        // The cluster-version operator wakes up for changes of the version named `operator` only, so it finds the end
        // of a migration at its next periodic pass, minutes later.
        (false, true) => {
            let message = format!(
                "all operators have arrived at {version}, and the cluster version operator has not noticed yet"
            );
            condition_of(AGREES, "False", "NotNoticed", message)
        }
        _ => {
            let message = "the cluster version operator reports the same";
            condition_of(AGREES, "True", "Agrees", message)
        }
    }
}

/// Whether the ClusterVersion itself reports what blocks completion, and nothing else is missing.
fn is_reported(judged: &ClusterEvaluation<'_>) -> bool {
    let own = judged
        .evaluation
        .as_ref()
        .and_then(|it| it.failure.as_ref());
    let failure = judged.failure.as_ref();
    own.is_none() && failure.is_some_and(|it| it.reason() == Reason::ClusterVersion)
}

fn kept(facts: &ReleaseInputs<'_>, keeps: bool) -> PolicyCondition {
    if facts.policy.spec.mode == Mode::Observe {
        let mut message =
            "spec.mode is Observe: Medley does not write the ClusterVersion".to_owned();
        if let Some(running) = &facts.owners.operator {
            let _ = write!(message, "; {running}");
        }
        return condition_of(KEEPS, "False", "Observing", message);
    }
    // Another manager before missing permissions: granting those would make both write.
    if !keeps {
        let message = owner::foreign_owner(facts.owners);
        return condition_of(KEEPS, "False", "ForeignOwner", message);
    }
    if let Some(why) = facts.forbidden {
        let message = format!(
            "spec.mode is Own, but RBAC forbids writing the status of ClusterVersion version: {why}; apply deploy/optional/release-owner.yaml to grant it"
        );
        return condition_of(KEEPS, "False", "Forbidden", message);
    }
    let message = "Medley maintains the status of ClusterVersion version";
    condition_of(KEEPS, status_text(true), "Own", message)
}
