//! Whether a plan may be applied, and which items of it.
//!
//! The model, explained in `docs/security.md`: an approval is for a digest, the digest covers every input of the
//! execution ([`crate::hash::plan_digest`]), admission records the approvers, policies outside of the configuration set
//! their number, and one approval lets one plan run once.

mod record;
mod requirement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::advisor::{
    Action, ApprovalRequirement, ConsentedTakeover, Impact, Item, Takeover, VirtPlatformConfigSpec,
    names,
};
use jiff::{SignedDuration, Timestamp};

pub use record::{Approvals, Entry, Unplanned, record};
pub use requirement::{Floor, OWN, Policy, needed};

use crate::recorder::Recorder;

/// A plan that may be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovedPlan {
    /// The items to apply.
    pub items: BTreeSet<String>,
    /// The approvals it is based on; the history entry of the run uses them up.
    pub approvals: Vec<Entry>,
    /// The takeovers with consent: those listed in the specification, or all of the plan.
    pub consent: Vec<ConsentedTakeover>,
}

impl ApprovedPlan {
    /// The names of the approvers.
    pub fn users(&self) -> Vec<String> {
        self.approvals
            .iter()
            .map(|entry| entry.user.clone())
            .collect()
    }
}

/// A takeover without consent.
#[derive(Debug, Clone, PartialEq)]
pub struct UnconsentedTakeover {
    /// The item.
    pub item: String,
    /// The takeover.
    pub takeover: Takeover,
}

impl fmt::Display for UnconsentedTakeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, takeover } = self;
        let Takeover { path, manager, .. } = takeover;
        write!(
            f,
            "item '{item}' would take {path} from manager \"{manager}\""
        )
    }
}

/// Why a plan is not applied, and what would unblock it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApprovalBlocker {
    /// `spec.action` is not Apply.
    #[error("Plan ready for review. Change action to 'Apply' to execute.")]
    NotRequested,
    /// The plan was rejected.
    #[error(
        "The plan was rejected{}. Change its options, or remove spec.approval.rejected.",
        .reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    )]
    Rejected {
        /// The reason given.
        reason: Option<String>,
    },
    /// Another plan was approved.
    #[error(
        "The plan {approved} was approved, but it is {now} now. Review it and set \
         spec.approval.planDigest to {now}."
    )]
    OtherPlan {
        /// The approved digest.
        approved: String,
        /// The digest of the plan.
        now: String,
    },
    /// `spec.approval.items` names an unknown item.
    #[error("{0}. Correct spec.approval.items.")]
    UnknownItem(String),
    /// The plan takes fields from other managers without consent.
    #[error(
        "The plan takes fields from other managers without consent: {}. List them in \
         spec.approval.takeovers, or make the managers give them up. Where no policy requires approvals, setting action \
         to 'DryRun' and, after the review, to 'Apply' consents as well.",
        listed(.0)
    )]
    TakeoverWithoutConsent(Vec<UnconsentedTakeover>),
    /// Approvals are required, and the webhook that records them is not trustworthy.
    #[error(
        "A plan of {impact} impact needs {need} approvals, but approvals are not recorded: {why}. Repair \
         the admission webhook, or lower the requirement."
    )]
    Unverifiable {
        /// The required number.
        need: u32,
        /// The impact that requires them.
        impact: Impact,
        /// What is wrong with the webhook.
        why: String,
    },
    /// A selected ApprovalPolicy is invalid.
    #[error("{0}. Correct the policy: until then no plan that it selects is applied.")]
    InvalidPolicy(String),
    /// Approvals by authors do not count, and no author is on record.
    #[error(
        "A plan of {impact} impact needs {need} approvals by others than its authors, but no author is \
         recorded. Set action to 'DryRun' while the admission webhook runs, or let authors approve."
    )]
    AuthorUnknown {
        /// The required number.
        need: u32,
        /// The impact that requires them.
        impact: Impact,
    },
    /// No approval of this plan is on record.
    #[error(
        "No approval of the plan {digest} is recorded: it was made after action was set to 'Apply', or its \
         approval has expired. Review it, then run `medley approve`, annotate the configuration with \
         {}={digest}, or set action to 'DryRun' and to 'Apply' again.",
        names::APPROVE
    )]
    NotReviewed {
        /// The digest to approve.
        digest: String,
    },
    /// Too few approvals.
    #[error(
        "A plan of {impact} impact needs {} approvals ({}{}), and has {have}{}{}{}. To approve, annotate the \
         configuration with {}={digest}.",
        .requirement.approvals,
        .requirement.source,
        of_groups(.requirement),
        by_whom(.by),
        if *.author_excluded { "; that of an author does not count" } else { "" },
        if *.expired > 0 { format!("; {expired} expired") } else { String::new() },
        names::APPROVE
    )]
    TooFewApprovals {
        /// The number of approvals that count.
        have: usize,
        /// The requirement that is not met.
        requirement: ApprovalRequirement,
        /// The impact that requires them.
        impact: Impact,
        /// The users whose approvals count.
        by: Vec<String>,
        /// Whether an author approved, which does not count.
        author_excluded: bool,
        /// The number of expired approvals of the plan.
        expired: usize,
        /// The digest to approve.
        digest: String,
    },
}

