//! Builds a reviewable plan from the changes that a profile requests.
//!
//! ```text
//! profile, options, snapshot --draft--> items without a diff
//!      each item --(dry run)--> Preview
//! items + previews --assemble--> Plan: diffs, takeovers, locks, impact, hash, digest
//! ```

mod dry_run;
mod forecast;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use api::advisor::{
    Applied, Capability, Deviation, FIELD_MANAGER, Impact, Input, Item, ItemState, Operation,
    TargetRef, VirtPlatformConfig, names,
};
use kube_core::ResourceExt as _;
use serde_json::{Value, json};

pub use dry_run::DryRun;
pub(crate) use forecast::diff_now;

use crate::collisions::{Collision, collisions};
use crate::decide::DecisionInputs;
use crate::hash::PlanTerms;
use crate::intent::Intent;
use crate::ownership::Conflict;
use crate::profile::{Prerequisite, Profile, Refusal, impact};
use crate::rollback::Before;
use crate::snapshot::{Snapshot, whole};
use crate::{deviation, diff, hash, ownership, rollback, timeout, values, window};

/// Field manager that owns restored fields whose former owner is not known.
pub const ROLLBACK_MANAGER: &str = "virt-advisor-operator-rollback";

/// A plan before the dry run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// Items without diff, base and takeovers.
    pub items: Vec<Item>,
    /// The inputs they were derived from.
    pub inputs: Vec<Input>,
    /// What may fail although everything is applied.
    pub warnings: Vec<String>,
}

impl Draft {
    /// Whether these items request the same changes.
    pub fn same_as(&self, items: &[Item]) -> bool {
        // Completed removals are not requested again.
        let standing = |old: &&Item| {
            old.operation == Operation::Apply
                || old.state == ItemState::Pending
                || self.items.iter().any(|new| new.name == old.name)
        };
        let items: Vec<_> = items.iter().filter(standing).collect();
        // In order, since items are executed one after the other: the same items in another order are another plan.
        self.items.len() == items.len()
            && self
                .items
                .iter()
                .zip(items)
                .all(|(new, old)| same(new, old))
    }
}

/// Whether two items request the same change. Impact and message are ignored: they change once the item is applied.
fn same(a: &Item, b: &Item) -> bool {
    a.name == b.name
        && a.target_ref == b.target_ref
        && a.operation == b.operation
        && a.desired_state == b.desired_state
        && a.managed_fields == b.managed_fields
}

/// Why no plan can be generated.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// The profile does not exist or is disabled.
    NoProfile(String),
    /// These kinds are not installed.
    Missing(Vec<Prerequisite>),
    /// Kinds of targets, none of them a prerequisite, that are not installed.
    NotInstalled(Vec<String>),
    /// These namespaces do not exist.
    NoNamespace(Vec<String>),
    /// These kinds are installed and cannot be read, with the error.
    Unreadable(Vec<(String, String)>),
    /// The spec is invalid.
    Invalid(String),
    /// A live object is malformed.
    Unplannable(String),
}

impl Problem {
    /// The message for conditions and events.
    pub fn message(&self) -> String {
        match self {
            Self::NoProfile(name) => format!("Profile not found: {name}"),
            Self::Missing(missing) => {
                let lines = missing.iter().map(|one| {
                    let Prerequisite {
                        of,
                        version,
                        remedy,
                    } = one;
                    format!("\n  - {} ({}.{version}): {remedy}", of.kind, of.group)
                });
                format!(
                    "Missing required dependencies:{}",
                    lines.collect::<String>()
                )
            }
            Self::NotInstalled(kinds) => {
                format!("Missing required dependencies: {}", kinds.join(", "))
            }
            Self::NoNamespace(names) => {
                format!("Missing required namespaces: {}", names.join(", "))
            }
            Self::Unreadable(kinds) => {
                let kinds = kinds.iter().map(|(kind, why)| format!("{kind}: {why}"));
                let kinds: Vec<_> = kinds.collect();
                format!("Required kinds cannot be read: {}", kinds.join("; "))
            }
            Self::Invalid(text) | Self::Unplannable(text) => text.clone(),
        }
    }

