//! The status of a PlacementPolicy.

#[cfg(test)]
mod tests;

use api::condition::ConditionContent;
use api::mode::{ModeSetting, Ownership};
use api::placement::{
    Mode, PlacementPolicy, PlacementPolicyStatus, Pods, PullSecretsMode, WEBHOOK,
};
use jiff::Timestamp;

use crate::reasons::CONDITIONS;

/// Maximum number of pods named in a message.
const MAX_NAMED: usize = 8;

/// The inputs of the status.
pub struct PolicyStatusInputs<'a> {
    /// The policy.
    pub object: &'a PlacementPolicy,
    /// Its validation errors.
    pub complaints: &'a [String],
    /// RBAC errors on reading pull secrets and service accounts, as returned by the API server.
    pub forbidden: &'a [String],
    /// Whether the MutatingWebhookConfiguration exists.
    pub admission_registered: bool,
    /// The operator mode, which the policy `default` sets for all.
    pub operator_mode: ModeSetting,
    /// Who places pods, for the policy `default`.
    pub ownership: Option<&'a Ownership>,
    /// The number of its pods whose images are being inspected.
    pub gated: usize,
    /// Its pods that no node can run, by namespace and name.
    pub held: &'a [String],
    /// The current time.
    pub now: Timestamp,
}

/// Computes the status of a policy. Transition times change only with the status of a condition.
pub fn status(facts: &PolicyStatusInputs<'_>) -> PlacementPolicyStatus {
    let before = facts.object.status.as_ref();
    let known = before
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let generation = facts.object.metadata.generation;
    let mut conditions = vec![
        ready(facts),
        admission(facts),
        held(facts),
        pull_secrets(facts),
    ];
    conditions.extend(facts.ownership.map(managing));
    debug_assert!(
        conditions
            .iter()
            .all(|condition| condition.is_among(CONDITIONS)),
        "{conditions:?}: not explained in reasons.rs"
    );
    let conditions = conditions.into_iter();
    let conditions = conditions.map(|condition| condition.condition(known, facts.now, generation));
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    PlacementPolicyStatus {
        observed_generation: generation,
        conditions: conditions.collect(),
        pods: Some(Pods {
            gated: count(facts.gated),
            held: count(facts.held.len()),
        }),
    }
}

fn ready(facts: &PolicyStatusInputs<'_>) -> ConditionContent {
    let kind = "Ready";
    if !facts.complaints.is_empty() {
        return ConditionContent::new(kind, false, "InvalidPolicy", facts.complaints.join("; "));
    }
    match facts.object.spec.mode {
        Mode::Place if facts.operator_mode != ModeSetting::Auto => ConditionContent::new(
            kind,
            true,
            "StandingBack",
            "no pod is changed, because PlacementPolicy default sets spec.operatorMode",
        ),
        Mode::Place => {
            ConditionContent::new(kind, true, "Placing", "pods are placed by this policy")
        }
        Mode::Warn => ConditionContent::new(
            kind,
            true,
            "Warning",
            "no pod is changed; clients get a warning for pods that no node can run",
        ),
        Mode::Audit => ConditionContent::new(
            kind,
            true,
            "Auditing",
            "no pod is changed; outcomes are only counted",
        ),
    }
}

fn managing(ownership: &Ownership) -> ConditionContent {
    ConditionContent::new(
        "Managing",
        ownership.manages(),
        ownership.reason,
        &ownership.message,
    )
}

fn admission(facts: &PolicyStatusInputs<'_>) -> ConditionContent {
    let kind = "AdmissionReady";
    if facts.admission_registered {
        let message = "the API server calls the placement webhook for new pods";
        return ConditionContent::new(kind, true, "Registered", message);
    }
    let message = format!(
        "MutatingWebhookConfiguration {WEBHOOK} not found: pods are scheduled to any node; run `medley webhook --register` to create it"
    );
    ConditionContent::new(kind, false, "NotRegistered", message)
}

fn pull_secrets(facts: &PolicyStatusInputs<'_>) -> ConditionContent {
    let kind = "PullSecretsReadable";
    let mode = facts.object.spec.pull_secrets.mode;
    let Some(first) = facts.forbidden.first() else {
        return match mode {
            PullSecretsMode::Pods => {
                let message =
                    "images are inspected with the pull secrets of pods and their service accounts";
                ConditionContent::new(kind, true, "Readable", message)
            }
            PullSecretsMode::Named => {
                let message = "images are inspected with the pull secrets that the policy names";
                ConditionContent::new(kind, true, "Readable", message)
            }
            PullSecretsMode::None => {
                let message = "images are inspected without pull secrets";
                ConditionContent::new(kind, true, "NotRead", message)
            }
        };
    };
    let more = match facts.forbidden.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let remedy = match mode {
        PullSecretsMode::Named => {
            "grant them by Roles (`medley manifests --only rbac --pull-secrets NAMESPACE/NAME`)"
        }
        PullSecretsMode::Pods | PullSecretsMode::None => {
            "grant get on Secrets and ServiceAccounts (`medley manifests --pull-secrets pods`), or set spec.pullSecrets.mode to Named or None"
        }
    };
    let message =
        format!("private images are inspected without their pull secrets: {first}{more}; {remedy}");
    ConditionContent::new(kind, false, "Forbidden", message)
}

fn held(facts: &PolicyStatusInputs<'_>) -> ConditionContent {
    let kind = "NothingHeld";
    if facts.held.is_empty() {
        let message = "no pod waits for a node that runs its images";
        return ConditionContent::new(kind, true, "NothingHeld", message);
    }
    let mut names: Vec<&str> = facts.held.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(MAX_NAMED);
    let more = match facts.held.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "no node runs the images of {} pods: {}{more}",
        facts.held.len(),
        names.join(", ")
    );
    ConditionContent::new(kind, false, "PodsHeld", message)
}
