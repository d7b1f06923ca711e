//! Actions on a plan: the same spec changes as on the command line.

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

/// Writes a change, and redirects to the page of the configuration.
async fn change(
    visitor: &Visitor,
    config: &VirtPlatformConfig,
    patch: Value,
    message: &str,
    name: &str,
) -> Result<Response, Problem> {
    let changed = configs(visitor).change(config, patch).await?;
    visitor.viewer().saw(&changed).await;
    Ok(visitor.done(message, &page(name)))
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
            "No item is selected. Select the items to apply, or reject the plan.",
        ));
    }
    let status = config.status.clone().unwrap_or_default();
    let all = items.len() == status.items.len();
    let taken: Vec<String> = fields.all("takeover").map(str::to_owned).collect();
    let approving = answer::approve(
        &config,
        Choice {
            items: if all { &[] } else { &items },
            // An empty list would mean all takeovers.
            take_over: (!taken.is_empty()).then_some(&taken[..]),
            digest: Some(fields.need("digest")?),
        },
    )?;
    let changed = configs(&visitor).change(&config, approving.patch()).await?;
    visitor.viewer().saw(&changed).await;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(visitor.client().clone());
    // Users who cannot read webhook configurations see the operator's report a moment later.
    let recorder = match webhooks.get_opt(controllers::governance::WEBHOOK).await {
        Ok(found) => recorder::verify(found.as_ref(), None),
        Err(_) => Recorder::Trusted,
    };
    let message = match approving.held(&changed, &recorder, Timestamp::now()) {
        Ok(None) => "The plan is approved and is being applied.".to_owned(),
        Ok(Some(held)) => format!("You approved the plan. It is not applied yet: {held}"),
        Err(why) => format!("You approved the plan, but {why}"),
    };
    Ok(visitor.done(message, &page(&name)))
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
            "The plan has changed. Review the new one before you reject it.",
        ));
    }
    let patch = answer::reject(&config, fields.get("reason"))?;
    change(&visitor, &config, patch, "The plan is rejected.", &name).await
}

/// Requests a plan, or a new one.
pub(super) async fn plan(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let configs = configs(&visitor);
    let config = configs.get(&name).await?;
    let changed = configs.renew(&config).await?;
    visitor.viewer().saw(&changed).await;
    Ok(visitor.done("A plan is being computed.", &page(&name)))
}

pub(super) async fn ignore(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let configs = configs(&visitor);
    let config = configs.get(&name).await?;
    let patch = json!({ "spec": { "action": Action::Ignore } });
    let changed = configs.change_ignoring_plan(&config, patch).await?;
    visitor.viewer().saw(&changed).await;
    let message =
        "The configuration is ignored from now on: nothing is planned, applied or watched.";
    Ok(visitor.done(message, &page(&name)))
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
        " Drift that was not adopted comes as a plan for review."
    } else {
        ""
    };
    let message = format!("Adopted as options: {}.{review}", fields.join(", "));
    let patch = adoption.patch(&config);
    change(&visitor, &config, patch, &message, &name).await
}

pub(super) async fn roll_back(
    visitor: Visitor,
    Path(name): Path<String>,
    fields: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let text = fields.need("revision")?;
    let asked: i64 = text
        .parse()
        .map_err(|_| Problem::invalid(format!("{text:?} is not a revision number.")))?;
    let records = records(visitor.client(), visitor.namespace(), &name).await?;
    let revision = answer::revision(&records, Some(asked), &name)?;
    let patch = answer::roll_back(&config, revision)?;
    let message = format!(
        "A plan is being computed that reverts revision {revision} and all later ones. Nothing is reverted before you approve it."
    );
    change(&visitor, &config, patch, &message, &name).await
}

pub(super) async fn go_forward(
    visitor: Visitor,
    Path(name): Path<String>,
    _checked: Fields,
) -> Result<Response, Problem> {
    let config = configs(&visitor).get(&name).await?;
    let patch = answer::go_forward(&config)?;
    let message =
        "The rollback is cancelled. The desired state of the profile comes as a plan for review.";
    change(&visitor, &config, patch, message, &name).await
}