    /// The message with remedies for missing kinds.
    pub fn advice(&self) -> String {
        match self {
            Self::Missing(missing) => missing
                .iter()
                .map(|one| format!("The CRD '{}' is not found. {}.", one.of.kind, one.remedy))
                .collect::<Vec<_>>()
                .join(" "),
            Self::NoNamespace(names) => {
                let names = names.iter().map(|name| {
                    format!("The namespace '{name}' is not found. Install the operator that it belongs to, or create it.")
                });
                names.collect::<Vec<_>>().join(" ")
            }
            other => other.message(),
        }
    }
}

/// The revision of the next plan in the history.
pub fn next_revision(facts: &DecisionInputs<'_>) -> i64 {
    // From the history and from the status: entries are pruned, and may be deleted by hand. The digest covers the
    // revision, so a number that is used twice could revive an old approval.
    let recorded = facts.records.iter().map(|record| record.revision).max();
    let last = facts
        .config
        .status
        .as_ref()
        .and_then(|status| status.revision);
    recorded.max(last).unwrap_or_default() + 1
}

/// The terms of a plan with this revision.
pub fn terms(facts: &DecisionInputs<'_>, revision: i64) -> PlanTerms {
    let spec = &facts.config.spec;
    PlanTerms {
        uid: facts.config.metadata.uid.clone().unwrap_or_default(),
        revision,
        rollback_to: facts.rollback(),
        failure_policy: spec.failure_policy,
        wait_timeout: spec.wait_timeout.clone(),
        maintenance_windows: spec.maintenance_windows.clone(),
        bypass_optimistic_lock: spec.bypass_optimistic_lock,
        approval_policy: spec.approval_policy.clone(),
        profile: facts.profile.and_then(Profile::revision).map(str::to_owned),
    }
}

/// How the impact of the remaining items differs from that in the plan. `draft` is freshly generated for the same
/// items.
pub fn impact_changes<'a>(
    items: &'a [Item],
    draft: &'a Draft,
) -> impl Iterator<Item = ImpactChange> + 'a {
    // By name: for a thousand items, a search for each is a million comparisons in every reconcile.
    let drafted: BTreeMap<_, _> = (draft.items.iter())
        .map(|drafted| (drafted.name.as_str(), drafted))
        .collect();
    let pending = items.iter();
    // Items without a change are Low in a plan, whatever impact their profile drafts.
    let pending = pending.filter(|item| item.state == ItemState::Pending && !item.unchanged);
    pending.filter_map(move |item| {
        let drafted = drafted.get(item.name.as_str())?;
        let (planned, now) = (item.impact_severity?, drafted.impact_severity?);
        (planned != now).then(|| ImpactChange {
            item: item.name.clone(),
            planned,
            now,
        })
    })
}

/// The impact of an item in the plan and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpactChange {
    /// The item.
    pub item: String,
    /// The impact in the plan.
    pub planned: Impact,
    /// The current impact.
    pub now: Impact,
}

impl fmt::Display for ImpactChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, planned, now } = self;
        write!(f, "the impact of item '{item}' was {planned} and is {now}")
    }
}

/// The CustomResourceDefinitions that a plan of these inputs is derived from.
pub(crate) fn capabilities(facts: &DecisionInputs<'_>) -> Vec<Capability> {
    let uses = facts.profile.map(Profile::uses).unwrap_or_default().iter();
    uses.filter_map(|uses| {
        let kind = facts.snapshot.kind(uses.of)?;
        let meta = &kind.definition.as_ref()?.metadata;
        let generation = meta.generation.unwrap_or_default();
        Some(Capability {
            name: meta.name.clone()?,
            version: kind.version.clone(),
            // The generation begins anew when the CRD is created again.
            revision: format!("{}/{generation}", meta.uid.as_deref().unwrap_or_default()),
        })
    })
    .collect()
}

