//! The status of a ClusterVersion that Medley maintains, with the reasons and messages of the cluster-version operator.

use api::openshift::{ClusterVersion, ClusterVersionStatus, Condition};
use api::reasons::has_condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use machinery::json::go_quote;

use super::ReleaseInputs;
use super::evaluation::ClusterEvaluation;
use super::status::architecture;
use crate::conditions::{ConditionState, accepted, refused};
use crate::reasons::KEPT;
use crate::target::INVALID;

/// Computes the whole status.
pub(super) fn status(
    facts: &ReleaseInputs<'_>,
    version: &ClusterVersion,
    judged: &ClusterEvaluation<'_>,
) -> ClusterVersionStatus {
    // Based on the live status: fields that this version does not know, such as conditional updates, are kept.
    let mut status = version.status.clone().unwrap_or_default();
    // A release that could not be loaded must not erase the one that runs.
    if !judged.release.image.is_empty() {
        status.desired = judged.release.clone();
    }
    status.history.clone_from(&judged.history);
    status.observed_generation = version.metadata.generation.unwrap_or_default();
    let hash = judged.loaded.map(|it| it.hash.clone());
    let known = status.rest.entry("versionHash".to_owned());
    // The CRD requires one.
    let known = known.or_insert_with(|| "".into());
    if let Some(hash) = hash {
        *known = hash.into();
    }
    let conditions = &mut status.conditions;
    let mut put =
        |kind: &str, claim: Option<ConditionState>| set(conditions, kind, claim, facts.now);
    put("Invalid", invalid(facts));
    put(
        "ImplicitlyEnabledCapabilities",
        Some(claim(
            "False",
            "AsExpected",
            "Capabilities match configured spec",
        )),
    );
    put("ReleaseAccepted", Some(release_accepted(facts, judged)));
    if !facts.owners.of_updates {
        put("RetrievedUpdates", Some(retrieved(facts, version)));
    }
    put("Upgradeable", not_upgradeable(facts, version));
    if let Some(claims) = &judged.claims {
        if let Some(available) = &claims.available {
            put("Available", Some(available.clone()));
        }
        put("Failing", Some(claims.failing.clone()));
        put("Progressing", Some(claims.progressing.clone()));
    }
    if Condition::find(&status.conditions, "Available").is_none() {
        let conditions = &mut status.conditions;
        set(
            conditions,
            "Available",
            Some(claim("False", "", "")),
            facts.now,
        );
    }
    if !facts.owners.of_updates {
        let updates = facts.aim.updates.clone();
        status.available_updates = (!updates.is_empty()).then_some(updates);
    }
    status
}

fn claim(status: &'static str, reason: &'static str, message: impl Into<String>) -> ConditionState {
    ConditionState {
        status,
        reason,
        message: message.into(),
    }
}

/// Sets or removes a condition. Its transition time changes only with its status.
fn set(conditions: &mut Vec<Condition>, kind: &str, claim: Option<ConditionState>, now: Timestamp) {
    let Some(claim) = claim else {
        conditions.retain(|it| it.kind != kind);
        return;
    };
    debug_assert!(
        has_condition(KEPT, kind, claim.status, claim.reason),
        "{kind}={} {} is not explained in reasons.rs",
        claim.status,
        claim.reason
    );
    if Condition::find(conditions, kind).is_none() {
        conditions.push(Condition {
            kind: kind.to_owned(),
            ..Condition::default()
        });
    }
    for condition in conditions.iter_mut().filter(|it| it.kind == kind) {
        set_claim(condition, &claim, now);
    }
}

fn set_claim(condition: &mut Condition, claim: &ConditionState, now: Timestamp) {
    if condition.status != claim.status {
        claim.status.clone_into(&mut condition.status);
        condition.last_transition_time = Some(Time(now));
    }
    claim.reason.clone_into(&mut condition.reason);
    condition.message.clone_from(&claim.message);
}

fn invalid(facts: &ReleaseInputs<'_>) -> Option<ConditionState> {
    let why = facts.aim.invalid?;
    let request = facts.version?.spec.desired_update.clone()?;
    let whole = serde_json::to_string(&request).unwrap_or_default();
    let field = why.field();
    let value = match field {
        "spec.desiredUpdate.version" => go_quote(&request.version),
        _ => whole,
    };
    Some(claim(
        "True",
        INVALID,
        format!("The cluster version is invalid: {field}: Invalid value: {value}: {why}"),
    ))
}

fn release_accepted(facts: &ReleaseInputs<'_>, judged: &ClusterEvaluation<'_>) -> ConditionState {
    let request = facts.aim.wanted.clone().unwrap_or_default();
    match (&judged.trouble, judged.loaded) {
        (Some(trouble), _) => refused(
            trouble.kind.step(),
            &request.version,
            &request.image,
            &trouble.message,
        ),
        (None, Some(loaded)) => accepted(
            &loaded.payload.metadata.version,
            &loaded.image,
            architecture(facts, judged),
        ),
        (None, None) => claim(
            "Unknown",
            "RetrievePayload",
            "the release of the cluster is unknown",
        ),
    }
}

/// The available updates are those stored in the cluster.
fn retrieved(facts: &ReleaseInputs<'_>, version: &ClusterVersion) -> ConditionState {
    if facts.aim.unknown.is_some() {
        let current = version.status.as_ref().map(|it| it.desired.version.clone());
        let channel = version.spec.channel.as_deref().unwrap_or_default();
        let message = format!(
            "currently reconciling cluster version {} not found in the {} channel",
            current.unwrap_or_default(),
            go_quote(channel)
        );
        return claim("False", "VersionNotFound", message);
    }
    claim("True", "", "")
}

/// Why minor updates are blocked; the condition is absent if they are not.
fn not_upgradeable(facts: &ReleaseInputs<'_>, version: &ClusterVersion) -> Option<ConditionState> {
    let mut risks: Vec<(&'static str, String)> = Vec::new();
    if version.spec.overrides.iter().any(|it| it.unmanaged) {
        let message = "Disabling ownership via cluster version overrides prevents updates between minor or major versions. Please remove overrides before requesting a minor or major version update.";
        risks.push(("ClusterVersionOverridesSet", message.to_owned()));
    }
    for (name, operator) in facts.operators {
        let upgradeable = operator.condition("Upgradeable").filter(|it| it.is_false());
        if let Some(upgradeable) = upgradeable {
            let message = format!(
                "Cluster operator {name} should not be upgraded between minor versions: {}",
                upgradeable.message
            );
            risks.push(("ClusterOperatorsNotUpgradeable", message));
        }
    }
    match risks.as_slice() {
        [] => None,
        [(reason, message)] => Some(claim("False", reason, message.clone())),
        several => {
            let messages: Vec<&str> = several.iter().map(|(_, it)| it.as_str()).collect();
            let message = format!(
                "Cluster should not be upgraded between minor or major versions for multiple reasons:\n* {}",
                messages.join("\n* ")
            );
            Some(claim("False", "MultipleReasons", message))
        }
    }
}
