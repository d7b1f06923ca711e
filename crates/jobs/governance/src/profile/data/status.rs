//! The status of a PlatformProfile.

use std::collections::BTreeMap;

use api::condition::ConditionContent;
use api::profile::{Finding, PlatformProfile, PlatformProfileStatus, READY};
use api::rbac::rule;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::DataProfile;

/// What is known about a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileFacts<'a> {
    /// The object.
    pub object: &'a PlatformProfile,
    /// What the static check found.
    pub findings: &'a [Finding],
    /// The profile, if it has no errors.
    pub profile: Option<&'a DataProfile>,
    /// What the operator may not do of what the profile needs.
    pub denied: &'a [ResourceAttributes],
    /// The current time.
    pub now: Timestamp,
}

/// The status; its condition Ready says whether configurations can use the profile.
pub fn status(facts: &ProfileFacts<'_>) -> PlatformProfileStatus {
    let generation = facts.object.metadata.generation;
    let missing = rules_of(facts.denied);
    let known = facts.object.status.clone().unwrap_or_default().conditions;
    let ready = ready(facts, &missing);
    debug_assert!(
        ready.is_among(crate::reasons::CONDITIONS),
        "{} is not explained in reasons.rs",
        ready.reason
    );
    PlatformProfileStatus {
        observed_generation: generation,
        conditions: vec![ready.condition(&known, facts.now, generation)],
        hash: Some(crate::hash::content_hash(&facts.object.spec)),
        findings: facts.findings.to_vec(),
        required_rules: facts.profile.map(DataProfile::rules).unwrap_or_default(),
        missing_rules: missing,
    }
}

fn ready(facts: &ProfileFacts<'_>, missing: &[PolicyRule]) -> ConditionContent {
    let errors: Vec<&Finding> = facts.findings.iter().filter(|it| it.error).collect();
    if let Some(first) = errors.first() {
        let others = match errors.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more in status.findings)"),
        };
        let message = format!("{}: {}{others}", first.path, first.message);
        return ConditionContent::new(READY, false, "Invalid", message);
    }
    if missing.is_empty() {
        let message = "Configurations can use the profile";
        return ConditionContent::new(READY, true, "Ready", message);
    }
    let lines: Vec<String> = missing.iter().map(described).collect();
    let message = format!(
        "The operator may not {}. An administrator has to grant it: `medley profile render --rbac` writes the ClusterRole.",
        lines.join(", nor ")
    );
    ConditionContent::new(READY, false, "PermissionsMissing", message)
}

fn described(rule: &PolicyRule) -> String {
    let group = rule.api_groups.iter().flatten().next();
    let resources = rule.resources.clone().unwrap_or_default().join(", ");
    let dot = group.filter(|group| !group.is_empty());
    let group = dot.map(|group| format!(".{group}")).unwrap_or_default();
    format!("{} {resources}{group}", rule.verbs.join(", "))
}

/// Denied actions as rules that would allow them.
fn rules_of(denied: &[ResourceAttributes]) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for one in denied {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let of = (text(&one.group), text(&one.resource));
        verbs.entry(of).or_default().extend(one.verb.as_deref());
    }
    let rules = verbs.into_iter();
    rules
        .map(|((group, resource), verbs)| rule(&group, &[&resource], &verbs))
        .collect()
}