/// Whether all kinds can be read that the profile's targets and inputs are of. Objects that a profile reads by name only
/// concern the health of a target.
pub fn readable(facts: &DecisionInputs<'_>) -> Result<(), Problem> {
    let uses = facts.profile.map(Profile::uses).unwrap_or_default();
    let uses = uses.iter().filter(|uses| uses.named.is_none());
    let unreadable = uses.filter_map(|uses| {
        let why = facts.snapshot.unreadable(uses.of)?;
        Some((uses.of.kind.to_owned(), why.to_owned()))
    });
    let unreadable: Vec<_> = unreadable.collect();
    if unreadable.is_empty() {
        Ok(())
    } else {
        Err(Problem::Unreadable(unreadable))
    }
}

/// Generates the draft from the current inputs.
pub fn draft(facts: &DecisionInputs<'_>) -> Result<Draft, Problem> {
    readable(facts)?;
    let draft = unchecked_draft(facts)?;
    // Of a rollback, or of a removal: the kinds of the profile are its prerequisites.
    let targets = draft.items.iter().map(|item| &item.target_ref);
    let missing = targets.filter(|target| facts.snapshot.kind_of(target).is_none());
    let missing: BTreeSet<_> = missing
        .map(|target| format!("{} ({})", target.kind, target.api_version))
        .collect();
    if missing.is_empty() {
        Ok(draft)
    } else {
        Err(Problem::NotInstalled(missing.into_iter().collect()))
    }
}

fn unchecked_draft(facts: &DecisionInputs<'_>) -> Result<Draft, Problem> {
    let spec = &facts.config.spec;
    let profile = facts
        .profile
        .ok_or_else(|| Problem::NoProfile(spec.profile.clone()))?;
    if let Some(text) = &spec.wait_timeout {
        timeout::parse(text)
            .map_err(|error| Problem::Invalid(format!("Invalid config: {error}")))?;
    }
    window::Windows::parse(&spec.maintenance_windows)
        .map_err(|error| Problem::Invalid(format!("Invalid config: {error}")))?;
    // Before the prerequisites: undoing a profile has to be possible after an operator that it needs was removed.
    if let Some(revision) = facts.rollback() {
        return rollback::draft(facts, revision);
    }
    if spec.rollback_to.is_some() {
        // The rollback is done, and nothing is planned until it is removed from the spec.
        return Ok(Draft::default());
    }
    let options = spec.options.clone().unwrap_or_default();
    let missing: Vec<_> = profile
        .prerequisites(&options)
        .into_iter()
        .filter(|one| facts.snapshot.kind(one.of).is_none())
        .collect();
    if !missing.is_empty() {
        return Err(Problem::Missing(missing));
    }
    wanted(profile, facts)
}

/// The changes that the profile requests, and removals of those it does not request any more.
fn wanted(profile: &dyn Profile, facts: &DecisionInputs<'_>) -> Result<Draft, Problem> {
    let options = facts.config.spec.options.clone().unwrap_or_default();
    let intents = profile
        .intents(&options, facts.snapshot)
        .map_err(|refusal| match refusal {
            Refusal::Options(_) | Refusal::NotReady(_) => Problem::Invalid(refusal.to_string()),
            Refusal::Unreadable(why) => {
                Problem::Unplannable(format!("Failed to generate plan items: {why}"))
            }
        })?;
    let mut items = Vec::new();
    for intent in &intents.items {
        let item = decorate(intent, facts.config)
            .map_err(|why| Problem::Unplannable(format!("Failed to generate plan items: {why}")))?;
        items.push(item);
    }
    let kept: BTreeSet<_> = items.iter().map(|item| &item.target_ref).collect();
    let applied = facts
        .config
        .status
        .iter()
        .flat_map(|status| &status.applied);
    let given_up: Vec<_> = applied
        .filter(|applied| !kept.contains(&applied.target_ref))
        .collect();
    // In reverse order of application: a later item may depend on an earlier one.
    let removals = given_up
        .into_iter()
        .rev()
        .filter_map(|applied| removal(applied, facts));
    items.extend(removals.collect::<Vec<_>>());
    Ok(Draft {
        items,
        inputs: intents.inputs,
        warnings: intents.warnings,
    })
}

