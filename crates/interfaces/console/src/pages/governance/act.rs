//! What is done about a plan: the same changes of the specification that the command line makes.

use ::governance::answer::{self, Choice, Refused};
use ::governance::recorder::{self, Recorder};
use api::advisor::{Action, VirtPlatformConfig};
use axum::extract::Path;
use axum::response::Response;
use controllers::governance::history::records;
use edits::Configs;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use serde_json::{Value, json};

use super::{PAGE, registry};
use crate::MANAGER;
use crate::error::Problem;
use crate::visitor::{Fields, Visitor};

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::invalid(refused.to_string())
    }
}

fn configs(visitor: &Visitor) -> Configs {
    Configs::new(visitor.client(), MANAGER)
}

fn page(name: &str) -> String {
    format!("{}/{name}", PAGE.path)
}

/// Writes a change, and goes on at the page of the configuration.
async fn change(
    visitor: &Visitor,
    config: &VirtPlatformConfig,
    patch: Value,
    said: &str,
    name: &str,
) -> Result<Response, Problem> {
    let changed = configs(visitor).change(config, patch).await?;
    visitor.viewer().saw(&changed).await;
    Ok(visitor.done(said, &page(name)))
}

pub(super) async fn approve(
    visitor: Visitor,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let items: Vec<String> = fields.all("item").map(str::to_owned).collect();
    if items.is_empty() {
        return Err(Problem::invalid(
            "No item is chosen. Tick those that are to be carried out, or reject the plan.",
        ));
    }
    let status = config.status.clone().unwrap_or_default();
    let all = items.len() == status.items.len();
    let taken: Vec<String> = fields.all("takeover").map(str::to_owned).collect();
    let approving = answer::approve(
        &config,
        Choice {
            items: if all { &[] } else { &items },
            // An empty list would stand for all.
            take_over: (!taken.is_empty()).then_some(&taken[..]),
            digest: Some(fields.need("digest")?),
        },
    )?;
    let changed = configs(&visitor).change(&config, approving.patch()).await?;
    visitor.viewer().saw(&changed).await;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(visitor.client().clone());
    // Users who cannot read registrations see what the operator reports a moment later.
    let recorder = match webhooks.get_opt(controllers::governance::WEBHOOK).await {
        Ok(found) => recorder::verify(found.as_ref(), None),
        Err(_) => Recorder::Trusted,
    };
    let said = match approving.held(&changed, &recorder, Timestamp::now()) {
        Ok(None) => "The plan is approved and is being carried out.".to_owned(),
        Ok(Some(held)) => format!("You approved the plan. It is not carried out yet: {held}"),
        Err(why) => format!("You approved the plan, but {why}"),
    };
    Ok(visitor.done(said, &page(&name)))
}

pub(super) async fn reject(
    visitor: Visitor,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let digest = fields.need("digest")?;
    if config
        .status
        .as_ref()
        .and_then(|it| it.plan_digest.as_deref())
        != Some(digest)
    {
        return Err(Problem::invalid(
            "The plan is another one by now. Look at it again before you reject it.",
        ));
    }
    let patch = answer::reject(&config, fields.get("reason"))?;
    change(&visitor, &config, patch, "The plan is rejected.", &name).await
}

/// Asks for a plan, anew if there is one.
pub(super) async fn plan(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let configs = configs(&visitor);
    let config = configs.get(&name).await?;
    let changed = configs.renew(&config).await?;
    visitor.viewer().saw(&changed).await;
    Ok(visitor.done("A plan is being made.", &page(&name)))
}

pub(super) async fn ignore(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let configs = configs(&visitor);
    let config = configs.get(&name).await?;
    let patch = json!({ "spec": { "action": Action::Ignore } });
    let changed = configs.change_whatever_is_planned(&config, patch).await?;
    visitor.viewer().saw(&changed).await;
    let said = "It is ignored from now on: nothing is planned, applied or watched.";
    Ok(visitor.done(said, &page(&name)))
}

pub(super) async fn adopt(
    visitor: Visitor,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let registry = registry()?;
    let Some(profile) = registry.get(&config.spec.profile) else {
        let profile = &config.spec.profile;
        return Err(Problem::invalid(format!("There is no profile {profile}.")));
    };
    let adoption = answer::adopt(&**profile, &config, fields.get("path"))?;
    let fields: Vec<&str> = adoption.adopted.iter().map(|it| it.path.as_str()).collect();
    let review = if adoption.is_for_review(&config) {
        " What was not adopted comes as a plan for review."
    } else {
        ""
    };
    let said = format!("Adopted as options: {}.{review}", fields.join(", "));
    let patch = adoption.patch(&config);
    change(&visitor, &config, patch, &said, &name).await
}

pub(super) async fn roll_back(
    visitor: Visitor,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let text = fields.need("revision")?;
    let asked: i64 = text.parse().map_err(|_| {
        Problem::invalid(format!(
            "{text:?} is no revision; the number of one is needed."
        ))
    })?;
    let records = records(visitor.client(), visitor.namespace(), &name).await?;
    let revision = answer::revision(&records, Some(asked), &name)?;
    let patch = answer::roll_back(&config, revision)?;
    let said = format!(
        "A plan is being made that undoes revision {revision} and all later ones. Nothing is undone before you approve it."
    );
    change(&visitor, &config, patch, &said, &name).await
}

pub(super) async fn go_forward(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let patch = answer::go_forward(&config)?;
    let said = "It is not rolled back any more. What the profile wants comes as a plan for review.";
    change(&visitor, &config, patch, said, &name).await
}
