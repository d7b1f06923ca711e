//! Dry runs: what applying an item would change.

use api::advisor::{FIELD_MANAGER, Item, Operation};
use governance::ownership::{self, Conflict};
use governance::plan::{self, Preview};
use governance::snapshot::whole;
use governance::{Snapshot, restore};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Absent as _, Error};
use serde_json::Value;

use super::cluster;

/// Dry-runs an item on the API server.
///
/// The first dry run is without force: its conflicts name the field managers that the item would take fields from.
pub async fn preview(client: &Client, snapshot: &Snapshot, item: &Item) -> Result<Preview, Error> {
    let target = &item.target_ref;
    let (api, _) = cluster::target(client, snapshot, target)?;
    let live = api
        .get(&target.name)
        .await
        .not_found_as_none()
        .map_err(Error::api(format!("reading {target}")))?;
    let live = live.as_ref().map(whole);
    let mut preview = Preview {
        live,
        ..Preview::default()
    };
    match item.operation {
        Operation::Delete => {}
        Operation::Apply => {
            let Some(desired) = &item.desired_state else {
                return Ok(preview);
            };
            let dry_run = apply(&api, &target.name, desired, Force::No, Mode::DryRun).await;
            let result = match dry_run {
                Err(WriteError::Conflicts(conflicts)) => {
                    preview.conflicts = conflicts;
                    apply(&api, &target.name, desired, Force::Yes, Mode::DryRun).await
                }
                other => other,
            };
            match result {
                Ok(result) => preview.result = Some(whole(&result)),
                Err(answer) => {
                    preview.refused =
                        Some(answer.refusal(&format!("dry-running the apply of {target}"))?);
                }
            }
        }
        Operation::Restore => {
            let Some(live) = &preview.live else {
                return Ok(preview);
            };
            let patch =
                restore::merge_patch(live, &plan::wanted_values(item), &item.managed_fields);
            let params = PatchParams::default().dry_run();
            match api
                .patch(&target.name, &params, &Patch::Merge(&patch))
                .await
            {
                Ok(result) => preview.result = Some(plan::unmarked(whole(&result))),
                Err(error) => {
                    let answer = WriteError::from(error);
                    preview.refused =
                        Some(answer.refusal(&format!("dry-running the restore of {target}"))?);
                }
            }
        }
    }
    Ok(preview)
}

/// Whether to take fields from other managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// Fail on conflicts.
    No,
    /// Take conflicting fields over.
    Yes,
}

/// Whether the API server persists the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Validate and admit only.
    DryRun,
    /// Persist.
    Commit,
}

/// Why a write failed.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Other managers own fields that the item sets to other values.
    Conflicts(Vec<Conflict>),
    /// The object changed since it was read.
    Outdated,
    /// Rejected; retrying the same request cannot succeed.
    Rejected(kube::Error),
    /// The API server is unreachable or overloaded; retry.
    Transient(kube::Error),
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Transient(error);
        };
        match status.code {
            409 => {
                let conflicts = ownership::conflicts(status);
                if conflicts.is_empty() {
                    Self::Outdated
                } else {
                    Self::Conflicts(conflicts)
                }
            }
            429 => Self::Transient(error),
            400..500 => Self::Rejected(error),
            _ => Self::Transient(error),
        }
    }
}

impl WriteError {
    /// The message of the rejection; an error if a retry may succeed.
    pub(super) fn refusal(self, operation: &str) -> Result<String, Error> {
        match self {
            Self::Rejected(kube::Error::Api(status)) => Ok(status.message),
            Self::Rejected(error) | Self::Transient(error) => Err(Error::api(operation)(error)),
            Self::Conflicts(_) | Self::Outdated => Err(Error::Invalid(format!(
                "{operation}: the object was modified by another client"
            ))),
        }
    }
}

/// Server-side apply.
pub(super) async fn apply(
    api: &Api<DynamicObject>,
    name: &str,
    desired: &Value,
    force: Force,
    mode: Mode,
) -> Result<DynamicObject, WriteError> {
    let mut params = PatchParams::apply(FIELD_MANAGER);
    if force == Force::Yes {
        params = params.force();
    }
    if mode == Mode::DryRun {
        params = params.dry_run();
    }
    Ok(api.patch(name, &params, &Patch::Apply(desired)).await?)
}