/// An intent as an item, with our ownership mark on its target.
fn decorate(intent: &Intent, config: &VirtPlatformConfig) -> Result<Item, String> {
    let wanted =
        values::managed(&intent.desired, &intent.managed).map_err(|error| error.to_string())?;
    let mut desired = intent.desired.clone();
    mark(&mut desired, &config.name_any(), &wanted);
    Ok(Item {
        name: intent.name.to_owned(),
        target_ref: intent.target.clone(),
        impact_severity: Some(intent.impact),
        desired_state: Some(desired),
        message: Some(intent.message.clone()),
        managed_fields: intent.managed.clone(),
        depends_on: intent
            .depends_on
            .iter()
            .map(|&name| name.to_owned())
            .collect(),
        ..Item::default()
    })
}

/// Annotates an object with its configuration and the hash of the desired values.
pub(crate) fn mark(desired: &mut Value, config: &str, wanted: &BTreeMap<String, Value>) {
    let annotations = &mut desired["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[names::GOVERNED_BY] = json!(config);
    annotations[names::APPLIED_PROFILE_HASH] = json!(hash::applied_hash(wanted));
}

/// The item that reverts an applied change that is no longer requested: an object that we created is deleted, other
/// fields get their former values.
pub(crate) fn removal(applied: &Applied, facts: &DecisionInputs<'_>) -> Option<Item> {
    let target = &applied.target_ref;
    let live = facts.snapshot.target(target)?;
    let ours = live.annotations().get(names::GOVERNED_BY) == Some(&facts.config.name_any());
    let managed: Vec<_> = applied.values.keys().cloned().collect();
    let records = facts.records.iter();
    let records = records.filter(|record| record.revision >= applied.revision);
    match rollback::before(records, target) {
        // An object of the same name that we did not create is not touched.
        before if applied.created || before == Before::Absent => {
            ours.then(|| deletion(&applied.name, target, managed, facts.snapshot))
        }
        Before::Values(before) => Some(restoration(
            &applied.name,
            target,
            managed,
            &before,
            facts.snapshot,
        )),
        // Not touched by any of our plans: it had the desired values before.
        Before::Untouched | Before::Absent => None,
    }
}

/// The deletion of an object that we created.
pub(crate) fn deletion(
    name: &str,
    target: &TargetRef,
    managed: Vec<String>,
    snapshot: &Snapshot,
) -> Item {
    let labels = snapshot
        .target(target)
        .map(|live| live.labels().clone())
        .unwrap_or_default();
    Item {
        name: format!("remove-{name}"),
        target_ref: target.clone(),
        impact_severity: Some(impact::of_deletion(target, snapshot)),
        // The labels of the live object determine which pools roll it back.
        desired_state: Some(identity(target, &json!({ "labels": labels }))),
        message: Some(format!(
            "{target} was created by this profile and will be deleted"
        )),
        managed_fields: managed,
        operation: Operation::Delete,
        ..Item::default()
    }
}

/// The restoration of fields to their former values.
pub(crate) fn restoration(
    name: &str,
    target: &TargetRef,
    managed: Vec<String>,
    before: &BTreeMap<String, Value>,
    snapshot: &Snapshot,
) -> Item {
    let mut desired = identity(target, &json!({}));
    for (path, value) in before {
        let mut place = &mut desired;
        for segment in path.split('.').filter(|segment| !segment.is_empty()) {
            place = &mut place[segment];
        }
        *place = value.clone();
    }
    let impact = match impact::of_deletion(target, snapshot) {
        // Restoring fields of an object that reboots nodes reboots them as well.
        Impact::High => Impact::High,
        _ => Impact::Medium,
    };
    Item {
        name: format!("restore-{name}"),
        target_ref: target.clone(),
        impact_severity: Some(impact),
        desired_state: Some(desired),
        message: Some(format!("{target} will get back the values of before")),
        managed_fields: managed,
        operation: Operation::Restore,
        ..Item::default()
    }
}

/// An object with this identity and metadata, and without other fields.
pub(crate) fn identity(target: &TargetRef, more: &Value) -> Value {
    let mut metadata = more.clone();
    metadata["name"] = json!(target.name);
    if let Some(namespace) = &target.namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({ "apiVersion": target.api_version, "kind": target.kind, "metadata": metadata })
}

/// The dry run of an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preview {
    /// The live target.
    pub live: Option<Value>,
    /// The resulting target; absent if it would be deleted.
    pub result: Option<Value>,
    /// Fields owned by other managers that the item would change, without defaults that no manager chose.
    pub conflicts: Vec<Conflict>,
    /// What the API server would keep instead of what the item requests.
    pub deviations: Vec<Deviation>,
    /// Why the API server would reject it.
    pub refused: Option<String>,
    /// The namespace of the target, if it does not exist.
    pub missing_namespace: Option<String>,
}

