//! Admission of a VirtPlatformConfig: checks the permission to approve, and records approvals and authors.
//!
//! Only the API server knows the user of a request, and only during the request. So approvals and authors are recorded
//! here, in annotations that no other request can write.
//!
//! | the request | needs | recorded |
//! |---|---|---|
//! | sets `spec.action` to Apply, or changes the spec while it is Apply | `approve` | an approval of the plan in status at that moment, when the action changes |
//! | changes `spec.approval` | `approve` | an approval of `planDigest`, or under action Apply of the plan in status |
//! | withdraws `spec.approval` except rejections, while action is not Apply | | |
//! | sets annotation `approve` | `approve` | an approval of its digest; the annotation is removed |
//! | turns on `spec.bypassOptimisticLock` | `approve` | |
//! | changes `spec.approvalPolicy` of an existing object | `approve` | |
//! | lowers `spec.approvalPolicy` where the action is Apply, or while approving | denied | |
//! | requests a plan, or changes a field it is derived from | | the user, as an author |
//! | writes `approvals` or `authors` | | nothing: the former value stays |
//! | sets `spec.options.values` that the PlatformProfile does not accept | denied | |
//!
//! Setting the action to Apply before there is a plan (the seed's story 2) records an approval that is bound to exactly
//! this specification, and only if no one else is an author of it.

mod annotations;
pub mod options;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use api::advisor::{ApprovalPolicy, GROUP, PLURAL, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::approval;
use annotations::Annotations;

/// The RBAC verb that approvers have and editors do not.
pub const APPROVE_VERB: &str = "approve";

/// A request to create or change a VirtPlatformConfig.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Name of the object.
    pub name: String,
    /// The live object; `None` on creation.
    pub old: Option<Value>,
    /// The object as requested.
    pub new: Value,
    /// The user who sends the request.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Whether RBAC grants the user [`APPROVE_VERB`]. Only used if the request [needs it](approval_trigger).
    pub may_approve: bool,
    /// The current time.
    pub now: Timestamp,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq)]
pub enum AdmissionVerdict {
    /// The request is allowed, with changes.
    Allowed {
        /// Operations of a JSON patch (RFC 6902).
        patch: Vec<Value>,
        /// Admission warnings, shown by kubectl.
        warnings: Vec<String>,
        /// Digests of the plans that the user approves with this request.
        approved: Vec<String>,
    },
    /// The request is denied.
    Denied {
        /// Why, and which request would be accepted.
        message: String,
    },
}

impl AdmissionVerdict {
    fn denied(message: impl Into<String>) -> Self {
        Self::Denied {
            message: message.into(),
        }
    }
}

/// What in a request needs the permission to approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalTrigger {
    /// `spec.action` becomes Apply.
    Apply,
    /// The spec changes while `spec.action` is Apply.
    ChangeApplied,
    /// `spec.approval` changes.
    Approval,
    /// The `approve` annotation is set.
    Approve,
    /// `spec.bypassOptimisticLock` is turned on.
    Bypass,
    /// `spec.approvalPolicy` changes.
    Policy,
}

