//! The spec changes by which users approve, reject, roll back or renew a plan. CLI and console send the same patches.

mod adopt;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use api::advisor::{
    Action, ApprovalRequirement, ConsentedTakeover, Impact, Item, Phase, Rejection,
    VirtPlatformConfig, VirtPlatformConfigStatus, names,
};
use jiff::{SignedDuration, Timestamp};
use kube_core::ResourceExt as _;
use serde_json::{Value, json};

pub use adopt::{Adoption, adopt};

use crate::approval::{self, ApprovalInputs, Approvals, Progress, UnconsentedTakeover};
use crate::record::Record;
use crate::recorder::Recorder;
use crate::{conditions, plan};

/// Minimum number of digest digits that identify a plan.
///
/// As many as `docker images` prints of an id: long enough to be unique, short enough to type.
const MIN_DIGEST_DIGITS: usize = 12;

/// Why a plan cannot be approved, rejected or rolled back.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// Any other reason.
    #[error("{0}")]
    Other(String),
    /// The plan takes fields from other managers without consent.
    #[error("the plan takes fields from other managers without consent:{}", lines(.0))]
    MissingConsent(Vec<UnconsentedTakeover>),
    /// Consent names a takeover that the plan does not contain.
    #[error("{named} matches no takeover of the plan; {}", list_valid_names(.known))]
    UnknownTakeover {
        /// The named takeover.
        named: String,
        /// The takeovers of the plan.
        known: Vec<String>,
    },
}

impl PatchError {
    fn other(why: impl Into<String>) -> Self {
        Self::Other(why.into())
    }
}

fn lines(missing: &[UnconsentedTakeover]) -> String {
    let lines = missing.iter().map(|one| {
        let taken = &one.takeover;
        format!("\n  {}:{} from {}", one.item, taken.path, taken.manager)
    });
    lines.collect()
}

/// Lists the valid names, for error messages about an unknown one.
pub fn list_valid_names<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    }
}

/// The parts of a plan that the user approves.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApprovalScope<'a> {
    /// The items, to which their dependencies are added; empty for all.
    pub items: &'a [String],
    /// The fields that may be taken over, as `ITEM` or `ITEM:PATH`; an empty list for all.
    pub take_over: Option<&'a [String]>,
    /// The digest of the reviewed plan, or a prefix of it.
    pub digest: Option<&'a str>,
}

/// An approval.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanApproval {
    /// The digest of the plan.
    pub digest: String,
    /// `spec.approval.items`; empty for all.
    pub items: Vec<String>,
    /// The items to apply, with their dependencies.
    pub granted: BTreeSet<String>,
    /// Takeovers with consent.
    pub takeovers: Vec<ConsentedTakeover>,
    /// The highest impact of the plan.
    pub impact: Impact,
    /// The approvals that policies require; empty if one by any approver suffices.
    pub requirements: Vec<ApprovalRequirement>,
    /// Whether the spec approves this plan already, so that only the annotation adds an approval.
    pub joins: bool,
}

/// The plan under review, unless it is outdated.
pub fn under_review(
    config: &VirtPlatformConfig,
) -> Result<(&VirtPlatformConfigStatus, &str), PatchError> {
    let name = config.name_any();
    let status = config.status.as_ref();
    let planned = status.and_then(|status| Some((status, status.plan_digest.as_deref()?)));
    let phase = status.and_then(|status| status.phase);
    let Some((status, digest)) = planned else {
        return Err(PatchError::other(format!(
            "{name} has no plan yet{}; see `medley explain {name}`",
            phase.map_or_else(String::new, |phase| format!(": it is {phase}"))
        )));
    };
    if status.observed_generation != config.metadata.generation {
        return Err(PatchError::other(format!(
            "the specification of {name} was changed, and the plan is not up to date yet; try again in a moment"
        )));
    }
    if phase != Some(Phase::ReviewRequired) {
        return Err(PatchError::other(format!(
            "{name} has no plan under review: it is {}; see `medley explain {name}` for the next steps",
            phase.map_or("not reconciled yet", Phase::as_str)
        )));
    }
    if let Some(stale) = conditions::get(&status.conditions, conditions::PLAN_STALE)
        && stale.status == "True"
    {
        return Err(PatchError::other(format!(
            "the plan of {name} is stale: {}; run `medley plan {name} --renew` for a new one",
            stale.message
        )));
    }
    Ok((status, digest))
}

