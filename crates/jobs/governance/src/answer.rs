//! What people answer to a plan: the change of the specification that approves it, rejects it, takes it
//! back or makes it anew. The command line and the console write the same.

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

use crate::approval::{self, Approvals, Gate, Missing, Progress};
use crate::record::Record;
use crate::recorder::Recorder;
use crate::{conditions, plan};

/// So many digits of a digest are needed to name a plan.
const DIGITS: usize = 12;

/// Why an answer cannot be given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    /// For the reason told.
    #[error("{0}")]
    Told(String),
    /// Fields would be taken, and nobody agreed.
    #[error("the plan takes fields from other managers, and nobody agreed to that:{}", lines(.0))]
    TakesOver(Vec<Missing>),
    /// Consent is given to nothing that is taken.
    #[error("{named} is about nothing that the plan takes from others; {}", there_are(.known))]
    TakesNothing {
        /// What was named.
        named: String,
        /// What is taken.
        known: Vec<String>,
    },
}

impl Refused {
    fn told(why: impl Into<String>) -> Self {
        Self::Told(why.into())
    }
}

fn lines(missing: &[Missing]) -> String {
    let lines = missing.iter().map(|one| {
        let taken = &one.takeover;
        format!("\n  {}:{} from {}", one.item, taken.path, taken.manager)
    });
    lines.collect()
}

/// What there is, for those who asked for something else.
pub fn there_are<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    }
}

/// What somebody approves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice<'a> {
    /// The items, with those they depend on; all if there are none.
    pub items: &'a [String],
    /// The fields that may be taken from others, as `ITEM` or `ITEM:PATH`; all, if the list is empty.
    pub take_over: Option<&'a [String]>,
    /// The plan that was looked at, or the beginning of its digest.
    pub digest: Option<&'a str>,
}

/// What is approved.
#[derive(Debug, Clone, PartialEq)]
pub struct Approving {
    /// The plan.
    pub digest: String,
    /// As the specification has them; empty for all.
    pub items: Vec<String>,
    /// What is carried out.
    pub granted: BTreeSet<String>,
    /// What may be taken from others.
    pub takeovers: Vec<ConsentedTakeover>,
    /// The worst impact of the plan.
    pub impact: Impact,
    /// The approvals that policies require; empty if one is enough, by anyone.
    pub requirements: Vec<ApprovalRequirement>,
    /// Whether the specification approves this plan already, so that only the annotation adds an approval.
    pub joins: bool,
}

/// The plan that waits for an answer, if it can be answered: not one that is outdated.
pub fn under_review(
    config: &VirtPlatformConfig,
) -> Result<(&VirtPlatformConfigStatus, &str), Refused> {
    let name = config.name_any();
    let status = config.status.as_ref();
    let planned = status.and_then(|status| Some((status, status.plan_digest.as_deref()?)));
    let phase = status.and_then(|status| status.phase);
    let Some((status, digest)) = planned else {
        return Err(Refused::told(format!(
            "{name} has no plan yet{}; `medley explain {name}` says why",
            phase.map_or_else(String::new, |phase| format!(": it is {phase}"))
        )));
    };
    if status.observed_generation != config.metadata.generation {
        return Err(Refused::told(format!(
            "the specification of {name} was changed, and the plan is not up to date yet; try again in a moment"
        )));
    }
    if phase != Some(Phase::ReviewRequired) {
        return Err(Refused::told(format!(
            "{name} has no plan under review: it is {}; `medley explain {name}` says what can be done",
            phase.map_or("not looked at yet", Phase::as_str)
        )));
    }
    if let Some(stale) = conditions::get(&status.conditions, conditions::PLAN_STALE)
        && stale.status == "True"
    {
        return Err(Refused::told(format!(
            "the plan of {name} is stale: {}; `medley plan {name} --renew` makes a new one",
            stale.message
        )));
    }
    Ok((status, digest))
}

/// What is approved, if it can be.
pub fn approve(config: &VirtPlatformConfig, choice: Choice<'_>) -> Result<Approving, Refused> {
    let (status, digest) = under_review(config)?;
    if let Some(asked) = choice.digest
        && !names_digest(asked, digest)
    {
        return Err(Refused::told(format!(
            "the plan under review is {digest}, not {asked}; {DIGITS} digits or more name a plan"
        )));
    }
    let items = &status.items;
    // Whoever joins an approval that waits for more approvers approves the same.
    let joined = config.spec.approval.as_ref().filter(|there| {
        config.spec.action == Action::Apply && there.plan_digest.as_deref() == Some(digest)
    });
    let chosen = match joined {
        Some(joined) if choice.items.is_empty() => joined.items.clone(),
        _ => choice.items.to_vec(),
    };
    let granted = approval::closure(items, &chosen).map_err(Refused::Told)?;
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
        return Err(Refused::TakesOver(missing));
    }
    let impact = plan::worst(items).unwrap_or(Impact::Low);
    Ok(Approving {
        digest: digest.to_owned(),
        items: chosen,
        granted,
        takeovers,
        impact,
        requirements: status.required_approvals.clone(),
        joins: joined.is_some(),
    })
}

/// Whether somebody means this digest.
fn names_digest(asked: &str, digest: &str) -> bool {
    let hex = |text: &str| text.strip_prefix("sha256:").unwrap_or(text).to_owned();
    let (asked, digest) = (hex(asked), hex(digest));
    asked.len() >= DIGITS && digest.starts_with(&asked)
}

