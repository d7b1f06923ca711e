//! Who may have a plan carried out, and what is recorded of it: the decision on a request to create
//! or change a VirtPlatformConfig.
//!
//! Only the API server knows who asks, and only while it asks. So the approvals and the author are
//! written down here, in annotations that nobody else can write.
//!
//! | the request | needs | what is recorded |
//! |---|---|---|
//! | moves `spec.action` to Apply, or changes the spec while it is Apply | `approve` | an approval of the plan that was shown, when action moves |
//! | changes `spec.approval` | `approve` | an approval of the new `planDigest` |
//! | takes `spec.approval` back, but for what was rejected, where action is not Apply | | |
//! | sets annotation `approve` | `approve` | an approval of its digest; the annotation goes |
//! | turns on `spec.bypassOptimisticLock` | `approve` | |
//! | changes `spec.approvalPolicy` of an object there is | `approve` | |
//! | changes what a plan is made from, or creates the object | | the author |
//! | writes `approvals` or `author` | | nothing: the former value stays |

mod annotations;

#[cfg(test)]
mod tests;

use std::fmt;

use api::advisor::{GROUP, PLURAL, names};
use jiff::Timestamp;
use serde_json::Value;

use crate::approval;
use annotations::Annotations;

/// The verb that approvers have and editors have not.
pub const APPROVE_VERB: &str = "approve";

/// A request to create or change a VirtPlatformConfig.
#[derive(Debug, Clone)]
pub struct Admission {
    /// What the object is called.
    pub name: String,
    /// The object as it is; `None` if it is to be created.
    pub old: Option<Value>,
    /// The object as it is to be.
    pub new: Value,
    /// Who asks.
    pub user: String,
    /// Whether they have the right [`APPROVE_VERB`]. Counts only if the request [asks for
    /// it](asks_for).
    pub may_approve: bool,
    /// The time.
    pub now: Timestamp,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It goes on, with changes.
    Allowed {
        /// Operations of a JSON patch (RFC 6902).
        patch: Vec<Value>,
        /// What the user is told.
        warnings: Vec<String>,
        /// The plans that count as approved by the user from now on.
        approved: Vec<String>,
    },
    /// It does not.
    Denied {
        /// Why, and what would be accepted.
        message: String,
    },
}

impl Verdict {
    fn denied(message: impl Into<String>) -> Self {
        Self::Denied {
            message: message.into(),
        }
    }
}

/// What a request does that editing alone does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Action becomes Apply.
    Apply,
    /// What is applied changes.
    ChangeApplied,
    /// `spec.approval` changes.
    Approval,
    /// The annotation that approves is set.
    Approve,
    /// `spec.bypassOptimisticLock` is turned on.
    Bypass,
    /// Who has to approve changes.
    Policy,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply => f.write_str("the request sets spec.action to Apply"),
            Self::ChangeApplied => f.write_str(
                "the request changes a specification that is applied (spec.action is Apply; set it to DryRun to edit)",
            ),
            Self::Approval => f.write_str("the request changes spec.approval"),
            Self::Approve => write!(f, "the request sets annotation {}", names::APPROVE),
            Self::Bypass => f.write_str("the request turns on spec.bypassOptimisticLock"),
            Self::Policy => f.write_str("the request changes spec.approvalPolicy"),
        }
    }
}

/// What of a request needs the right to approve; the first reason is enough.
pub fn asks_for(old: Option<&Value>, new: &Value) -> Option<Ask> {
    let changed = |field: &str| at(old, field) != at(Some(new), field);
    let is = |object: Option<&Value>, field: &str, value: &Value| at(object, field) == Some(value);
    let apply = Value::from("Apply");
    let applied = |object: Option<&Value>| is(object, "action", &apply);
    let bypass = |object: Option<&Value>| is(object, "bypassOptimisticLock", &Value::Bool(true));
    if applied(Some(new)) && !applied(old) {
        Some(Ask::Apply)
    } else if changed("approval") && (applied(Some(new)) || !withdraws(old, new)) {
        Some(Ask::Approval)
    } else if bypass(Some(new)) && !bypass(old) {
        Some(Ask::Bypass)
    } else if old.is_some() && changed("approvalPolicy") {
        Some(Ask::Policy)
    } else if applied(Some(new)) && old.is_some_and(|old| old.get("spec") != new.get("spec")) {
        Some(Ask::ChangeApplied)
    } else if approve_annotation(old, new).is_some() {
        Some(Ask::Approve)
    } else {
        None
    }
}