/// Builds the approval of a plan.
pub fn approve(
    config: &VirtPlatformConfig,
    choice: ApprovalScope<'_>,
) -> Result<PlanApproval, PatchError> {
    let (status, digest) = under_review(config)?;
    if let Some(requested) = choice.digest
        && !matches_digest(requested, digest)
    {
        return Err(PatchError::other(format!(
            "the plan under review is {digest}, not {requested}; {MIN_DIGEST_DIGITS} digits or more name a plan"
        )));
    }
    let items = &status.items;
    // A further approver of the same plan approves the same items and takeovers.
    let joined = config.spec.approval.as_ref().filter(|there| {
        config.spec.action == Action::Apply && there.plan_digest.as_deref() == Some(digest)
    });
    let chosen = match joined {
        Some(joined) if choice.items.is_empty() => joined.items.clone(),
        _ => choice.items.to_vec(),
    };
    let granted = approval::closure(items, &chosen).map_err(PatchError::Other)?;
    let concerned: Vec<Item> = items
        .iter()
        .filter(|item| granted.contains(&item.name))
        .cloned()
        .collect();
    let takeovers = match (choice.take_over, joined) {
        (None, Some(joined)) => joined.takeovers.clone(),
        (None, None) => Vec::new(),
        (Some(named), _) => consents(&concerned, named)?,
    };
    let missing = approval::consented(&concerned, &takeovers);
    if !missing.is_empty() && !config.spec.bypass_optimistic_lock {
        return Err(PatchError::MissingConsent(missing));
    }
    let impact = plan::worst(items).unwrap_or(Impact::Low);
    Ok(PlanApproval {
        digest: digest.to_owned(),
        items: chosen,
        granted,
        takeovers,
        impact,
        requirements: status.required_approvals.clone(),
        joins: joined.is_some(),
    })
}

/// Whether the user means this digest.
fn matches_digest(requested: &str, digest: &str) -> bool {
    let hex = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_owned();
    let (requested, digest) = (hex(requested), hex(digest));
    requested.len() >= MIN_DIGEST_DIGITS && digest.starts_with(&requested)
}

/// The takeovers of items that need consent.
pub fn takeovers(items: &[Item]) -> Vec<ConsentedTakeover> {
    approval::consented(items, &[])
        .into_iter()
        .map(|missing| ConsentedTakeover {
            item: missing.item,
            path: Some(missing.takeover.path),
            manager: Some(missing.takeover.manager),
        })
        .collect()
}

/// The consents that the user names; each has to match a takeover of the plan.
fn consents(items: &[Item], named: &[String]) -> Result<Vec<ConsentedTakeover>, PatchError> {
    let all = takeovers(items);
    if named.is_empty() {
        return Ok(all);
    }
    let mut consents = Vec::new();
    for name in named {
        let (item, path) = name
            .split_once(':')
            .map_or((name.as_str(), None), |(item, path)| (item, Some(path)));
        let consent = ConsentedTakeover {
            item: item.to_owned(),
            path: path.map(str::to_owned),
            manager: None,
        };
        let still_missing = approval::consented(items, std::slice::from_ref(&consent));
        if still_missing.len() == all.len() {
            let known = all
                .iter()
                .map(|one| format!("{}:{}", one.item, one.path.as_deref().unwrap_or_default()));
            return Err(PatchError::UnknownTakeover {
                named: name.clone(),
                known: known.collect(),
            });
        }
        // As the plan lists them, with their managers: consent is for the plan that the user was shown.
        let agreed = all.iter().filter(|one| {
            let missing = |missing: &UnconsentedTakeover| {
                missing.item == one.item && Some(&missing.takeover.path) == one.path.as_ref()
            };
            !still_missing.iter().any(missing)
        });
        consents.extend(agreed.cloned());
    }
    consents.sort_by(|a, b| (&a.item, &a.path, &a.manager).cmp(&(&b.item, &b.path, &b.manager)));
    consents.dedup();
    Ok(consents)
}

impl PlanApproval {
    /// The whole approval as one patch, so that a plan is never partly approved.
    pub fn patch(&self) -> Value {
        let list = |list: Value| {
            if list.as_array().is_some_and(Vec::is_empty) {
                Value::Null
            } else {
                list
            }
        };
        let mut patch = json!({ "spec": {
            "action": Action::Apply,
            "approval": {
                "planDigest": self.digest,
                "items": list(json!(self.items)),
                "takeovers": list(json!(self.takeovers)),
                // The latest decision counts: an approver may approve what was rejected before.
                "rejected": null,
            },
        } });
        if self.joins || !self.requirements.is_empty() {
            // Admission turns the annotation into an approval recorded for the requesting user.
            patch["metadata"]["annotations"][names::APPROVE] = json!(self.digest);
        }
        patch
    }

    /// Why the approved plan is not applied yet, if it needs more approvals. The requirements are those in status; the
    /// operator may know of others by the time it decides.
    pub fn held(
        &self,
        config: &VirtPlatformConfig,
        recorder: &Recorder,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        let annotation = |name| config.annotations().get(name).map(String::as_str);
        let approvals = Approvals::parse(annotation(names::APPROVALS))?;
        let status = config.status.clone().unwrap_or_default();
        let gate = ApprovalInputs {
            spec: &config.spec,
            items: &status.items,
            digest: &self.digest,
            impact: self.impact,
            requirements: &self.requirements,
            // An approval given just now has not expired.
            lifetime: SignedDuration::MAX,
            approvals: &approvals,
            used: &[],
            authors: &approval::authors(annotation(names::AUTHORS)),
            recorder,
            reviewed: None,
            // The patch names the plan, so that its takeovers need consent of their own.
            lists_takeovers: true,
            position: (config.metadata.generation, status.revision),
            progress: Progress::Waiting,
            now,
        };
        Ok(gate.check().err().map(|blocked| blocked.to_string()))
    }
}

