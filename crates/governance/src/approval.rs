//! Whether a plan may be carried out, and which items of it.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::advisor::{
    Action, ConsentedTakeover, Impact, Item, RequiredApprovals, Takeover, VirtPlatformConfigSpec,
    names,
};

pub use record::{Approvals, Entry, record};

/// What may be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The items.
    pub items: BTreeSet<String>,
    /// Whose recorded approvals counted, by name.
    pub by: Vec<String>,
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
    /// Approvals are required, and nobody can tell who approved.
    #[error(
        "A plan of {impact} impact needs {need} approvals, but approvals are not recorded: the \
         admission check is not running. Start it, or lower spec.approvalPolicy.requiredApprovals."
    )]
    Unverifiable {
        /// How many are required.
        need: u32,
        /// For what.
        impact: Impact,
    },
    /// Approvals of the author do not count, and nobody can tell who that is.
    #[error(
        "A plan of {impact} impact needs {need} approvals by others than the author of the \
         specification, but the author is not recorded. Change the specification while the admission \
         check runs, or set spec.approvalPolicy.authorMayApprove."
    )]
    AuthorUnknown {
        /// How many are required.
        need: u32,
        /// For what.
        impact: Impact,
    },
    /// Not enough have approved.
    #[error(
        "A plan of {impact} impact needs {need} approvals, and has {have}{}{}. To approve, annotate the \
         configuration with {}={digest}.",
        by_whom(.by),
        if *.author_excluded { "; that of the author does not count" } else { "" },
        names::APPROVE
    )]
    TooFewApprovals {
        /// How many count.
        have: usize,
        /// How many are required.
        need: u32,
        /// For what.
        impact: Impact,
        /// Whose count.
        by: Vec<String>,
        /// Whether the author approved, which does not count.
        author_excluded: bool,
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
            Self::AuthorUnknown { .. } => "AuthorUnknown",
            Self::TooFewApprovals { .. } => "TooFewApprovals",
        }
    }
}

fn listed(missing: &[Missing]) -> String {
    let listed: Vec<_> = missing.iter().map(ToString::to_string).collect();
    listed.join("; ")
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

/// The takeovers that nobody agreed to. What was ours before is only taken back.
pub fn consented(items: &[Item], consent: &[ConsentedTakeover]) -> Vec<Missing> {
    let mut missing = Vec::new();
    for item in items {
        for takeover in &item.takeovers {
            let agreed = takeover.reclaimed
                || consent.iter().any(|consent| {
                    consent.item == item.name
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

/// How many have to approve a plan of an impact.
pub fn needed(required: &RequiredApprovals, impact: Impact) -> u32 {
    match impact {
        Impact::Low => required.low,
        Impact::Medium => required.medium,
        Impact::High => required.high,
    }
}

/// Whether a plan may be carried out.
///
/// `impact` is that of the whole plan, `author` who last changed the specification, and `recorded`
/// says whether an admission check records approvals: nobody else can tell who somebody is, so
/// without it approvals prove nothing.
///
/// `bypassOptimisticLock` stands for the consent to every takeover. It stands neither for approvals
/// nor for the digest: whoever may edit the specification could set it, and so approve alone.
pub fn gate(
    spec: &VirtPlatformConfigSpec,
    items: &[Item],
    plan_digest: &str,
    impact: Impact,
    approvals: &Approvals,
    author: Option<&str>,
    recorded: bool,
) -> Result<Granted, Withheld> {
    if spec.action != Action::Apply {
        return Err(Withheld::NotAsked);
    }
    let approval = spec.approval.clone().unwrap_or_default();
    if let Some(rejected) = approval.rejected
        && rejected.plan_digest == plan_digest
    {
        return Err(Withheld::Rejected {
            reason: rejected.reason,
        });
    }
    if let Some(approved) = approval.plan_digest
        && approved != plan_digest
    {
        return Err(Withheld::OtherPlan {
            approved,
            now: plan_digest.to_owned(),
        });
    }
    let granted = closure(items, &approval.items).map_err(Withheld::UnknownItem)?;
    if !spec.bypass_optimistic_lock {
        let mut missing = consented(items, &approval.takeovers);
        missing.retain(|missing| granted.contains(&missing.item));
        if !missing.is_empty() {
            return Err(Withheld::TakeoverWithoutConsent(missing));
        }
    }
    let by = approved_by(spec, plan_digest, impact, approvals, author, recorded)?;
    Ok(Granted { items: granted, by })
}

/// Whose approvals of a plan count, by name. Where nobody has to approve, it is on record who did,
/// whoever that is.
pub fn counted(
    spec: &VirtPlatformConfigSpec,
    plan_digest: &str,
    impact: Impact,
    approvals: &Approvals,
    author: Option<&str>,
) -> Vec<String> {
    let policy = spec.approval_policy.clone().unwrap_or_default();
    let need = needed(&policy.required_approvals, impact);
    let excluded = author.filter(|_| need > 0 && !policy.author_may_approve);
    let all: BTreeSet<&str> = approvals.of(plan_digest).collect();
    all.into_iter()
        .filter(|user| Some(*user) != excluded)
        .map(str::to_owned)
        .collect()
}

/// Whose approvals count, if there are enough.
fn approved_by(
    spec: &VirtPlatformConfigSpec,
    plan_digest: &str,
    impact: Impact,
    approvals: &Approvals,
    author: Option<&str>,
    recorded: bool,
) -> Result<Vec<String>, Withheld> {
    let policy = spec.approval_policy.clone().unwrap_or_default();
    let need = needed(&policy.required_approvals, impact);
    if !recorded {
        return if need == 0 {
            Ok(Vec::new())
        } else {
            Err(Withheld::Unverifiable { need, impact })
        };
    }
    if need > 0 && author.is_none() && !policy.author_may_approve {
        return Err(Withheld::AuthorUnknown { need, impact });
    }
    let by = counted(spec, plan_digest, impact, approvals, author);
    if by.len() < need as usize {
        return Err(Withheld::TooFewApprovals {
            have: by.len(),
            need,
            impact,
            author_excluded: author.is_some_and(|author| {
                approvals.of(plan_digest).any(|user| user == author)
                    && !by.iter().any(|user| user == author)
            }),
            by,
            digest: plan_digest.to_owned(),
        });
    }
    Ok(by)
}