/// A reviewable plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The items, in order of execution.
    pub items: Vec<Item>,
    /// The inputs it was derived from.
    pub inputs: Vec<Input>,
    /// What may fail although everything is applied. The collisions are among them.
    pub warnings: Vec<String>,
    /// Other controllers that set the same fields.
    pub collisions: Vec<Collision>,
    /// The highest impact of all items.
    pub impact: Impact,
    /// The hash of the live targets.
    pub hash: String,
    /// The digest of the plan.
    pub digest: String,
    /// Whether nothing would change, apart from our ownership marks.
    pub changes_nothing: bool,
}

/// Builds a plan from a draft and the dry runs of its items.
pub fn assemble(
    draft: Draft,
    previews: &[Preview],
    applied: &[Applied],
    terms: &PlanTerms,
) -> Result<Plan, String> {
    let mut items = Vec::new();
    let mut contested = Vec::new();
    let mut changes_nothing = true;
    for (mut item, preview) in draft.items.into_iter().zip(previews) {
        if let Some(why) = &preview.refused {
            return Err(format!(
                "Failed to generate plan items: {}: the server refuses {}: {why}",
                item.name, item.target_ref
            ));
        }
        let live = preview.live.as_ref();
        // From the read of the dry run and not from the cache, so that base, uid and diff are of one version of the
        // object.
        item.base = live
            .map(|live| values::managed(live, &item.managed_fields))
            .transpose()
            .map_err(|error| format!("Failed to generate plan items: {}: {error}", item.name))?;
        let unchanged = bare(live) == bare(preview.result.as_ref());
        // The impact that a profile states is for the change. Without one, neither windows nor approvals should hold
        // the plan.
        if unchanged {
            item.impact_severity = Some(Impact::Low);
        }
        item.unchanged = unchanged;
        item.deviations.clone_from(&preview.deviations);
        item.target_uid = live
            .and_then(|live| live["metadata"]["uid"].as_str())
            .map(str::to_owned);
        changes_nothing &= unchanged;
        item.diff = Some(diff::unified(
            live,
            preview.result.as_ref(),
            &item.target_ref.name,
            &item.target_ref.kind,
        ));
        if let (Some(live), Some(desired)) = (live, &item.desired_state) {
            let ours = applied
                .iter()
                .find(|applied| applied.target_ref == item.target_ref)
                .map(|applied| &applied.values);
            item.takeovers = ownership::takeovers(&preview.conflicts, live, desired, ours);
            for takeover in &mut item.takeovers {
                // Fields restored without a known owner belong to no other manager.
                takeover.reclaimed |= takeover.manager == ROLLBACK_MANAGER;
            }
        }
        contested.extend(collisions(&item, live, &preview.conflicts));
        items.push(item);
    }
    diff::fit(items.iter_mut().filter_map(|item| item.diff.as_mut()));
    let impact = worst(&items).unwrap_or(Impact::Low);
    let entries = items.iter().zip(previews).map(|(item, preview)| {
        (
            &item.target_ref,
            item.managed_fields.as_slice(),
            preview.live.as_ref(),
        )
    });
    let hash = hash::snapshot_hash(entries)
        .map_err(|error| format!("Failed to compute snapshot hash: {error}"))?;
    let digest = hash::plan_digest(terms, &items);
    let mut warnings = draft.warnings;
    warnings.extend(contested.iter().map(ToString::to_string));
    Ok(Plan {
        items,
        inputs: draft.inputs,
        warnings,
        collisions: contested,
        impact,
        hash,
        digest,
        changes_nothing,
    })
}