impl fmt::Display for ApprovalTrigger {
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

/// What in a request needs the permission to approve; the first finding suffices.
pub fn approval_trigger(old: Option<&Value>, new: &Value) -> Option<ApprovalTrigger> {
    let changed = |field: &str| at(old, field) != at(Some(new), field);
    let is = |object: Option<&Value>, field: &str, value: &Value| at(object, field) == Some(value);
    let apply = Value::from("Apply");
    let applied = |object: Option<&Value>| is(object, "action", &apply);
    let bypass = |object: Option<&Value>| is(object, "bypassOptimisticLock", &Value::Bool(true));
    // The order decides what [`approvals`] records: a request that sets the action approves the plan that was shown,
    // whatever else it changes.
    if applied(Some(new)) && !applied(old) {
        Some(ApprovalTrigger::Apply)
    } else if changed("approval") && (applied(Some(new)) || !withdraws(old, new)) {
        Some(ApprovalTrigger::Approval)
    } else if bypass(Some(new)) && !bypass(old) {
        Some(ApprovalTrigger::Bypass)
    } else if old.is_some() && changed("approvalPolicy") {
        Some(ApprovalTrigger::Policy)
    } else if applied(Some(new)) && old.is_some_and(|old| old.get("spec") != new.get("spec")) {
        Some(ApprovalTrigger::ChangeApplied)
    } else if approve_annotation(old, new).is_some() {
        Some(ApprovalTrigger::Approve)
    } else {
        None
    }
}

/// Decides about a request.
pub fn admit(request: &Admission) -> AdmissionVerdict {
    let Admission {
        name,
        user,
        old,
        new,
        ..
    } = request;
    let old = old.as_ref();
    // An approval that no user can be held to would still count as one.
    if user.is_empty() {
        return AdmissionVerdict::denied("The request names no user");
    }
    if !new.get("spec").is_some_and(Value::is_object) {
        return AdmissionVerdict::denied(format!(
            "VirtPlatformConfig {name:?} has no spec; an object is needed"
        ));
    }
    if let Some(trigger) = approval_trigger(old, new)
        && !request.may_approve
    {
        return AdmissionVerdict::denied(format!(
            "User {user:?} may edit options of VirtPlatformConfig {name:?}, but not approve: {trigger}; verb \"{APPROVE_VERB}\" on {PLURAL}.{GROUP} is needed"
        ));
    }
    let digest = approve_annotation(old, new);
    if let Some(digest) = digest
        && !is_digest(digest)
    {
        return AdmissionVerdict::denied(format!(
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
        Err(message) => return AdmissionVerdict::denied(message),
    };
    let approved = approvals(old, new);
    // In one request, a single approver would both lower the bar and pass it.
    if lowers_requirement(old, new) && (applies(new) || !approved.is_empty()) {
        return AdmissionVerdict::denied(format!(
            "VirtPlatformConfig {name:?}: the request lowers spec.approvalPolicy while spec.action is Apply or while it \
             approves a plan; lower it with spec.action DryRun in a change of its own"
        ));
    }
    let mut warnings = Vec::new();
    let authors = authors(old, new, user);
    // Guarded before anything is recorded: a new entry is added to the former list, never to one that the request
    // contains.
    annotations.guard(names::APPROVALS, None, &mut warnings);
    let known = (!authors.is_empty()).then(|| json!(authors).to_string());
    annotations.guard(names::AUTHORS, known, &mut warnings);
    annotations.remove(names::AUTHOR);
    let entry = |digest: &str, unplanned| approval::Entry {
        user: user.clone(),
        digest: digest.to_owned(),
        at: Time(request.now),
        groups: request.groups.clone(),
        unplanned,
    };
    let mut entries: Vec<_> = approved.iter().map(|digest| entry(digest, None)).collect();
    if let Some(unplanned) = unplanned(old, new)
        // Another author's options would be applied although no approver has seen what they do.
        && authors.iter().all(|author| author == user)
    {
        entries.push(entry("", Some(unplanned)));
    }
    for entry in entries {
        let existing = annotations.get(names::APPROVALS);
        let recorded = approval::record(existing, entry);
        annotations.set(names::APPROVALS, recorded);
    }
    if let Some(digest) = digest {
        annotations.remove(names::APPROVE);
        if plan_digest(old) != Some(digest) {
            warnings.push(format!(
                "the plan {digest} is approved, but it is not the current plan{}; the approval counts once it is",
                plan_digest(old).map(|now| format!(" ({now})")).unwrap_or_default()
            ));
        }
    }
    AdmissionVerdict::Allowed {
        patch: annotations.patch(),
        warnings,
        approved,
    }
}

fn applies(object: &Value) -> bool {
    at(Some(object), "action").is_some_and(|action| action == "Apply")
}

/// A field of the spec; null counts as absent.
fn at<'a>(object: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    object?.get("spec")?.get(field).filter(|it| !it.is_null())
}

/// Whether the request only withdraws approvals. Editors may do so: they may request another plan, for which earlier
/// approvals do not count. Rejections are kept.
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

/// The spec fields that a plan is derived from. `spec.profile` is immutable.
///
/// They match `hash::PlanTerms`. `spec.approval` is not among them: approving a plan must not make its approver an
/// author.
const PLAN_INPUT_FIELDS: [&str; 7] = [
    "options",
    "rollbackTo",
    "failurePolicy",
    "waitTimeout",
    "maintenanceWindows",
    "bypassOptimisticLock",
    "approvalPolicy",
];

/// Whether the request changes a field that a plan is derived from.
fn changes_terms(old: Option<&Value>, new: &Value) -> bool {
    PLAN_INPUT_FIELDS
        .iter()
        .any(|field| without_default(old, field) != without_default(Some(new), field))
}

/// A field of the spec with CRD defaults dropped: a default and its absence are equal.
fn without_default<'a>(object: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    at(object, field).filter(|value| match *value {
        Value::Bool(value) => *value,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => field != "failurePolicy" || text != "Abort",
        _ => true,
    })
}

/// The authors of the plan after the request: users who requested it, or who changed the fields it is derived from.
///
/// They are kept until a plan has completed. Not only until the plan is replaced: the next one may come from the same
/// options; nor until the configuration is ignored: the options remain in the spec. The status has to be that of the
/// current generation, else an edit that the operator has not observed yet would lose its author.
fn authors(old: Option<&Value>, new: &Value, user: &str) -> BTreeSet<String> {
    let former = old.and_then(|old| {
        let annotations = old.get("metadata")?.get("annotations")?;
        annotations.get(names::AUTHORS)?.as_str()
    });
    let mut authors = approval::authors(former);
    let action = |object| {
        at(object, "action")
            .and_then(Value::as_str)
            .unwrap_or("DryRun")
    };
    let (before, after) = (old.map(|old| action(Some(old))), action(Some(new)));
    let requests = match after {
        // Advertised configurations request no plan.
        "Ignore" => false,
        "Apply" => before != Some("Apply") && plan_digest(old).is_none(),
        _ => before != Some(after),
    };
    if requests || changes_terms(old, new) {
        if old.is_some_and(is_settled) {
            authors.clear();
        }
        authors.insert(user.to_owned());
    }
    authors
}

