//! What the server would make of an item.

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

/// Asks the server, which changes nothing.
///
/// The first question is without force: who owns what the item wants otherwise is told in the answer.
pub async fn preview(client: &Client, snapshot: &Snapshot, item: &Item) -> Result<Preview, Error> {
    let target = &item.target_ref;
    let (api, _) = cluster::target(client, snapshot, target)?;
    let live = api
        .get(&target.name)
        .await
        .or_absent()
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
            let asked = apply(&api, &target.name, desired, Force::No, Mode::DryRun).await;
            let result = match asked {
                Err(Answer::Conflicts(conflicts)) => {
                    preview.conflicts = conflicts;
                    apply(&api, &target.name, desired, Force::Yes, Mode::DryRun).await
                }
                other => other,
            };
            match result {
                Ok(result) => preview.result = Some(whole(&result)),
                Err(answer) => {
                    preview.refused =
                        Some(answer.refusal(&format!("asking what applying {target} would do"))?);
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
                    let answer = Answer::from(error);
                    preview.refused = Some(answer.refusal(&format!(
                        "asking what giving back fields of {target} would do"
                    ))?);
                }
            }
        }
    }
    Ok(preview)
}

/// Whether fields may be taken from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// Conflicts are answered with an error.
    No,
    /// Conflicting fields change hands.
    Yes,
}

/// Whether it is done or only tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing is changed.
    DryRun,
    /// It is done.
    ForReal,
}

/// Why a write was not done.
#[derive(Debug)]
pub(super) enum Answer {
    /// Others own fields that are wanted otherwise.
    Conflicts(Vec<Conflict>),
    /// The object is not the one that was read.
    Overtaken,
    /// The server says no, and will say so again.
    Refused(kube::Error),
    /// The server could not be asked.
    Trouble(kube::Error),
}

impl From<kube::Error> for Answer {
    fn from(error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Trouble(error);
        };
        match status.code {
            409 => {
                let conflicts = ownership::conflicts(status);
                if conflicts.is_empty() {
                    Self::Overtaken
                } else {
                    Self::Conflicts(conflicts)
                }
            }
            429 => Self::Trouble(error),
            400..500 => Self::Refused(error),
            _ => Self::Trouble(error),
        }
    }
}

impl Answer {
    /// What the server says against it; an error if that may be otherwise the next time.
    pub(super) fn refusal(self, operation: &str) -> Result<String, Error> {
        match self {
            Self::Refused(kube::Error::Api(status)) => Ok(status.message),
            Self::Refused(error) | Self::Trouble(error) => Err(Error::api(operation)(error)),
            Self::Conflicts(_) | Self::Overtaken => Err(Error::Invalid(format!(
                "{operation}: somebody else was faster"
            ))),
        }
    }
}

/// Applies an object, or tries to.
pub(super) async fn apply(
    api: &Api<DynamicObject>,
    name: &str,
    desired: &Value,
    force: Force,
    mode: Mode,
) -> Result<DynamicObject, Answer> {
    let mut params = PatchParams::apply(FIELD_MANAGER);
    if force == Force::Yes {
        params = params.force();
    }
    if mode == Mode::DryRun {
        params = params.dry_run();
    }
    Ok(api.patch(name, &params, &Patch::Apply(desired)).await?)
}