/// The highest impact of items.
pub fn worst(items: &[Item]) -> Option<Impact> {
    items.iter().filter_map(|item| item.impact_severity).max()
}

/// An object without server-side metadata and our marks.
fn bare(object: Option<&Value>) -> Option<Value> {
    let mut object = object?.clone();
    diff::sanitize(&mut object);
    Some(unmarked(object))
}

/// An object without our marks, which are removed along with our ownership.
fn unmarked(mut object: Value) -> Value {
    hash::remove_annotation(&mut object, names::GOVERNED_BY);
    hash::remove_annotation(&mut object, names::APPLIED_PROFILE_HASH);
    object
}

/// Whether the target of an item is already in the desired state.
pub(crate) fn in_force(item: &Item, snapshot: &Snapshot) -> bool {
    let live = snapshot.target(&item.target_ref).map(|live| whole(live));
    match (item.operation, live) {
        (Operation::Delete, live) => live.is_none(),
        (_, None) => false,
        (Operation::Apply, Some(live)) => {
            let desired = item.desired_state.as_ref();
            desired.is_none_or(|desired| impact::in_force(&live, desired))
                // Applied again, it would be kept as it is again.
                || (!item.deviations.is_empty()
                    && deviation::unexplained(&wanted_values(item), &live, &item.deviations)
                        .is_empty())
        }
        (Operation::Restore, Some(live)) => {
            values::managed(&live, &item.managed_fields).is_ok_and(|now| now == wanted_values(item))
        }
    }
}

/// The hash of the live targets of items.
pub(crate) fn live_hash(items: &[Item], snapshot: &Snapshot) -> Option<String> {
    let live: Vec<_> = items
        .iter()
        .map(|item| snapshot.target(&item.target_ref).map(|live| whole(live)))
        .collect();
    let entries = items.iter().zip(&live).map(|(item, live)| {
        (
            &item.target_ref,
            item.managed_fields.as_slice(),
            live.as_ref(),
        )
    });
    hash::snapshot_hash(entries).ok()
}

/// The desired values of the managed fields of an item.
pub(crate) fn wanted_values(item: &Item) -> BTreeMap<String, Value> {
    let desired = item.desired_state.as_ref();
    desired
        .and_then(|desired| values::managed(desired, &item.managed_fields).ok())
        .unwrap_or_default()
}

/// Whether the annotations of a target prove that we applied exactly this item to it.
pub fn bears_our_mark(item: &Item, live: &Value, config: &str) -> bool {
    let annotations = &live["metadata"]["annotations"];
    annotations[names::GOVERNED_BY] == config
        && annotations[names::APPLIED_PROFILE_HASH]
            == hash::applied_hash(&wanted_values(item)).as_str()
        // Annotations are copied along with an object, by `kubectl get -o yaml` or an export; ownership is not.
        && owned(live)
}

/// Whether we own any field of an object.
pub(crate) fn owned(live: &Value) -> bool {
    let entries = live["metadata"]["managedFields"].as_array();
    entries.is_some_and(|entries| {
        let mut managers = entries.iter().map(|entry| &entry["manager"]);
        managers.any(|manager| manager == FIELD_MANAGER)
    })
}
