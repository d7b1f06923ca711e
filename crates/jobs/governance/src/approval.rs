//! Whether a plan may be applied, and which items of it.
//!
//! The model, argued in `docs/security.md`: an approval is for a digest, the digest covers everything that decides what
//! happens ([`crate::hash::plan_digest`]), admission records who approved, policies outside of the configuration say how
//! many have to, and one approval lets one plan run once.

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

/// What may be carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Granted {
    /// The items.
    pub items: BTreeSet<String>,
    /// The approvals that it rests on; they are used up by the entry of the history that begins.
    pub approvals: Vec<Entry>,
}

impl Granted {
    /// The users who approved, by name.
    pub fn users(&self) -> Vec<String> {
        self.approvals
            .iter()
            .map(|entry| entry.user.clone())
            .collect()
    }
}

/// A field that would be taken although nobody agreed.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// The item that takes it.
    pub item: String,
    /// What it takes.
    pub takeover: Takeover,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, takeover } = self;
        let Takeover { path, manager, .. } = takeover;
        write!(
            f,
            "item '{item}' would take {path} from manager \"{manager}\""
        )
    }
}

/// Why a plan is not carried out, and what would unblock it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Withheld {
    /// Nobody wants it to be.
    #[error("Plan ready for review. Change action to 'Apply' to execute.")]
    NotAsked,
    /// It was looked at and refused.
    #[error(
        "The plan was rejected{}. Change what it is made from, or remove spec.approval.rejected.",
        .reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    )]
    Rejected {
        /// Why.
        reason: Option<String>,
    },
    /// Another plan was approved.
    #[error(
        "The plan {approved} was approved, but it is {now} now. Review it and set \
         spec.approval.planDigest to {now}."
    )]
    OtherPlan {
        /// The digest that was approved.
        approved: String,
        /// The digest of the plan.
        now: String,
    },
    /// An item was approved that does not exist.
    #[error("{0}. Correct spec.approval.items.")]
    UnknownItem(String),
    /// It would take fields from other managers, and nobody agreed to that.
    #[error(
        "The plan takes fields from other managers without consent: {}. List them in \
         spec.approval.takeovers, or make the managers give them up.",
        listed(.0)
    )]
    TakeoverWithoutConsent(Vec<Missing>),
    /// Approvals are required, and admission cannot be trusted to record them.
    #[error(
        "A plan of {impact} impact needs {need} approvals, but approvals are not recorded: {why}. Repair \
         the admission webhook, or lower the requirement."
    )]
    Unverifiable {
        /// How many are required.
        need: u32,
        /// For what.
        impact: Impact,
        /// What is wrong with the webhook.
        why: String,
    },
    /// A policy that applies cannot be read.
    #[error("{0}. Correct the policy: until then no plan that it selects is applied.")]
    InvalidPolicy(String),
    /// Approvals by authors do not count, and no author is on record.
    #[error(
        "A plan of {impact} impact needs {need} approvals by others than its authors, but no author is \
         recorded. Set action to 'DryRun' while the admission webhook runs, or let authors approve."
    )]
    AuthorUnknown {
        /// How many are required.
        need: u32,
        /// For what.
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
        /// The plan to approve.
        digest: String,
    },
    /// Not enough have approved.
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
        /// How many count.
        have: usize,
        /// What is not met.
        requirement: ApprovalRequirement,
        /// For what.
        impact: Impact,
        /// Whose count.
        by: Vec<String>,
        /// Whether an author approved, which does not count.
        author_excluded: bool,
        /// How many approvals of the plan are too old.
        expired: usize,
        /// The plan to approve.
        digest: String,
    },
}

impl Withheld {
    /// In a word, as the reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAsked => "NotRequested",
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

fn listed(missing: &[Missing]) -> String {
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

/// The items that are approved, with those they depend on; all if none are named.
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
        // What an item depends on may be in force already, and then it is no item.
        if let Some(item) = known.get(name)
            && closed.insert(name.to_owned())
        {
            open.extend(item.depends_on.iter().map(String::as_str));
        }
    }
    Ok(closed)
}

/// Reads the annotation [`names::AUTHORS`]; without one, or with one that cannot be read, none is known.
pub fn authors(annotation: Option<&str>) -> BTreeSet<String> {
    annotation
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The takeovers that nobody agreed to. What was ours before is only taken back.
pub fn consented(items: &[Item], consent: &[ConsentedTakeover]) -> Vec<Missing> {
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
                missing.push(Missing {
                    item: item.name.clone(),
                    takeover: takeover.clone(),
                });
            }
        }
    }
    missing
}