/// The takeovers of items that need somebody's consent.
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

/// The consents that are meant; each has to be about something that the plan takes.
fn consents(items: &[Item], named: &[String]) -> Result<Vec<ConsentedTakeover>, Refused> {
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
            return Err(Refused::TakesNothing {
                named: name.clone(),
                known: known.collect(),
            });
        }
        // As the plan lists them, with their managers: consent is for what the user was shown.
        let agreed = all.iter().filter(|one| {
            let missing = |missing: &Missing| {
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

impl Approving {
    /// Everything in one change, so that nothing is ever half approved.
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
                "rejected": null,
            },
        } });
        if self.joins || !self.requirements.is_empty() {
            // Admission turns the request into an approval in the name of the user who asks.
            patch["metadata"]["annotations"][names::APPROVE] = json!(self.digest);
        }
        patch
    }

    /// Why the plan is not applied although it is approved, if more have to approve. The requirements are those that the
    /// operator last reported; it may know of others by the time it decides.
    pub fn held(
        &self,
        config: &VirtPlatformConfig,
        recorder: &Recorder,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        let annotation = |name| config.annotations().get(name).map(String::as_str);
        let approvals = Approvals::parse(annotation(names::APPROVALS))?;
        let status = config.status.clone().unwrap_or_default();
        let gate = Gate {
            spec: &config.spec,
            items: &status.items,
            digest: &self.digest,
            impact: self.impact,
            requirements: &self.requirements,
            // An approval that was just given has not expired.
            lifetime: SignedDuration::MAX,
            approvals: &approvals,
            used: &[],
            authors: &approval::authors(annotation(names::AUTHORS)),
            recorder,
            position: (config.metadata.generation, status.revision),
            progress: Progress::Waiting,
            now,
        };
        Ok(gate.check().err().map(|withheld| withheld.to_string()))
    }
}

/// Who approved the plan in status so far, for each requirement.
pub fn approved_by(
    config: &VirtPlatformConfig,
    digest: &str,
) -> Vec<(ApprovalRequirement, Vec<String>)> {
    let status = config.status.clone().unwrap_or_default();
    let annotation = |name| config.annotations().get(name).map(String::as_str);
    // What cannot be read is no approval to the operator either.
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

/// The change that rejects the plan under review.
pub fn reject(config: &VirtPlatformConfig, reason: Option<&str>) -> Result<Value, Refused> {
    let (_, digest) = under_review(config)?;
    let rejected = Rejection {
        plan_digest: digest.to_owned(),
        reason: reason.map(str::to_owned),
    };
    let mut rejected = json!(rejected);
    // A reason of before is not the reason of this one.
    rejected["reason"] = json!(reason);
    Ok(json!({ "spec": {
        "action": Action::DryRun,
        "approval": { "planDigest": null, "items": null, "takeovers": null, "rejected": rejected },
    } }))
}

/// The change that asks for a plan that undoes a revision and all later ones.
pub fn roll_back(config: &VirtPlatformConfig, revision: i64) -> Result<Value, Refused> {
    let name = config.name_any();
    let status = config.status.clone().unwrap_or_default();
    if config.spec.rollback_to == Some(revision) && status.rolled_back_to == Some(revision) {
        return Err(Refused::told(format!(
            "{name} was rolled back to before revision {revision} already; `medley rollback {name} --clear` ends that"
        )));
    }
    Ok(json!({ "spec": {
        "rollbackTo": revision,
        "action": Action::DryRun,
        "approval": withdrawn(config),
    } }))
}

/// What takes back what was agreed to before: it was about something else. What was rejected stays so, as long
/// as nobody who may approve says otherwise.
fn withdrawn(config: &VirtPlatformConfig) -> Value {
    let approval = config.spec.approval.as_ref();
    if approval.is_some_and(|it| it.rejected.is_some()) {
        json!({ "planDigest": null, "items": null, "takeovers": null })
    } else {
        Value::Null
    }
}

/// The change that ends a rollback, or gives it up.
pub fn go_forward(config: &VirtPlatformConfig) -> Result<Value, Refused> {
    if config.spec.rollback_to.is_none() {
        return Err(Refused::told(format!(
            "{} is not being rolled back: spec.rollbackTo is not set",
            config.name_any()
        )));
    }
    // With action Apply, what was undone would be done again unseen.
    Ok(json!({ "spec": {
        "rollbackTo": null,
        "action": Action::DryRun,
        "approval": withdrawn(config),
    } }))
}

/// The revision to undo, with all later ones: the one that is asked for, or the last that is in force.
pub fn revision(records: &[Record], asked: Option<i64>, name: &str) -> Result<i64, Refused> {
    let Some(asked) = asked else {
        let last = in_force(records).last().copied();
        return last.ok_or_else(|| {
            Refused::told(format!(
                "{name} has nothing to undo: nothing in its history is in force"
            ))
        });
    };
    if records.iter().any(|record| record.revision == asked) {
        return Ok(asked);
    }
    let known: Vec<String> = records
        .iter()
        .map(|record| record.revision.to_string())
        .collect();
    Err(Refused::told(format!(
        "the history of {name} has no revision {asked}; {}",
        there_are(&known)
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
