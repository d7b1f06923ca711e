//! Calls all webhooks that match a request.

use std::collections::BTreeSet;

use futures::stream::{FuturesUnordered, StreamExt as _};
use machinery::status::Status;
use serde_json::Value;

use super::attributes::Attributes;
use super::call::{self, Failure};
use super::conditions;
use super::hooks::Hook;
use super::matching::{self, Invocation};
use super::review;
use super::versions::Versioned;

/// State of the first round of mutating webhooks for the second one.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// A webhook changed the object.
    pub(super) changed: bool,
    second: bool,
    /// Webhooks that were called and have to be reinvoked after later changes.
    called: BTreeSet<String>,
    /// Webhooks to reinvoke.
    again: BTreeSet<String>,
    /// The object after the last webhook of the round.
    left: Value,
}

impl Rounds {
    pub(super) fn begin_second(&mut self) {
        self.second = true;
    }

    fn object_changed(&mut self) {
        self.again.append(&mut self.called);
    }
}

/// Calls mutating webhooks one after the other, each with the result of the previous one.
pub(super) async fn mutate(
    attributes: &Attributes<'_>,
    hooks: &[Hook],
    object: &mut Value,
    old: Option<&Value>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    if rounds.second && rounds.left != *object {
        // Built-in plugins changed it.
        rounds.object_changed();
    }
    let mut versioned: Option<Versioned<'_>> = None;
    for hook in hooks {
        let (object_now, old_now) = match &versioned {
            Some(versioned) => (&versioned.object, old),
            None => (&*object, old),
        };
        let Some(invocation) = matching::find(&hook.selection, attributes, object_now, old_now)?
        else {
            continue;
        };
        let versioned = versioned.get_or_insert_with(|| Versioned::new(attributes, &*object, old));
        versioned.convert(&invocation);
        if !conditions_hold(hook, attributes, &invocation, versioned)? {
            continue;
        }
        // Webhooks that were not called in the first round are not called in the second.
        // As `mutating/reinvocationcontext.go`: only webhooks with `reinvocationPolicy: IfNeeded`
        // that saw an older object than the final one run again, once, so that two webhooks cannot
        // change an object back and forth.
        if rounds.second && !rounds.again.contains(&hook.id) {
            continue;
        }
        let outcome = ask_and_patch(hook, attributes, &invocation, versioned).await;
        if matches!(outcome, Ok(true)) {
            rounds.object_changed();
            rounds.changed = true;
        }
        // After `object_changed`: a webhook's own change is no reason to call it again.
        if hook.reinvoked {
            rounds.called.insert(hook.id.clone());
        }
        if let Err(failure) = outcome
            && let Some(status) = failure.into_status(hook)
        {
            return Err(status);
        }
    }
    if let Some(versioned) = versioned {
        *object = versioned.into_requested();
    }
    rounds.left = object.clone();
    Ok(())
}

async fn ask_and_patch(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    versioned: &mut Versioned<'_>,
) -> Result<bool, Failure> {
    let objects = (&versioned.object, &versioned.old);
    let answer = call::ask(hook, attributes, invocation, objects, true).await?;
    call::patch(hook, &answer, versioned)
}

/// Calls validating webhooks concurrently; the first rejection is returned, after all have
/// finished.
pub(super) async fn validate(
    attributes: &Attributes<'_>,
    hooks: &[Hook],
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let mut questions = Vec::new();
    for hook in hooks {
        let Some(invocation) = matching::find(&hook.selection, attributes, object, old)? else {
            continue;
        };
        let mut versioned = Versioned::new(attributes, object, old);
        versioned.convert(&invocation);
        if conditions_hold(hook, attributes, &invocation, &versioned)? {
            questions.push((hook, invocation, versioned));
        }
    }
    let mut answers: FuturesUnordered<_> = questions
        .iter()
        .map(|(hook, invocation, versioned)| async move {
            let objects = (&versioned.object, &versioned.old);
            let outcome = call::ask(hook, attributes, invocation, objects, false).await;
            outcome.err().and_then(|failure| failure.into_status(hook))
        })
        .collect();
    let mut refused = None;
    while let Some(refusal) = answers.next().await {
        // The others are not cancelled: a webhook with side effects has been asked anyway, and its
        // warnings belong to the response.
        refused = refused.or(refusal);
    }
    refused.map_or(Ok(()), Err)
}

/// Whether the conditions of a webhook hold; errors follow its failure policy.
fn conditions_hold(
    hook: &Hook,
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    versioned: &Versioned<'_>,
) -> Result<bool, Status> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let request = Value::Object(review::request(attributes, invocation));
    let values = [
        ("object", &versioned.object),
        ("oldObject", &versioned.old),
        ("request", &request),
    ];
    match conditions::hold(&hook.conditions, &values) {
        Ok(hold) => Ok(hold),
        // A condition that cannot be evaluated skips the webhook under `Ignore`, as a webhook that
        // cannot be reached would be.
        Err(_) if hook.ignore_failure => Ok(false),
        Err(why) => Err(Status::forbidden(
            Some(&attributes.target.group_resource()),
            attributes.name,
            &why,
        )),
    }
}