/// The users who approved the plan in status so far, for each requirement.
pub fn approved_by(
    config: &VirtPlatformConfig,
    digest: &str,
) -> Vec<(ApprovalRequirement, Vec<String>)> {
    let status = config.status.clone().unwrap_or_default();
    let annotation = |name| config.annotations().get(name).map(String::as_str);
    // The operator does not count an unreadable annotation either.
    let approvals = Approvals::parse(annotation(names::APPROVALS)).unwrap_or_default();
    let authors = approval::authors(annotation(names::AUTHORS));
    let counted = |requirement: &ApprovalRequirement| {
        let mut users: BTreeSet<String> = BTreeSet::new();
        for entry in approvals.of(digest) {
            if approval::counts(requirement, entry, &authors) {
                users.insert(entry.user.clone());
            }
        }
        users.into_iter().collect()
    };
    let requirements = status.required_approvals.into_iter();
    requirements
        .map(|requirement| {
            let by = counted(&requirement);
            (requirement, by)
        })
        .collect()
}

/// The patch that rejects the plan under review.
pub fn reject(config: &VirtPlatformConfig, reason: Option<&str>) -> Result<Value, PatchError> {
    let (_, digest) = under_review(config)?;
    let rejected = Rejection {
        plan_digest: digest.to_owned(),
        reason: reason.map(str::to_owned),
    };
    let mut rejected = json!(rejected);
    // The reason of an earlier rejection must not remain.
    rejected["reason"] = json!(reason);
    Ok(json!({ "spec": {
        "action": Action::DryRun,
        "approval": { "planDigest": null, "items": null, "takeovers": null, "rejected": rejected },
    } }))
}

/// The patch that requests a plan that undoes a revision and all later ones.
pub fn roll_back(config: &VirtPlatformConfig, revision: i64) -> Result<Value, PatchError> {
    let name = config.name_any();
    let status = config.status.clone().unwrap_or_default();
    if config.spec.rollback_to == Some(revision) && status.rolled_back_to == Some(revision) {
        return Err(PatchError::other(format!(
            "{name} was rolled back to before revision {revision} already; `medley rollback {name} --clear` ends that"
        )));
    }
    Ok(json!({ "spec": {
        "rollbackTo": revision,
        "action": Action::DryRun,
        "approval": withdrawn(config),
    } }))
}

/// The patch that withdraws approvals given for another plan. Rejections are kept: only an approver may remove them.
fn withdrawn(config: &VirtPlatformConfig) -> Value {
    let approval = config.spec.approval.as_ref();
    if approval.is_some_and(|it| it.rejected.is_some()) {
        json!({ "planDigest": null, "items": null, "takeovers": null })
    } else {
        Value::Null
    }
}

/// The patch that ends or cancels a rollback.
pub fn go_forward(config: &VirtPlatformConfig) -> Result<Value, PatchError> {
    if config.spec.rollback_to.is_none() {
        return Err(PatchError::other(format!(
            "{} is not being rolled back: spec.rollbackTo is not set",
            config.name_any()
        )));
    }
    // Under action Apply, the undone changes would be applied again without a review.
    Ok(json!({ "spec": {
        "rollbackTo": null,
        "action": Action::DryRun,
        "approval": withdrawn(config),
    } }))
}

/// The revision to undo, with all later ones: the requested one, or the latest in force.
pub fn revision(records: &[Record], requested: Option<i64>, name: &str) -> Result<i64, PatchError> {
    let Some(requested) = requested else {
        let last = in_force(records).last().copied();
        return last.ok_or_else(|| {
            PatchError::other(format!(
                "{name} has nothing to undo: nothing in its history is in force"
            ))
        });
    };
    if records.iter().any(|record| record.revision == requested) {
        return Ok(requested);
    }
    let known: Vec<String> = records
        .iter()
        .map(|record| record.revision.to_string())
        .collect();
    Err(PatchError::other(format!(
        "the history of {name} has no revision {requested}; {}",
        list_valid_names(&known)
    )))
}

/// The revisions that are neither rollbacks nor undone by one, oldest first.
pub fn in_force(records: &[Record]) -> Vec<i64> {
    let mut revisions: Vec<i64> = Vec::new();
    for record in records {
        match record.rollback_to {
            Some(to) => revisions.retain(|revision| *revision < to),
            None => revisions.push(record.revision),
        }
    }
    revisions
}