/// Decides on a request.
pub fn admit(request: &Admission) -> Verdict {
    let Admission {
        name,
        user,
        old,
        new,
        ..
    } = request;
    let old = old.as_ref();
    if user.is_empty() {
        return Verdict::denied("The request does not say which user asks");
    }
    if !new.get("spec").is_some_and(Value::is_object) {
        return Verdict::denied(format!(
            "VirtPlatformConfig {name:?} has no spec; an object is needed"
        ));
    }
    if let Some(ask) = asks_for(old, new)
        && !request.may_approve
    {
        return Verdict::denied(format!(
            "User {user:?} may edit options of VirtPlatformConfig {name:?}, but not approve: {ask}; verb \"{APPROVE_VERB}\" on {PLURAL}.{GROUP} is needed"
        ));
    }
    let digest = approve_annotation(old, new);
    if let Some(digest) = digest
        && !is_digest(digest)
    {
        return Verdict::denied(format!(
            "Annotation {} of VirtPlatformConfig {name:?} is {digest:?}; the status.planDigest of the plan to approve is needed (sha256: and 64 hexadecimal digits){}",
            names::APPROVE,
            match plan_digest(old) {
                Some(now) => format!(", now {now}"),
                None => "; there is no plan yet".to_owned(),
            }
        ));
    }
    let mut annotations = match Annotations::new(old, new) {
        Ok(annotations) => annotations,
        Err(message) => return Verdict::denied(message),
    };
    let mut warnings = Vec::new();
    let author = authors(old, new).then(|| user.clone());
    annotations.guard(names::APPROVALS, None, &mut warnings);
    annotations.guard(names::AUTHOR, author, &mut warnings);
    let approved = approvals(old, new);
    for digest in &approved {
        let existing = annotations.get(names::APPROVALS);
        let recorded = approval::record(existing, user, digest, request.now);
        annotations.set(names::APPROVALS, recorded);
    }
    if let Some(digest) = digest {
        annotations.remove(names::APPROVE);
        if plan_digest(old) != Some(digest) {
            warnings.push(format!(
                "the plan {digest} is approved, but it is not the plan there is{}; the approval counts when it is",
                plan_digest(old).map(|now| format!(" ({now})")).unwrap_or_default()
            ));
        }
    }
    Verdict::Allowed {
        patch: annotations.patch(),
        warnings,
        approved,
    }
}

/// A field of the spec. No value and none at all are the same.
fn at<'a>(object: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    object?.get("spec")?.get(field).filter(|it| !it.is_null())
}

/// Whether what was approved is taken back, and nothing else is said. Whoever prepares plans may ask for
/// another one, and what was agreed to before is not about that. What was rejected stays rejected.
fn withdraws(old: Option<&Value>, new: &Value) -> bool {
    let rejected = |object| {
        let approval: Option<&Value> = at(object, "approval");
        let rejected = approval.and_then(|it| it.get("rejected"));
        rejected.filter(|it| !it.is_null())
    };
    let is_empty = match at(Some(new), "approval") {
        None => true,
        Some(Value::Object(fields)) => fields
            .iter()
            .all(|(name, value)| name == "rejected" || value.is_null()),
        Some(_) => false,
    };
    old.is_some() && is_empty && rejected(old) == rejected(Some(new))
}

/// Whether the request changes what a plan is made from. The profile cannot be changed.
fn authors(old: Option<&Value>, new: &Value) -> bool {
    let changed = |field| at(old, field) != at(Some(new), field);
    old.is_none() || changed("options") || changed("rollbackTo")
}

/// The plan that there is. Of a new object nothing is believed: there can be none yet.
fn plan_digest(old: Option<&Value>) -> Option<&str> {
    let digest = old?.get("status")?.get("planDigest")?.as_str()?;
    is_digest(digest).then_some(digest)
}

/// The digest that the annotation asks to approve, if it says something new.
fn approve_annotation<'a>(old: Option<&Value>, new: &'a Value) -> Option<&'a str> {
    fn asked(object: &Value) -> Option<&str> {
        let annotations = object.get("metadata")?.get("annotations")?;
        annotations.get(names::APPROVE)?.as_str()
    }
    asked(new).filter(|digest| old.and_then(asked) != Some(digest))
}

/// The digest that the spec approves.
fn approved_digest(object: Option<&Value>) -> Option<&str> {
    at(object, "approval")?.get("planDigest")?.as_str()
}

/// The plans that the request approves.
fn approvals(old: Option<&Value>, new: &Value) -> Vec<String> {
    let named = approved_digest(Some(new));
    let newly_named = named.filter(|_| approved_digest(old) != named);
    // Whoever moves the action approves what the spec names, or else what they were shown; not so if
    // they change at the same time what the plan is made from.
    let shown = match asks_for(old, new) {
        Some(Ask::Apply) if named.is_some() => named,
        Some(Ask::Apply) if !authors(old, new) => plan_digest(old),
        _ => None,
    };
    let mut approved: Vec<String> = Vec::new();
    for digest in [approve_annotation(old, new), newly_named, shown]
        .into_iter()
        .flatten()
    {
        if is_digest(digest) && !approved.iter().any(|known| known == digest) {
            approved.push(digest.to_owned());
        }
    }
    approved
}

/// Whether a text is a digest as plans have it.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64
            && digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}
