//! Actions on a plan: the same spec changes as on the command line.

use ::governance::recorder::{self, Recorder};
use ::governance::user_patches::{self, ApprovalScope, PatchError};
use api::advisor::{Action, VirtPlatformConfig};
use axum::extract::Path;
use axum::response::Response;
use cluster_view::history::records;
use edits::Configs;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::PATH;
use crate::MANAGER;
use crate::error::Problem;
use crate::visitor::{Fields, Visitor};

impl From<PatchError> for Problem {
    fn from(refused: PatchError) -> Self {
        Self::invalid(refused.to_string())
    }
}

/// Performs an action, and redirects to the page of the configuration.
pub(super) async fn act(
    visitor: Visitor,
    Path((name, action)): Path<(String, String)>,
    fields: Fields,
) -> Result<Response, Problem> {
    let configs = Configs::new(visitor.client(), MANAGER);
    let config = configs.get(&name).await?;
    let (changed, message) = match action.as_str() {
        "approve" => approve(&visitor, &configs, &config, &fields).await?,
        "plan" => {
            let changed = configs.renew(&config).await?;
            (changed, "A plan is being computed.".to_owned())
        }
        "ignore" => {
            let patch = json!({ "spec": { "action": Action::Ignore } });
            let changed = configs.change_ignoring_plan(&config, patch).await?;
            let message =
                "The configuration is ignored from now on: nothing is planned, applied or watched.";
            (changed, message.to_owned())
        }
        other => {
            let (patch, message) = match other {
                "reject" => reject(&config, &fields)?,
                "adopt" => adopt(&config, &fields)?,
                "roll-back" => roll_back(&visitor, &config, &fields).await?,
                "go-forward" => {
                    let message = "The rollback is cancelled. The operator plans the desired state of the profile for review.";
                    (user_patches::go_forward(&config)?, message.to_owned())
                }
                _ => return Err(Problem::missing("There is no such page.")),
            };
            (configs.change(&config, patch).await?, message)
        }
    };
    // Waits for the watch, so that the page after the redirect shows the change and not the state
    // before it.
    visitor.viewer().saw(&changed).await;
    Ok(visitor.done(message, &format!("{PATH}/{name}")))
}

async fn approve(
    visitor: &Visitor,
    configs: &Configs,
    config: &VirtPlatformConfig,
    fields: &Fields,
) -> Result<(VirtPlatformConfig, String), Problem> {
    let items: Vec<String> = fields.all("item").map(str::to_owned).collect();
    if items.is_empty() {
        return Err(Problem::invalid(
            "No item is selected. Select the items to apply, or reject the plan.",
        ));
    }
    let all = config.status.as_ref().map_or(0, |it| it.items.len()) == items.len();
    let taken: Vec<String> = fields.all("takeover").map(str::to_owned).collect();
    let approving = user_patches::approve(
        config,
        ApprovalScope {
            items: if all { &[] } else { &items },
            // An empty list would mean all takeovers.
            take_over: (!taken.is_empty()).then_some(&taken[..]),
            digest: Some(fields.need("digest")?),
        },
    )?;
    let changed = configs.change(config, approving.patch()).await?;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(visitor.client().clone());
    // Users who cannot read webhook configurations see the operator's report a moment later.
    let recorder = match webhooks.get_opt(api::advisor::WEBHOOK).await {
        Ok(found) => recorder::verify(found.as_ref(), None),
        Err(_) => Recorder::Trusted,
    };
    let message = match approving.held(&changed, &recorder, Timestamp::now()) {
        Ok(None) => "The plan is approved and is being applied.".to_owned(),
        Ok(Some(held)) => format!("You approved the plan. It is not applied yet: {held}"),
        Err(why) => format!("You approved the plan, but {why}"),
    };
    Ok((changed, message))
}

fn reject(config: &VirtPlatformConfig, fields: &Fields) -> Result<(Value, String), Problem> {
    let status = config.status.as_ref();
    let digest = status.and_then(|it| it.plan_digest.as_deref());
    if digest != Some(fields.need("digest")?) {
        return Err(Problem::invalid(
            "The plan has changed. Review the new one before you reject it.",
        ));
    }
    let patch = user_patches::reject(config, fields.get("reason"))?;
    Ok((patch, "The plan is rejected.".to_owned()))
}

fn adopt(config: &VirtPlatformConfig, fields: &Fields) -> Result<(Value, String), Problem> {
    let registry = edits::registry()?;
    let Some(profile) = registry.get(&config.spec.profile) else {
        let profile = &config.spec.profile;
        return Err(Problem::invalid(format!("There is no profile {profile}.")));
    };
    let adoption = user_patches::adopt(&**profile, config, fields.get("path"))?;
    let adopted: Vec<&str> = adoption.adopted.iter().map(|it| it.path.as_str()).collect();
    let review = if adoption.is_for_review(config) {
        " The operator plans the revert of other drift for review."
    } else {
        ""
    };
    let message = format!("Adopted as options: {}.{review}", adopted.join(", "));
    Ok((adoption.patch(config), message))
}

async fn roll_back(
    visitor: &Visitor,
    config: &VirtPlatformConfig,
    fields: &Fields,
) -> Result<(Value, String), Problem> {
    let name = config.name_any();
    let text = fields.need("revision")?;
    let asked: i64 = text
        .parse()
        .map_err(|_| Problem::invalid(format!("{text:?} is not a revision number.")))?;
    let records = records(visitor.client(), visitor.namespace(), &name).await?;
    let revision = user_patches::revision(&records, Some(asked), &name)?;
    let message = format!(
        "A plan is being computed that reverts revision {revision} and all later ones. Nothing is reverted before you approve it."
    );
    Ok((user_patches::roll_back(config, revision)?, message))
}