impl ApprovalBlocker {
    /// The condition reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRequested => "NotRequested",
            Self::Rejected { .. } => "Rejected",
            Self::OtherPlan { .. } => "OtherPlanApproved",
            Self::UnknownItem(_) => "UnknownItem",
            Self::TakeoverWithoutConsent(_) => "TakeoverWithoutConsent",
            Self::Unverifiable { .. } => "ApprovalsNotRecorded",
            Self::InvalidPolicy(_) => "InvalidPolicy",
            Self::NotReviewed { .. } => "NotReviewed",
            Self::AuthorUnknown { .. } => "AuthorUnknown",
            Self::TooFewApprovals { .. } => "TooFewApprovals",
        }
    }
}

fn listed(missing: &[UnconsentedTakeover]) -> String {
    let listed: Vec<_> = missing.iter().map(ToString::to_string).collect();
    listed.join("; ")
}

fn of_groups(requirement: &ApprovalRequirement) -> String {
    if requirement.groups.is_empty() {
        String::new()
    } else {
        format!(", by members of {}", requirement.groups.join(" or "))
    }
}

fn by_whom(by: &[String]) -> String {
    if by.is_empty() {
        String::new()
    } else {
        format!(" (by {})", by.join(", "))
    }
}

/// The approved items with their dependencies; all if none are named.
pub fn closure(items: &[Item], approved: &[String]) -> Result<BTreeSet<String>, String> {
    let known: BTreeMap<&str, &Item> = items
        .iter()
        .map(|item| (item.name.as_str(), item))
        .collect();
    if approved.is_empty() {
        return Ok(known.keys().map(|name| (*name).to_owned()).collect());
    }
    if let Some(unknown) = approved
        .iter()
        .find(|name| !known.contains_key(name.as_str()))
    {
        let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
        return Err(format!(
            "The plan has no item '{unknown}'; it has {}",
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        ));
    }
    let mut closed = BTreeSet::new();
    let mut open: Vec<&str> = approved.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        // A dependency that is already in force is no item of the plan.
        if let Some(item) = known.get(name)
            && closed.insert(name.to_owned())
        {
            open.extend(item.depends_on.iter().map(String::as_str));
        }
    }
    Ok(closed)
}

