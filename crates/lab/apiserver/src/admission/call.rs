//! Calls one webhook.

use std::time::Duration;

use machinery::json::go_quote;
use machinery::patch::{JsonPatch, PatchError};
use machinery::status::Status;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::attributes::Attributes;
use super::hooks::Hook;
use super::matching::Invocation;
use super::review::{self, Answer, InvalidResponse};
use super::versions::Versioned;
use crate::builtin::value::same;

/// Why a webhook did not allow a request.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call failed: its failure policy decides.
    Call(String),
    /// The request is rejected regardless of the policy.
    Refused(Box<Status>),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl Failure {
    /// The response to the request; `None` when the failure is to be ignored.
    pub(super) fn into_status(self, hook: &Hook) -> Option<Status> {
        match self {
            Self::Refused(status) => Some(*status),
            Self::Call(why) if hook.ignore_failure => {
                tracing::warn!(webhook = hook.name, why, "a webhook failed and is ignored");
                None
            }
            Self::Call(why) => {
                tracing::warn!(webhook = hook.name, why, "a webhook failed");
                let why = format!("failed calling webhook {}: {why}", go_quote(&hook.name));
                Some(Status::internal(&why))
            }
        }
    }
}

/// Calls a webhook; its warnings are passed to the client in any case.
pub(super) async fn ask(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    objects: (&Value, &Value),
    mutating: bool,
) -> Result<Answer, Failure> {
    if attributes.dry_run {
        check_side_effects(hook)?;
    }
    let version = review::version(&hook.versions).ok_or_else(|| {
        Failure::Call(
            "could not create admission objects: webhook does not accept known AdmissionReview \
             versions (v1, v1beta1)"
                .to_owned(),
        )
    })?;
    let uid = Uuid::new_v4().to_string();
    let request = review::request(attributes, invocation);
    let question = review::question(version, &uid, request, objects.0, objects.1);
    let deadline = deadline(hook, attributes.context.deadline);
    let state = &attributes.context.state;
    let body = state
        .hooks
        .clients
        .post(state, &hook.endpoint, question.into(), deadline)
        .await
        .map_err(|error| Failure::Call(error.text()))?;
    let answer = review::answer(version, &uid, mutating, &body).map_err(|unfit| {
        Failure::Call(match unfit {
            InvalidResponse::Unreadable(why) => format!("failed to call webhook: {why}"),
            InvalidResponse::Invalid(why) => format!("received invalid webhook response: {why}"),
        })
    })?;
    attributes.context.warn_all(answer.warnings.iter().cloned());
    if answer.allowed {
        Ok(answer)
    } else {
        Err(review::denial(&hook.name, answer.result).into())
    }
}

/// The timeout of a webhook, bounded by the deadline of the request.
fn deadline(hook: &Hook, request: Instant) -> Instant {
    // The maximum of `timeoutSeconds`; objects of before its default have none.
    let longest = Duration::from_secs(30);
    request.min(Instant::now() + hook.timeout.unwrap_or(longest))
}

fn check_side_effects(hook: &Hook) -> Result<(), Failure> {
    match hook.side_effects.as_deref() {
        // A failed call, subject to the failure policy; a declared side effect below rejects the
        // dry run in any case. Calling it would do for real what the client only wanted to preview.
        None => Err(Failure::Call("Webhook SideEffects is nil".to_owned())),
        Some("None" | "NoneOnDryRun") => Ok(()),
        Some(_) => Err(Status::bad_request(format!(
            "admission webhook {} does not support dry run",
            go_quote(&hook.name)
        ))
        .into()),
    }
}

/// Applies the patch of a response; returns whether it changed the object.
pub(super) fn patch(
    hook: &Hook,
    answer: &Answer,
    versioned: &mut Versioned<'_>,
) -> Result<bool, Failure> {
    if answer.patch.is_empty() {
        return Ok(false);
    }
    let patch = JsonPatch::decode(&answer.patch, false).map_err(|error| {
        Failure::Call(format!(
            "received undecodable patch in webhook response: {error}"
        ))
    })?;
    if patch.is_empty() {
        return Ok(false);
    }
    let internal = |why: &str| Failure::from(Status::internal(why));
    if versioned.object.is_null() {
        return Err(internal(&format!(
            "admission webhook {} attempted to modify the object, which is not supported for this \
             operation",
            go_quote(&hook.name)
        )));
    }
    if answer.patch_type != "JSONPatch" {
        let kind = go_quote(&answer.patch_type);
        return Err(Failure::Call(format!("unsupported patch type {kind}")));
    }
    // A patch that does not apply is a defect of the webhook, and an internal error even under
    // `failurePolicy: Ignore`: the object would be admitted with half of what the webhook wanted.
    let patched = patch.apply(versioned.object.clone());
    let patched = patched.map_err(|error| match error {
        PatchError::Unprocessable(why) => internal(&why),
        other => internal(&other.to_string()),
    })?;
    let Some(resource) = versioned.resource() else {
        let changed = !same(&patched, &versioned.object);
        versioned.object = patched;
        return Ok(changed);
    };
    let decoded = if versioned.whole {
        resource
            .strategy
            .decode(patched)
            .map_err(|why| internal(&why))?
            .object
    } else {
        patched
    };
    let changed = !same(&decoded, &versioned.object);
    let mut object = decoded;
    if versioned.whole {
        // The next webhook, and validation, see a complete object, as if the client had sent the
        // patched one.
        resource.strategy.default(&mut object);
    }
    versioned.object = object;
    Ok(changed)
}
