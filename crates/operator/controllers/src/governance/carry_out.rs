//! Carrying out one item under its lock.
//!
//! The target is read, compared with what the plan was made from, and written on the condition that
//! it is still the one that was read: the server refuses if it is not, and it is read again.

use std::collections::BTreeMap;

use api::advisor::{FIELD_MANAGER, Operation, TargetRef, names};
use governance::decide::{Executed, Execution, Lock, lock, unagreed};
use governance::snapshot::whole;
use governance::{Snapshot, ownership, plan, restore};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use runtime::{Absent as _, Error};
use serde_json::{Value, json};

use super::cluster::{self, Written};
use super::preview::{Answer, Force, Mode, apply};

/// How often a target that others write all the time is read again before others get their turn.
const TRIES: usize = 8;

/// Carries out an item; what was written, if anything was.
pub(super) async fn carry_out(
    client: &Client,
    snapshot: &Snapshot,
    config: &str,
    execution: &Execution,
) -> Result<(Executed, Option<Written>), Error> {
    let item = &execution.item;
    let target = &item.target_ref;
    let (api, kind) = cluster::target(client, snapshot, target)?;
    for _ in 0..TRIES {
        let read = api
            .get(&target.name)
            .await
            .or_absent()
            .map_err(Error::api(format!("reading {target}")))?;
        let live = read.as_ref().map(whole);
        match lock(item, live.as_ref(), config, execution.bypass) {
            Lock::Done => return Ok((Executed::Done, None)),
            Lock::Stale(why) => return Ok((Executed::Stale(why), None)),
            Lock::Free => {}
        }
        let tried = match item.operation {
            Operation::Apply => try_apply(&api, execution, live.as_ref()).await,
            Operation::Delete => match &read {
                Some(read) => try_delete(&api, config, target, read).await,
                None => Ok(None),
            },
            Operation::Restore => match &live {
                Some(live) => try_restore(&api, execution, live).await,
                None => Ok(None),
            },
        };
        return match tried {
            Ok(object) => {
                let meta = read.map(|read| read.metadata).unwrap_or_default();
                Ok((Executed::Done, Some(written(kind, meta, object))))
            }
            Err(Tried::Unagreed(result)) => Ok((result, None)),
            Err(Tried::Answer(Answer::Overtaken | Answer::Conflicts(_))) => continue,
            Err(Tried::Answer(answer)) => {
                let why = answer.refusal(&format!("carrying out '{}' on {target}", item.name))?;
                Ok((Executed::Refused(why), None))
            }
        };
    }
    Err(Error::Invalid(format!(
        "carrying out '{}' on {target}: it changed every time it was about to be written",
        item.name
    )))
}

fn written(
    kind: GroupVersionKind,
    meta: kube::core::ObjectMeta,
    object: Option<DynamicObject>,
) -> Written {
    Written { kind, meta, object }
}

/// Why a try came to nothing.
enum Tried {
    /// The server's answer.
    Answer(Answer),
    /// It would take what nobody agreed to, or is not ours.
    Unagreed(Executed),
}

impl From<Answer> for Tried {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<kube::Error> for Tried {
    fn from(error: kube::Error) -> Self {
        Self::Answer(error.into())
    }
}

async fn try_apply(
    api: &Api<DynamicObject>,
    execution: &Execution,
    live: Option<&Value>,
) -> Result<Option<DynamicObject>, Tried> {
    let name = &execution.item.target_ref.name;
    let mut desired = execution.item.desired_state.clone().unwrap_or_default();
    let Some(live) = live else {
        return Ok(Some(
            apply(api, name, &desired, Force::No, Mode::ForReal).await?,
        ));
    };
    // The write holds for the object that was read, and for no other.
    desired["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let force = match apply(api, name, &desired, Force::No, Mode::DryRun).await {
        Ok(_) => Force::No,
        Err(Answer::Conflicts(conflicts)) => {
            let takeovers = ownership::takeovers(&conflicts, live, &desired, None);
            let unagreed = unagreed(execution, &takeovers);
            if !unagreed.is_empty() {
                return Err(Tried::Unagreed(Executed::Unagreed(unagreed)));
            }
            Force::Yes
        }
        Err(answer) => return Err(answer.into()),
    };
    Ok(Some(
        apply(api, name, &desired, force, Mode::ForReal).await?,
    ))
}

async fn try_delete(
    api: &Api<DynamicObject>,
    config: &str,
    target: &TargetRef,
    read: &DynamicObject,
) -> Result<Option<DynamicObject>, Tried> {
    let annotations = read.metadata.annotations.clone().unwrap_or_default();
    if annotations.get(names::GOVERNED_BY).map(String::as_str) != Some(config) {
        let why =
            format!("{target} is not marked as governed by {config} any more: it is left alone");
        return Err(Tried::Unagreed(Executed::Stale(why)));
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: read.metadata.uid.clone(),
            resource_version: read.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match api.delete(&target.name, &params).await.or_absent()? {
        Some(_) | None => Ok(None),
    }
}

/// Gives values back to those who owned them, then lets go of what we own.
async fn try_restore(
    api: &Api<DynamicObject>,
    execution: &Execution,
    live: &Value,
) -> Result<Option<DynamicObject>, Tried> {
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
        let answer = api
            .patch(&item.target_ref.name, &params, &Patch::Merge(&patch))
            .await?;
        now = whole(&answer);
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
    // An object with nothing in it: what was ours alone goes, what others own as well stays.
    Ok(Some(
        apply(api, &target.name, &identity, Force::Yes, Mode::ForReal).await?,
    ))
}

/// The fields that each former owner gets back.
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
