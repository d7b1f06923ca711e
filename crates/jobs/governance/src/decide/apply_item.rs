//! Applies one item under its lock, request by request.
//!
//! ```text
//! Read --lock--> dry run --> Apply                             (Apply)
//!   ^      \---> Delete                                        (Delete)
//!   |       \--> Merge, once per former manager --> release    (Restore)
//!   `-- the target changed since: read it again, up to MAX_ATTEMPTS times
//! ```
//!
//! The target is compared with the state the plan was made from, and written with the resourceVersion it was read with.

use std::collections::{BTreeMap, VecDeque};

use api::advisor::{Deviation, FIELD_MANAGER, Operation, names};
use serde_json::{Value, json};

use super::execute::takeovers_without_consent;
use super::{Executed, Execution, Lock, lock};
use crate::exchange::{Next, Request, Response};
use crate::snapshot::Kind;
use crate::{deviation, ownership, plan, restore};

/// Attempts at a target that other managers keep changing before the reconcile fails and is requeued.
///
/// `RetryOnConflict` of client-go stops after 5 (`DefaultRetry` in util/retry/util.go). Here a dry run lies between the
/// read and the write, which makes a conflict likelier.
pub const MAX_ATTEMPTS: usize = 8;

/// The execution of one item.
#[derive(Debug)]
pub struct ItemExecution<'a> {
    execution: &'a Execution,
    config: &'a str,
    kind: Option<&'a Kind>,
    attempts: usize,
    /// The target before the write.
    before: Option<Value>,
    step: ItemStep,
}

/// The request that is under way.
#[derive(Debug)]
enum ItemStep {
    Read,
    DryRun {
        live: Value,
        desired: Value,
    },
    /// Values are restored; these managers and their fields are left.
    Restore(VecDeque<(String, Vec<String>)>),
    /// The last request.
    Last,
}

impl<'a> ItemExecution<'a> {
    /// Starts with the first request. `config` is the name of the configuration, `kind` that of the target.
    pub fn start(
        execution: &'a Execution,
        config: &'a str,
        kind: Option<&'a Kind>,
    ) -> (Self, Request) {
        let started = Self {
            execution,
            config,
            kind,
            attempts: 1,
            before: None,
            step: ItemStep::Read,
        };
        (started, Request::Read)
    }

    /// Takes the response to the last request.
    pub fn next(&mut self, response: Response) -> Next<Executed> {
        let step = std::mem::replace(&mut self.step, ItemStep::Read);
        match (step, response) {
            (ItemStep::Read, Response::Object(live)) => self.attempt(live),
            // Still without force: a manager that takes a field after the dry run causes a conflict, and the item
            // starts again.
            (ItemStep::DryRun { desired, .. }, Response::Object(_)) => self.apply(desired, false),
            (ItemStep::DryRun { live, desired }, Response::Conflicts(conflicts)) => {
                let conflicts = ownership::chosen(conflicts, &live, self.kind);
                // `None`: whether a field was ours is decided by the approved plan, not by the state at this moment.
                let takeovers = ownership::takeovers(&conflicts, &live, &desired, None);
                let without_consent = takeovers_without_consent(self.execution, &takeovers);
                if !without_consent.is_empty() {
                    return Next::Finished(Executed::WithoutConsent(without_consent));
                }
                // Force overrides all conflicts, also unknown ones. The resourceVersion in `desired` excludes those.
                self.apply(desired, true)
            }
            (ItemStep::Restore(left), Response::Object(now)) => {
                self.restore(&now.unwrap_or_default(), left)
            }
            (ItemStep::Last, Response::Object(kept)) => Next::Finished(self.outcome(kept.as_ref())),
            (_, Response::Rejected(why)) => Next::Finished(Executed::Refused(why)),
            (_, Response::NoNamespace(name)) => {
                Next::Finished(Executed::Refused(format!("namespace {name} not found")))
            }
            (_, Response::Outdated | Response::Conflicts(_)) => self.read_again(),
        }
    }

    fn read_again(&mut self) -> Next<Executed> {
        if self.attempts == MAX_ATTEMPTS {
            let item = &self.execution.item;
            return Next::GiveUp(format!(
                "applying item '{}' to {}: the object was modified on every attempt",
                item.name, item.target_ref
            ));
        }
        self.attempts += 1;
        self.step = ItemStep::Read;
        Next::Send(Request::Read)
    }

