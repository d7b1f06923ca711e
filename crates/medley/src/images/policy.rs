//! Reading and changing the GoldenImagePolicy of a cluster.

use anyhow::{anyhow, bail};
use api::golden::{GROUP, GoldenImagePolicy, GoldenImagePolicySpec, ImagePolicy, NAME, PLURAL};
use golden::policy::Policy;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::change::ChangeArguments;
use crate::governance::configs::{ATTEMPTS, MANAGER, said};
use crate::governance::output::remark;

/// The policy of a cluster.
pub(super) struct Policies {
    api: Api<GoldenImagePolicy>,
}

impl Policies {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            api: Api::all(client.clone()),
        }
    }

    /// What it means; the usual, where there is none. What makes no sense in it is said.
    pub(super) async fn policy(&self) -> anyhow::Result<Policy> {
        let found = self.read().await?;
        let (policy, wrong) = Policy::read(&found.map(|it| it.spec).unwrap_or_default());
        for wrong in wrong {
            remark(&format!("GoldenImagePolicy {NAME}: {wrong}"));
        }
        Ok(policy)
    }

    async fn read(&self) -> anyhow::Result<Option<GoldenImagePolicy>> {
        match self.api.get(NAME).await {
            Ok(found) => Ok(Some(found)),
            // Also a kind that nobody serves is answered with 404.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(said(error).context(format!("reading GoldenImagePolicy {NAME}"))),
        }
    }

    /// Says something else about images. What others say in the meantime stays.
    pub(super) async fn change(
        &self,
        how: &ChangeArguments,
        edit: impl Fn(&GoldenImagePolicySpec) -> Vec<ImagePolicy>,
    ) -> anyhow::Result<()> {
        let failed = |error| said(error).context(format!("changing GoldenImagePolicy {NAME}"));
        for _ in 0..ATTEMPTS {
            let found = self.read().await?;
            let images = edit(&found.as_ref().map(|it| it.spec.clone()).unwrap_or_default());
            if !how.is_sent() {
                return Ok(());
            }
            let outcome = if let Some(found) = found {
                let patch = Patch::Merge(json!({
                    "metadata": { "resourceVersion": found.resource_version() },
                    "spec": { "images": images },
                }));
                let params = PatchParams {
                    field_manager: Some(MANAGER.to_owned()),
                    dry_run: how.is_tried(),
                    ..PatchParams::default()
                };
                self.api.patch(NAME, &params, &patch).await
            } else {
                self.installed().await?;
                let spec = GoldenImagePolicySpec {
                    images,
                    ..GoldenImagePolicySpec::default()
                };
                let params = PostParams {
                    field_manager: Some(MANAGER.to_owned()),
                    dry_run: how.is_tried(),
                };
                let new = GoldenImagePolicy::new(NAME, spec);
                self.api.create(&params, &new).await
            };
            match outcome {
                Ok(_) => return Ok(()),
                // Somebody came before: what they said counts, too.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
        bail!(
            "GoldenImagePolicy {NAME} is changed by others all the time; nothing was done, try again"
        )
    }

    /// Whether the kind is there: that there is no object is told in the same way.
    async fn installed(&self) -> anyhow::Result<()> {
        match self.api.list(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(anyhow!(
                "GoldenImagePolicy is not installed: the cluster has no CustomResourceDefinition {PLURAL}.{GROUP}; it comes with the operator"
            )),
            Err(error) => Err(said(error).context("listing GoldenImagePolicies")),
        }
    }
}