/// Whether a field is another one, or what contains it.
fn covers(path: &str, field: &str) -> bool {
    field
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether an approval counts towards a requirement, by who gave it.
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
pub struct Gate<'a> {
    /// The configuration's specification.
    pub spec: &'a VirtPlatformConfigSpec,
    /// The items of the plan.
    pub items: &'a [Item],
    /// `status.planDigest`.
    pub digest: &'a str,
    /// The impact of the whole plan.
    pub impact: Impact,
    /// What policies require of it.
    pub requirements: &'a [ApprovalRequirement],
    /// How long an approval lasts.
    pub lifetime: SignedDuration,
    /// Recorded approvals.
    pub approvals: &'a Approvals,
    /// Approvals that the open entry of the history used up: they count for the plan of that entry, and for no other.
    pub used: &'a [Entry],
    /// Users who requested the plan or changed what it is made from.
    pub authors: &'a BTreeSet<String>,
    /// Whether admission records approvals.
    pub recorder: &'a Recorder,
    /// `metadata.generation` and `status.revision` of the configuration.
    pub position: (Option<i64>, Option<i64>),
    /// How far the plan is.
    pub progress: Progress,
    /// The time.
    pub now: Timestamp,
}

/// How far the plan is that asks to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No item has begun.
    Waiting,
    /// Items have begun. Approvals do not expire any more: half a plan is worse than a late one.
    Begun,
    /// It puts back what was applied and another manager changed, which `bypassOptimisticLock` asks for once and for all.
    Correction,
}

impl Gate<'_> {
    /// Whether the plan may be applied, and which items of it.
    ///
    /// `bypassOptimisticLock` stands for the consent to every takeover. It stands neither for approvals nor for the
    /// digest: editors could set it, and so approve alone.
    pub fn check(&self) -> Result<Granted, Withheld> {
        if self.spec.action != Action::Apply {
            return Err(Withheld::NotAsked);
        }
        let approval = self.spec.approval.clone().unwrap_or_default();
        if let Some(rejected) = approval.rejected
            && rejected.plan_digest == self.digest
        {
            return Err(Withheld::Rejected {
                reason: rejected.reason,
            });
        }
        if let Some(approved) = approval.plan_digest
            && approved != self.digest
        {
            return Err(Withheld::OtherPlan {
                approved,
                now: self.digest.to_owned(),
            });
        }
        let items = closure(self.items, &approval.items).map_err(Withheld::UnknownItem)?;
        if !self.spec.bypass_optimistic_lock {
            let mut missing = consented(self.items, &approval.takeovers);
            missing.retain(|missing| items.contains(&missing.item));
            if !missing.is_empty() {
                return Err(Withheld::TakeoverWithoutConsent(missing));
            }
        }
        let approvals = self.approved_by()?;
        Ok(Granted { items, approvals })
    }

    /// The approvals that let the plan be applied.
    fn approved_by(&self) -> Result<Vec<Entry>, Withheld> {
        let impact = self.impact;
        let need = self.requirements.iter().map(|one| one.approvals).max();
        if need.is_none() && !self.recorder.is_trusted() {
            // Without a recorder the API server does not ask for the verb `approve` either: everyone who can edit the
            // configuration can apply it. That is an installation without the webhook, and its owner's choice.
            return Ok(Vec::new());
        }
        let mut counting: BTreeMap<&str, &Entry> = BTreeMap::new();
        for requirement in self.requirements {
            let need = requirement.approvals;
            if requirement.authors_excluded && self.authors.is_empty() && self.recorder.is_trusted()
            {
                return Err(Withheld::AuthorUnknown { need, impact });
            }
            let counted = self.counted(requirement);
            if counted.len() < need as usize
                && let Recorder::Untrusted(why) = self.recorder
            {
                return Err(Withheld::Unverifiable {
                    need,
                    impact,
                    why: why.clone(),
                });
            }
            if counted.len() < need as usize {
                let by: Vec<_> = counted.iter().map(|entry| entry.user.clone()).collect();
                let mut all = self.of_plan();
                return Err(Withheld::TooFewApprovals {
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
        // Where none is required, one by anyone who may approve is enough; but there has to be one.
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
        if self.progress != Progress::Waiting {
            return Ok(Vec::new());
        }
        Err(Withheld::NotReviewed {
            digest: self.digest.to_owned(),
        })
    }

    /// Approvals of the plan that count towards a requirement, one a user.
    pub fn counted(&self, requirement: &ApprovalRequirement) -> Vec<&Entry> {
        let mut entries = self.valid();
        entries.retain(|entry| counts(requirement, entry, self.authors));
        entries
    }

    /// Approvals of the plan that have not expired, one a user, by name.
    fn valid(&self) -> Vec<&Entry> {
        let by_user: BTreeMap<&str, &Entry> = self
            .of_plan()
            .filter(|entry| !self.expired(entry))
            .map(|entry| (entry.user.as_str(), entry))
            .collect();
        by_user.into_values().collect()
    }

    /// Approvals of this very plan: those that its entry of the history has used up, which were verified then, and those
    /// that are recorded, as long as the recorder can be trusted.
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
