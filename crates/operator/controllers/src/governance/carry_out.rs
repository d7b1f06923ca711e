//! Applying one item under its lock.
//!
//! The controller reads the target, compares it with the state the plan was made from, and writes it with the
//! resourceVersion it read. If the API server reports a conflict, it reads the target again.

use std::collections::BTreeMap;

use api::advisor::{FIELD_MANAGER, Operation, TargetRef, names};
use governance::decide::{Executed, Execution, Lock, lock, takeovers_without_consent};
use governance::snapshot::whole;
use governance::{Snapshot, ownership, plan, restore};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use runtime::{Absent as _, Error};
use serde_json::{Value, json};

use super::cluster::{self, TargetWrite};
use super::preview::{Force, Mode, WriteError, apply};

/// Attempts at a target that other managers keep changing before the reconcile fails and is requeued.
const MAX_WRITE_ATTEMPTS: usize = 8;

/// Applies an item; also returns the write, if there was one.
pub(super) async fn carry_out(
    client: &Client,
    snapshot: &Snapshot,
    config: &str,
    execution: &Execution,
) -> Result<(Executed, Option<TargetWrite>), Error> {
    let item = &execution.item;
    let target = &item.target_ref;
    let (api, kind) = cluster::target(client, snapshot, target)?;
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let read = api
            .get(&target.name)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("reading {target}")))?;
        let live = read.as_ref().map(whole);
        match lock(item, live.as_ref(), config, execution.bypass) {
            Lock::Done => return Ok((Executed::Done, None)),
            Lock::Stale(why) => return Ok((Executed::Stale(why), None)),
            Lock::Free => {}
        }
        let attempt = match item.operation {
            Operation::Apply => attempt_apply(&api, execution, live.as_ref()).await,
            Operation::Delete => match &read {
                Some(read) => attempt_delete(&api, config, target, read).await,
                None => Ok(None),
            },
            Operation::Restore => match &live {
                Some(live) => attempt_restore(&api, execution, live).await,
                None => Ok(None),
            },
        };
        return match attempt {
            Ok(object) => {
                let meta = read.map(|read| read.metadata).unwrap_or_default();
                Ok((Executed::Done, Some(written(kind, meta, object))))
            }
            Err(AttemptError::Abandoned(result)) => Ok((result, None)),
            Err(AttemptError::Write(WriteError::Outdated | WriteError::Conflicts(_))) => continue,
            Err(AttemptError::Write(error)) => {
                let why = error.refusal(&format!("applying item '{}' to {target}", item.name))?;
                Ok((Executed::Refused(why), None))
            }
        };
    }
    Err(Error::Invalid(format!(
        "applying item '{}' to {target}: the object was modified on every attempt",
        item.name
    )))
}

fn written(
    kind: GroupVersionKind,
    meta: kube::core::ObjectMeta,
    object: Option<DynamicObject>,
) -> TargetWrite {
    TargetWrite { kind, meta, object }
}

/// Why an attempt wrote nothing.
enum AttemptError {
    /// The API server rejected the write.
    Write(WriteError),
    /// It would take fields without consent, or delete an object that is not ours.
    Abandoned(Executed),
}

impl From<WriteError> for AttemptError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<kube::Error> for AttemptError {
    fn from(error: kube::Error) -> Self {
        Self::Write(error.into())
    }
}

async fn attempt_apply(
    api: &Api<DynamicObject>,
    execution: &Execution,
    live: Option<&Value>,
) -> Result<Option<DynamicObject>, AttemptError> {
    let name = &execution.item.target_ref.name;
    let mut desired = execution.item.desired_state.clone().unwrap_or_default();
    let Some(live) = live else {
        return Ok(Some(
            apply(api, name, &desired, Force::No, Mode::Commit).await?,
        ));
    };
    // Optimistic lock: the API server rejects the write if the object changed since it was read.
    desired["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let force = match apply(api, name, &desired, Force::No, Mode::DryRun).await {
        Ok(_) => Force::No,
        Err(WriteError::Conflicts(conflicts)) => {
            let takeovers = ownership::takeovers(&conflicts, live, &desired, None);
            let takeovers_without_consent = takeovers_without_consent(execution, &takeovers);
            if !takeovers_without_consent.is_empty() {
                return Err(AttemptError::Abandoned(Executed::WithoutConsent(
                    takeovers_without_consent,
                )));
            }
            Force::Yes
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(apply(api, name, &desired, force, Mode::Commit).await?))
}

async fn attempt_delete(
    api: &Api<DynamicObject>,
    config: &str,
    target: &TargetRef,
    read: &DynamicObject,
) -> Result<Option<DynamicObject>, AttemptError> {
    let annotations = read.metadata.annotations.clone().unwrap_or_default();
    if annotations.get(names::GOVERNED_BY).map(String::as_str) != Some(config) {
        let why =
            format!("{target} is no longer annotated as governed by {config}; not deleting it");
        return Err(AttemptError::Abandoned(Executed::Stale(why)));
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: read.metadata.uid.clone(),
            resource_version: read.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match api
        .delete(&target.name, &params)
        .await
        .not_found_as_none()?
    {
        Some(_) | None => Ok(None),
    }
}

/// Restores the previous values in the name of their former field managers, then releases our own fields.
async fn attempt_restore(
    api: &Api<DynamicObject>,
    execution: &Execution,
    live: &Value,
) -> Result<Option<DynamicObject>, AttemptError> {
    let item = &execution.item;
    let before = plan::wanted_values(item);
    let mut revision = live["metadata"]["resourceVersion"].clone();
    let mut now = live.clone();
    for (manager, paths) in by_owner(&item.managed_fields, &execution.owners) {
        let before: BTreeMap<_, _> = before
            .iter()
            .filter(|(path, _)| paths.contains(path))
            .map(|(path, value)| (path.clone(), value.clone()))
            .collect();
        let mut patch = restore::merge_patch(&now, &before, &paths);
        if patch == json!({}) {
            continue;
        }
        patch["metadata"]["resourceVersion"] = revision;
        let params = PatchParams {
            field_manager: Some(manager),
            ..PatchParams::default()
        };
        let patched = api
            .patch(&item.target_ref.name, &params, &Patch::Merge(&patch))
            .await?;
        now = whole(&patched);
        revision = now["metadata"]["resourceVersion"].clone();
    }
    let target = &item.target_ref;
    let mut identity = json!({
        "apiVersion": target.api_version,
        "kind": target.kind,
        "metadata": { "name": target.name, "resourceVersion": revision },
    });
    if let Some(namespace) = &target.namespace {
        identity["metadata"]["namespace"] = json!(namespace);
    }
    // Applying an object without fields releases ours: the API server removes those that no other manager owns.
    Ok(Some(
        apply(api, &target.name, &identity, Force::Yes, Mode::Commit).await?,
    ))
}

/// The fields to restore, by former field manager.
fn by_owner(
    managed: &[String],
    owners: &BTreeMap<String, String>,
) -> BTreeMap<String, Vec<String>> {
    let mut grouped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in managed {
        let owner = owners
            .get(path)
            .filter(|owner| *owner != FIELD_MANAGER)
            .cloned()
            .unwrap_or_else(|| plan::ROLLBACK_MANAGER.to_owned());
        grouped.entry(owner).or_default().push(path.clone());
    }
    grouped
}