/// Whether the plan of an object has completed and the spec has not changed since.
fn is_settled(object: &Value) -> bool {
    let status = &object["status"];
    let completed = matches!(
        status["phase"].as_str(),
        Some("Completed" | "CompletedWithUpgrade" | "Drifted")
    );
    completed && status["observedGeneration"] == object["metadata"]["generation"]
}

/// Whether the request lowers the number of approvals that the configuration requires.
fn lowers_requirement(old: Option<&Value>, new: &Value) -> bool {
    let policy = |object: Option<&Value>| {
        let policy = at(object, "approvalPolicy").cloned().unwrap_or_default();
        serde_json::from_value::<ApprovalPolicy>(policy).unwrap_or_default()
    };
    let (before, after) = (policy(old), policy(Some(new)));
    let (is, was) = (&after.required_approvals, &before.required_approvals);
    let any = was.low > 0 || was.medium > 0 || was.high > 0;
    is.low < was.low
        || is.medium < was.medium
        || is.high < was.high
        || any && after.author_may_approve && !before.author_may_approve
}

/// The approval by a request that sets action Apply when there is no plan to review.
fn unplanned(old: Option<&Value>, new: &Value) -> Option<approval::Unplanned> {
    if approval_trigger(old, new) != Some(ApprovalTrigger::Apply)
        || plan_digest(old).is_some()
        || approved_digest(Some(new)).is_some()
    {
        return None;
    }
    let number = |value: &Value| value.as_i64();
    let generation = old.and_then(|old| number(&old["metadata"]["generation"]));
    Some(approval::Unplanned {
        // The API server increments the generation for every change of the spec, including this one.
        generation: generation.unwrap_or_default().saturating_add(1),
        after: old.and_then(|old| number(&old["status"]["revision"])),
    })
}

/// The digest of the plan in status. A new object has none, and that of an ignored object is not offered for review.
fn plan_digest(old: Option<&Value>) -> Option<&str> {
    let status = old?.get("status")?;
    let ignored = status.get("phase").is_some_and(|phase| phase == "Ignored");
    let digest = status.get("planDigest")?.as_str()?;
    (is_digest(digest) && !ignored).then_some(digest)
}

/// The digest that the annotation approves, if the annotation changed.
fn approve_annotation<'a>(old: Option<&Value>, new: &'a Value) -> Option<&'a str> {
    fn annotated_digest(object: &Value) -> Option<&str> {
        let annotations = object.get("metadata")?.get("annotations")?;
        annotations.get(names::APPROVE)?.as_str()
    }
    annotated_digest(new).filter(|digest| old.and_then(annotated_digest) != Some(digest))
}

/// The digest that the spec approves.
fn approved_digest(object: Option<&Value>) -> Option<&str> {
    at(object, "approval")?.get("planDigest")?.as_str()
}

/// The digests of the plans that the request approves.
fn approvals(old: Option<&Value>, new: &Value) -> Vec<String> {
    let named = approved_digest(Some(new));
    let newly_named = named.filter(|_| approved_digest(old) != named);
    // An approval without a digest is for the plan in status, which is the one the user could see; unless the request
    // changes the fields it is derived from: then the plan it would approve does not exist yet.
    let shown = match approval_trigger(old, new) {
        Some(ApprovalTrigger::Apply | ApprovalTrigger::Approval) if named.is_some() => named,
        Some(ApprovalTrigger::Apply) if !changes_terms(old, new) => plan_digest(old),
        Some(ApprovalTrigger::Approval)
            if !changes_terms(old, new) && applies(new) && !withdraws(old, new) =>
        {
            plan_digest(old)
        }
        _ => None,
    };
    let rejected = at(Some(new), "approval").and_then(|it| it.get("rejected")?.get("planDigest"));
    let mut approved: Vec<String> = Vec::new();
    for digest in [approve_annotation(old, new), newly_named, shown]
        .into_iter()
        .flatten()
    {
        // A request that rejects a plan does not approve it.
        let rejects = rejected.and_then(Value::as_str) == Some(digest);
        if is_digest(digest) && !rejects && !approved.iter().any(|known| known == digest) {
            approved.push(digest.to_owned());
        }
    }
    approved
}

/// Whether a string is a plan digest.
fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == 64
            && digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}
