//! Admission: plugins, policies and webhooks that mutate or reject a write, besides the rules of
//! its kind.
//!
//! ```text
//! admit:     built-in plugins -> mutating webhooks, one after the other
//!            (a webhook changed the object: plugins once more, then webhooks to be reinvoked)
//! validate:  built-in plugins -> policies -> validating webhooks, all at once
//! ```
//!
//! The REST layer calls [`admit`] before a write is validated by its kind, and [`validate`] after
//! that. No lock is held meanwhile: a write that loses the race for the object starts over,
//! admission included. New built-in plugins go into [`plugins`].

mod accounts;
mod attributes;
mod call;
mod client;
mod conditions;
mod dispatch;
mod hooks;
mod matching;
mod plugins;
mod policies;
mod review;
mod service;
#[cfg(test)]
mod tests;
mod versions;

use machinery::field::{Path, aggregate};
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

pub(crate) use attributes::{Attributes, Operation, Options, Target};
pub(crate) use hooks::HookSource;
pub(crate) use plugins::{before_delete, on_deleting};

use dispatch::Rounds;

/// Lets plugins and webhooks mutate a new object, or reject the request. For a delete the new
/// object is null.
pub(crate) async fn admit(
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    plugins::admit(attributes, object, old)?;
    accounts::admit(attributes, object).await?;
    let Some(hooks) = attributes.hooks()? else {
        return Ok(());
    };
    if hooks.mutating.is_empty() {
        return Ok(());
    }
    // Copied before the first webhook: many of them decode into an older Go type and send back
    // managed fields that they cannot represent.
    let owners = meta::managed_fields(object).to_vec();
    let mut rounds = Rounds::default();
    // Boxed, as below: the webhook future must not enlarge every write.
    Box::pin(dispatch::mutate(
        attributes,
        &hooks.mutating,
        object,
        old,
        &mut rounds,
    ))
    .await?;
    if rounds.changed {
        rounds.begin_second();
        plugins::admit(attributes, object, old)?;
        // Containers that a webhook added need the token too.
        accounts::admit(attributes, object).await?;
        Box::pin(dispatch::mutate(
            attributes,
            &hooks.mutating,
            object,
            old,
            &mut rounds,
        ))
        .await?;
    }
    keep_valid_owners(attributes, object, owners);
    Ok(())
}

/// Lets plugins, policies and webhooks validate the object to be stored.
pub(crate) async fn validate(
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    plugins::validate(attributes, object, old)?;
    let Some(hooks) = attributes.hooks()? else {
        return Ok(());
    };
    policies::enforce(attributes, &hooks.policies, object, old)?;
    if hooks.validating.is_empty() {
        return Ok(());
    }
    Box::pin(dispatch::validate(
        attributes,
        &hooks.validating,
        object,
        old,
    ))
    .await
}

/// Restores the managed fields, which record the owners of fields, if a webhook made them invalid
/// (`apiserver/pkg/endpoints/handlers/fieldmanager/admission.go`). The request is not rejected for
/// it: the client that sent it cannot repair the webhook.
fn keep_valid_owners(attributes: &Attributes<'_>, object: &mut Value, before: Vec<Value>) {
    let path = Path::new("metadata").child("managedFields");
    if meta::managed_fields(object) == before {
        return;
    }
    let errors = meta::validate_managed_fields(meta::managed_fields(object), &path);
    if !errors.is_empty() {
        meta::set_managed_fields(object, before);
        attributes.context.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused \
             by an outdated mutating admission controller; please fix your requests: {}",
            aggregate(&errors)
        ));
    }
}
