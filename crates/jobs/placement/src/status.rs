//! The status of a policy.

#[cfg(test)]
mod tests;

use api::condition::Said;
use api::placement::{
    Mode, PlacementPolicy, PlacementPolicyStatus, Pods, PullSecretsMode, WEBHOOK,
};
use jiff::Timestamp;

use crate::words::CONDITIONS;

/// How many pods are named at most.
const NAMED: usize = 8;

/// What the status follows from.
pub struct Facts<'a> {
    /// The policy.
    pub object: &'a PlacementPolicy,
    /// What in it makes no sense.
    pub complaints: &'a [String],
    /// Pull secrets and service accounts that RBAC keeps the operator from, as the API server says it.
    pub forbidden: &'a [String],
    /// Whether the API server asks before pods are made.
    pub admission_registered: bool,
    /// How many pods of it wait for somebody to look at their images.
    pub gated: usize,
    /// Those of its pods that no node runs, by namespace and name.
    pub held: &'a [String],
    /// When.
    pub now: Timestamp,
}

/// The status of a policy. Times move when something does.
pub fn status(facts: &Facts<'_>) -> PlacementPolicyStatus {
    let before = facts.object.status.as_ref();
    let known = before
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let generation = facts.object.metadata.generation;
    let conditions = [
        ready(facts),
        admission(facts),
        held(facts),
        pull_secrets(facts),
    ];
    debug_assert!(
        conditions.iter().all(|said| said.is_among(CONDITIONS)),
        "{conditions:?}: not explained in words.rs"
    );
    let conditions = conditions.map(|said| said.condition(known, facts.now, generation));
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    PlacementPolicyStatus {
        observed_generation: generation,
        conditions: conditions.into(),
        pods: Some(Pods {
            gated: count(facts.gated),
            held: count(facts.held.len()),
        }),
    }
}

fn ready(facts: &Facts<'_>) -> Said {
    let kind = "Ready";
    if !facts.complaints.is_empty() {
        return Said::new(kind, false, "InvalidPolicy", facts.complaints.join("; "));
    }
    match facts.object.spec.mode {
        Mode::Place => Said::new(kind, true, "Placing", "pods are placed as the policy says"),
        Mode::Warn => Said::new(
            kind,
            true,
            "Warning",
            "no pod is changed; who makes one that runs nowhere is warned",
        ),
        Mode::Audit => Said::new(kind, true, "Auditing", "no pod is changed; it is counted"),
    }
}

fn admission(facts: &Facts<'_>) -> Said {
    let kind = "AdmissionReady";
    if facts.admission_registered {
        let message = "the API server asks before pods are made";
        return Said::new(kind, true, "Registered", message);
    }
    let message = format!(
        "there is no MutatingWebhookConfiguration {WEBHOOK}: pods go to any node; `medley webhook --register` makes it"
    );
    Said::new(kind, false, "NotRegistered", message)
}

fn pull_secrets(facts: &Facts<'_>) -> Said {
    let kind = "PullSecretsReadable";
    let mode = facts.object.spec.pull_secrets.mode;
    let Some(first) = facts.forbidden.first() else {
        return match mode {
            PullSecretsMode::Pods => {
                let message =
                    "images are inspected with the pull secrets of pods and their service accounts";
                Said::new(kind, true, "Readable", message)
            }
            PullSecretsMode::Named => {
                let message = "images are inspected with the pull secrets that the policy names";
                Said::new(kind, true, "Readable", message)
            }
            PullSecretsMode::None => {
                let message = "images are inspected without pull secrets";
                Said::new(kind, true, "NotRead", message)
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
    Said::new(kind, false, "Forbidden", message)
}

fn held(facts: &Facts<'_>) -> Said {
    let kind = "NothingHeld";
    if facts.held.is_empty() {
        let message = "no pod waits for a node that runs its images";
        return Said::new(kind, true, "NothingHeld", message);
    }
    let mut names: Vec<&str> = facts.held.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(NAMED);
    let more = match facts.held.len().saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "no node runs the images of {} pods: {}{more}",
        facts.held.len(),
        names.join(", ")
    );
    Said::new(kind, false, "PodsHeld", message)
}