    fn attempt(&mut self, live: Option<Value>) -> Next<Executed> {
        let Execution { item, bypass, .. } = self.execution;
        match lock(item, live.as_ref(), self.config, *bypass) {
            // Applied before a kill: what the dry run of the plan predicted.
            Lock::Done => return Next::Finished(kept_as(item.deviations.clone())),
            Lock::Stale(why) => return Next::Finished(Executed::Stale(why)),
            Lock::Free => {}
        }
        self.before.clone_from(&live);
        match (item.operation, live) {
            // There is no resourceVersion to send. If another client creates the object now, the apply without force
            // either conflicts, and the next read finds the plan stale, or touches no field of theirs.
            (Operation::Apply, None) => {
                let desired = item.desired_state.clone().unwrap_or_default();
                self.apply(desired, false)
            }
            (Operation::Apply, Some(live)) => self.dry_run(live),
            (Operation::Delete, Some(live)) => self.delete(&live),
            (Operation::Restore, Some(live)) => {
                let by_manager = by_manager(&item.managed_fields, &self.execution.owners);
                self.restore(&live, by_manager.into_iter().collect())
            }
            (Operation::Delete | Operation::Restore, None) => Next::Finished(Executed::Done),
        }
    }

    /// The result of the last write, by the object in its response.
    fn outcome(&self, kept: Option<&Value>) -> Executed {
        let item = &self.execution.item;
        let compare = |kept| deviation::deviations(item, self.before.as_ref(), kept, self.kind);
        kept_as(kept.map(compare).unwrap_or_default())
    }

    fn dry_run(&mut self, live: Value) -> Next<Executed> {
        let item = &self.execution.item;
        let mut desired = item.desired_state.clone().unwrap_or_default();
        // Optimistic lock: the API server rejects the write if the object changed since it was read.
        desired["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        let object = desired.clone();
        self.step = ItemStep::DryRun { live, desired };
        Next::Send(Request::Apply {
            object,
            force: false,
            dry_run: true,
        })
    }

    fn apply(&mut self, object: Value, force: bool) -> Next<Executed> {
        self.step = ItemStep::Last;
        Next::Send(Request::Apply {
            object,
            force,
            dry_run: false,
        })
    }

    fn delete(&mut self, live: &Value) -> Next<Executed> {
        let (target, config) = (&self.execution.item.target_ref, self.config);
        let metadata = &live["metadata"];
        if metadata["annotations"][names::GOVERNED_BY] != config {
            return Next::Finished(Executed::Stale(format!(
                "{target} is no longer annotated as governed by {config}; not deleting it"
            )));
        }
        let text = |name: &str| metadata[name].as_str().map(str::to_owned);
        self.step = ItemStep::Last;
        // The uid protects an object that was recreated under the name, the resourceVersion one that lost our mark
        // since the read.
        Next::Send(Request::Delete {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        })
    }

    /// Restores the previous values in the name of their former field managers, then releases our own fields.
    fn restore(
        &mut self,
        now: &Value,
        mut left: VecDeque<(String, Vec<String>)>,
    ) -> Next<Executed> {
        let item = &self.execution.item;
        let revision = &now["metadata"]["resourceVersion"];
        let mut before = plan::wanted_values(item);
        // Values first, the release last. Released first, fields would be absent until they are restored, and operators
        // would act on their defaults; a kill in between would leave it so.
        while let Some((manager, paths)) = left.pop_front() {
            let before: BTreeMap<_, _> = paths
                .iter()
                .filter_map(|path| before.remove_entry(path))
                .collect();
            let mut patch = restore::merge_patch(now, &before, &paths);
            if let Some(entries) = ownership::hand_over(now, &before, &manager) {
                patch["metadata"]["managedFields"] = entries;
            }
            if patch == json!({}) {
                continue;
            }
            patch["metadata"]["resourceVersion"] = revision.clone();
            self.step = ItemStep::Restore(left);
            return Next::Send(Request::Merge {
                manager,
                patch,
                dry_run: false,
            });
        }
        // Applying an object without fields releases ours: the API server removes those that no other manager owns.
        let mut object = plan::identity(&item.target_ref, &json!({}));
        object["metadata"]["resourceVersion"] = revision.clone();
        self.apply(object, true)
    }
}

fn kept_as(deviations: Vec<Deviation>) -> Executed {
    if deviations.is_empty() {
        Executed::Done
    } else {
        Executed::Kept(deviations)
    }
}

/// The fields to restore, by former field manager.
fn by_manager(
    managed: &[String],
    owners: &BTreeMap<String, String>,
) -> BTreeMap<String, Vec<String>> {
    let mut grouped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in managed {
        let owner = owners
            .get(path)
            // What we owned before is released with everything else in the last request, so another manager has to hold
            // it.
            .filter(|owner| *owner != FIELD_MANAGER)
            .cloned()
            .unwrap_or_else(|| plan::ROLLBACK_MANAGER.to_owned());
        grouped.entry(owner).or_default().push(path.clone());
    }
    grouped
}