/// Reads the annotation [`names::AUTHORS`]; no authors if it is missing or unreadable.
pub fn authors(annotation: Option<&str>) -> BTreeSet<String> {
    annotation
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The takeovers without consent. Taking back a field that was ours needs none.
pub fn consented(items: &[Item], consent: &[ConsentedTakeover]) -> Vec<UnconsentedTakeover> {
    let mut missing = Vec::new();
    for item in items {
        for takeover in &item.takeovers {
            let agreed = takeover.reclaimed
                || consent.iter().any(|consent| {
                    let manager = consent.manager.as_deref();
                    consent.item == item.name
                        && manager.is_none_or(|manager| manager == takeover.manager)
                        && consent
                            .path
                            .as_deref()
                            .is_none_or(|path| covers(path, &takeover.path))
                });
            if !agreed {
                missing.push(UnconsentedTakeover {
                    item: item.name.clone(),
                    takeover: takeover.clone(),
                });
            }
        }
    }
    missing
}

/// Consent to exactly the takeovers that items list.
fn all_takeovers(items: &[Item]) -> Vec<ConsentedTakeover> {
    let of_item = |item: &Item| {
        let name = item.name.clone();
        let takeovers = item
            .takeovers
            .iter()
            .map(move |takeover| ConsentedTakeover {
                item: name.clone(),
                path: Some(takeover.path.clone()),
                manager: Some(takeover.manager.clone()),
            });
        takeovers.collect::<Vec<_>>()
    };
    items.iter().flat_map(of_item).collect()
}

/// Whether a path is the field, or contains it.
fn covers(path: &str, field: &str) -> bool {
    field
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether the approval of this user counts towards a requirement.
pub fn counts(
    requirement: &ApprovalRequirement,
    entry: &Entry,
    authors: &BTreeSet<String>,
) -> bool {
    let excluded = requirement.authors_excluded && authors.contains(&entry.user);
    let mut groups = requirement.groups.iter();
    let member = requirement.groups.is_empty() || groups.any(|group| entry.groups.contains(group));
    !excluded && member
}

/// A plan, and everything that decides whether it may be applied.
#[derive(Clone, Copy)]
pub struct ApprovalInputs<'a> {
    /// The configuration's specification.
    pub spec: &'a VirtPlatformConfigSpec,
    /// The items of the plan.
    pub items: &'a [Item],
    /// `status.planDigest`.
    pub digest: &'a str,
    /// The impact of the whole plan.
    pub impact: Impact,
    /// The approvals that policies require.
    pub requirements: &'a [ApprovalRequirement],
    /// The lifetime of an approval.
    pub lifetime: SignedDuration,
    /// Recorded approvals.
    pub approvals: &'a Approvals,
    /// Approvals used up by the open history entry: they count for the plan of that entry only.
    pub used: &'a [Entry],
    /// Users who requested the plan or changed the fields it is derived from.
    pub authors: &'a BTreeSet<String>,
    /// Whether admission records approvals.
    pub recorder: &'a Recorder,
    /// `status.reviewedDigest`: the plan that was reviewed before the action was set to Apply, where admission does not
    /// record that.
    pub reviewed: Option<&'a str>,
    /// Whether takeovers have to be listed in the specification ([`Floor::lists_takeovers`]).
    pub lists_takeovers: bool,
    /// `metadata.generation` and `status.revision` of the configuration.
    pub position: (Option<i64>, Option<i64>),
    /// The progress of the plan.
    pub progress: Progress,
    /// The current time.
    pub now: Timestamp,
}

/// The progress of a plan that is to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No item has begun.
    Waiting,
    /// Items have begun. Approvals no longer expire: a half-applied plan is worse than a late one.
    Begun,
    /// It reverts drift, to which `bypassOptimisticLock` consents permanently.
    Correction,
}

impl ApprovalInputs<'_> {
    /// Whether the plan may be applied, and which items of it.
    ///
    /// `bypassOptimisticLock` implies consent to every takeover. It replaces neither approvals nor the digest:
    /// otherwise an editor could set it to approve alone.
    pub fn check(&self) -> Result<ApprovedPlan, ApprovalBlocker> {
        if self.spec.action != Action::Apply {
            return Err(ApprovalBlocker::NotRequested);
        }
        let approval = self.spec.approval.clone().unwrap_or_default();
        // Before the approved digest: if the spec both approves and rejects a plan, the rejection counts.
        if let Some(rejected) = approval.rejected
            && rejected.plan_digest == self.digest
        {
            return Err(ApprovalBlocker::Rejected {
                reason: rejected.reason,
            });
        }
        if let Some(approved) = approval.plan_digest
            && approved != self.digest
        {
            return Err(ApprovalBlocker::OtherPlan {
                approved,
                now: self.digest.to_owned(),
            });
        }
        let items = closure(self.items, &approval.items).map_err(ApprovalBlocker::UnknownItem)?;
        let consent = if self.approval_consents() {
            all_takeovers(self.items)
        } else {
            approval.takeovers
        };
        if !self.spec.bypass_optimistic_lock {
            let mut missing = consented(self.items, &consent);
            missing.retain(|missing| items.contains(&missing.item));
            if !missing.is_empty() {
                return Err(ApprovalBlocker::TakeoverWithoutConsent(missing));
            }
        }
        let approvals = self.approved_by()?;
        Ok(ApprovedPlan {
            items,
            approvals,
            consent,
        })
    }

    /// Whether the approval of the plan is consent to the takeovers that it lists.
    ///
    /// This is so for a plain `action: Apply` after the review of exactly this plan: with a `spec.approval` that names
    /// the plan or takeovers, its author has chosen to which they consent. A plan that was made after the action was set
    /// was not reviewed. Where a policy governs the plan, takeovers are consented to one by one.
    fn approval_consents(&self) -> bool {
        let approval = self.spec.approval.as_ref();
        let is_plain = approval
            .is_none_or(|approval| approval.plan_digest.is_none() && approval.takeovers.is_empty());
        // What the status records counts only where admission does not: there, it knows the user, too.
        let is_reviewed = !self.valid().is_empty()
            || !self.recorder.is_trusted()
                && !self.digest.is_empty()
                && self.reviewed == Some(self.digest);
        is_plain && !self.lists_takeovers && is_reviewed
    }

    /// The approvals on which the plan may be applied.
    fn approved_by(&self) -> Result<Vec<Entry>, ApprovalBlocker> {
        let impact = self.impact;
        let need = self.requirements.iter().map(|one| one.approvals).max();
        if need.is_none() && !self.recorder.is_trusted() {
            // Without a recorder the webhook does not check the verb `approve` either: everyone who can edit the
            // configuration can apply it. This is an installation without the webhook, by choice of its administrator.
            return Ok(Vec::new());
        }
        let mut counting: BTreeMap<&str, &Entry> = BTreeMap::new();
        for requirement in self.requirements {
            let need = requirement.approvals;
            // No recorded author does not mean no author: the object may be older than the webhook. If every approval
            // counted then, an author could approve alone. Without a trusted recorder the check below has the better
            // message.
            if requirement.authors_excluded && self.authors.is_empty() && self.recorder.is_trusted()
            {
                return Err(ApprovalBlocker::AuthorUnknown { need, impact });
            }
            // Counted before the recorder is judged: approvals in the history entry were verified when the plan began,
            // and suffice to finish it although the webhook is gone by now.
            let counted = self.counted(requirement);
            if counted.len() < need as usize
                && let Recorder::Untrusted(why) = self.recorder
            {
                return Err(ApprovalBlocker::Unverifiable {
                    need,
                    impact,
                    why: why.clone(),
                });
            }
            if counted.len() < need as usize {
                let by: Vec<_> = counted.iter().map(|entry| entry.user.clone()).collect();
                let mut all = self.of_plan();
                return Err(ApprovalBlocker::TooFewApprovals {
                    have: by.len(),
                    requirement: requirement.clone(),
                    impact,
                    author_excluded: requirement.authors_excluded
                        && all.any(|entry| self.authors.contains(&entry.user)),
                    expired: self.of_plan().filter(|entry| self.expired(entry)).count(),
                    by,
                    digest: self.digest.to_owned(),
                });
            }
            counting.extend(
                counted
                    .into_iter()
                    .map(|entry| (entry.user.as_str(), entry)),
            );
        }
        if need.is_some() {
            return Ok(counting.into_values().cloned().collect());
        }
        // Where no policy requires approvals, one by any approver suffices; but there has to be one.
        let valid: Vec<Entry> = self.valid().into_iter().cloned().collect();
        if !valid.is_empty() {
            return Ok(valid);
        }
        let (generation, revision) = self.position;
        let mut used = self.used.iter();
        let used = used.find(|entry| {
            let bound = entry.unplanned;
            bound.is_some_and(|bound| Some(bound.generation) == generation)
        });
        let unplanned = used.or_else(|| self.approvals.unplanned(generation, revision));
        if let Some(unplanned) = unplanned.filter(|entry| !self.expired(entry)) {
            return Ok(vec![unplanned.clone()]);
        }
        // A plan that has begun is finished, and a correction has standing consent.
        if self.progress != Progress::Waiting {
            return Ok(Vec::new());
        }
        Err(ApprovalBlocker::NotReviewed {
            digest: self.digest.to_owned(),
        })
    }

    /// Approvals of the plan that count towards a requirement, one per user.
    pub fn counted(&self, requirement: &ApprovalRequirement) -> Vec<&Entry> {
        let mut entries = self.valid();
        entries.retain(|entry| counts(requirement, entry, self.authors));
        entries
    }

    /// Unexpired approvals of the plan, one per user, by name.
    fn valid(&self) -> Vec<&Entry> {
        let by_user: BTreeMap<&str, &Entry> = self
            .of_plan()
            .filter(|entry| !self.expired(entry))
            .map(|entry| (entry.user.as_str(), entry))
            .collect();
        by_user.into_values().collect()
    }

    /// Approvals of exactly this plan: those used up by its history entry, which were verified then, and the recorded
    /// ones while the recorder is trustworthy.
    fn of_plan(&self) -> impl Iterator<Item = &Entry> {
        let used = self.used.iter();
        let used = used.filter(|entry| !entry.digest.is_empty() && entry.digest == self.digest);
        let recorded = self.approvals.of(self.digest);
        used.chain(recorded.filter(|_| self.recorder.is_trusted()))
    }

    fn expired(&self, entry: &Entry) -> bool {
        self.progress != Progress::Begun && entry.expired(self.now, self.lifetime)
    }
}
